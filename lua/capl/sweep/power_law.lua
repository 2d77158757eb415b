-- power_law.lua: how errors fall with the number of images: error = a * n^-b, and what that says of sets not tried yet.
--
-- Errors of learners follow a power law over a wide range (Hestness et al., "Deep learning scaling is predictable, empirically",
-- 2017). A few points decide it badly, so every statement comes with how far the counts behind the points leave it open.
-- SPDX-License-Identifier: Apache-2.0
local power_law = {}

local DRAWS = 400 -- of counts that might as well have been seen
local FAR = 10 -- times the largest set: beyond, nothing is said

-- Weighted least squares of log error over log images. points: {images, wrong (may be a half), n}
local function line_through(points)
  local sum, sx, sy, sxx, sxy = 0, 0, 0, 0, 0
  for _, p in ipairs(points) do
    local x, y, weight = math.log(p.images), math.log(p.wrong / p.n), p.wrong -- variance of a logarithm of a count: 1 / count
    sum, sx, sy, sxx, sxy = sum + weight, sx + weight * x, sy + weight * y, sxx + weight * x * x, sxy + weight * x * y
  end
  local spread = sum * sxx - sx * sx
  if spread <= 1e-12 * sum * sxx then return nil end
  local slope = (sum * sxy - sx * sy) / spread
  return {a = math.exp((sy - slope * sx) / sum), b = -slope}
end

-- No mistake at all is half a one.
local function counts(points)
  local out = {}
  for i, p in ipairs(points) do
    local wrong = (1 - p.exact) * p.n
    out[i] = {images = p.images, n = p.n, wrong = math.min(math.max(wrong, 0.5), p.n - 0.5)}
  end
  return out
end

-- A normal number from a fixed sequence: the same points give the same interval.
local function normals()
  local seed = 20170926
  local function uniform()
    seed = (seed * 16807) % 2147483647
    return seed / 2147483647
  end
  return function() return math.sqrt(-2 * math.log(uniform())) * math.cos(2 * math.pi * uniform()) end
end

local function drawn(points, normal)
  local out = {}
  for i, p in ipairs(points) do
    local spread = math.sqrt(p.wrong * (1 - p.wrong / p.n))
    out[i] = {images = p.images, n = p.n, wrong = math.min(math.max(p.wrong + spread * normal(), 0.25), p.n - 0.25)}
  end
  return out
end

local Law = {}
Law.__index = Law

local function error_at(line, images) return line.a * images ^ -line.b end
local function images_for(line, wrong) return line.b > 0 and (line.a / wrong) ^ (1 / line.b) or math.huge end

local function quantiles(values)
  table.sort(values)
  return values[math.max(1, math.floor(0.025 * #values))], values[math.ceil(0.975 * #values)]
end

--- The law through points {images =, exact = share read right, n = of so many}, at least two numbers of images.
-- out {a, b} with error(images) -> share, low, high; images(exact) -> how many, low, high; nil when points say nothing
function power_law.fit(points)
  local given = counts(points)
  local line = line_through(given)
  if not line then return nil end
  local self = setmetatable({a = line.a, b = line.b, draws = {}, most = 0}, Law)
  local normal = normals()
  for _ = 1, DRAWS do self.draws[#self.draws + 1] = line_through(drawn(given, normal)) end
  for _, p in ipairs(points) do self.most = math.max(self.most, p.images) end
  return self
end

local function range(self, fn, what)
  local values = {}
  for i, line in ipairs(self.draws) do values[i] = fn(line, what) end
  return quantiles(values)
end

function Law:error(images) return math.min(1, error_at(self, images)), range(self, error_at, images) end

function Law:images(exact) return images_for(self, 1 - exact), range(self, images_for, 1 - exact) end

--- Whether more images help as far as the points tell: also the most careless of 40 draws falls.
function Law:falls()
  local slopes = {}
  for i, line in ipairs(self.draws) do slopes[i] = line.b end
  return self.b > 0 and quantiles(slopes) > 0
end

--- Whether a number of images is too far from those tried to say anything.
function Law:is_far(images) return not (images < FAR * self.most) end

return power_law
