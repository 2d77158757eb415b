-- localization.lua: how far the places a model gives are from the true ones, in px of the image.
--
-- A point that the truth marks as not to be seen does not count. An image counts as hit when all of its points are.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local interval = require "meter.interval"
local kept = require "meter.kept"
local meters = require "meter"
local pending = require "meter.pending"

local OP = "LocalizationMeter"
local WORST = 24

local function worse(a, b)
  if a.distance ~= b.distance then return a.distance > b.distance end
  return a.id < b.id
end

local Localization = {kind = "localization", ways = {mae = "min", rmse = "min"}}
Localization.__index = Localization

local spec = {
  {"points", "table"}, {"names", "table"}, {"hits", "table"}, {"distance", "string", default = "euclidean"},
  {"decode", "function"}, {"loader", "table"}, {"main", "string", default = "mae"}, {"merge", "table"},
  {"worst", "whole", default = WORST},
}

local function check_options(o)
  if o.merge then check.fail(OP, "merge is for texts") end
  check.one_of(OP, "distance", o.distance, {"euclidean", "l1"})
  local mains = {"mae", "rmse"}
  for _, px in ipairs(o.hits) do
    if type(px) ~= "number" or not (px > 0) then check.fail(OP, "hits lists distances in px, such as {2, 5}") end
    mains[#mains + 1] = ("hit_%g"):format(px)
  end
  check.one_of(OP, "main", o.main, mains)
end

--- train.LocalizationMeter{…}: a meter for places in images.
-- opts points = which of the source's points the model gives, {1, 2} (as many of the first as the output has); names =
--      of these; hits = {2, 5}: distances in px within which a point is hit; distance = "euclidean" | "l1" (px across
--      plus px down);
--      decode = function(output, batch) -> (N,P,2) x and y in px, where the output is none; loader = names its samples;
--      main = "mae" | "rmse" | "hit_2" …: the metric that says which of two models is better; worst = 24 images to keep
-- errs value: unknown option
local function new(opts)
  local o = check.options(OP, spec, opts)
  o.hits = o.hits or {2, 5}
  check_options(o)
  local self = setmetatable({
    points = o.points, names = o.names or {}, hits = o.hits, distance = o.distance, decode = o.decode,
    loader = o.loader, main = o.main, better = o.main:match("^hit") and "max" or "min", n = 0,
    all = nil, each = {}, kept = kept.ends(o.worst, worse), image_hits = {}, images = 0,
  }, Localization)
  self.waiting = pending.new(function(columns, ids, notes)
    self.P = notes[1].P
    self:read_columns(columns, ids)
  end)
  return self
end

-- ---- counting ----

-- (N,P,2) of an output (N,P,2) or (N,P*2).
local function places(output, N)
  local count = output:numel() / N
  if output:size(1) ~= N or count % 2 ~= 0 then
    check.fail("train.evaluate", ("the model's output is (%s); it should hold x and y of each point"):format(
      table.concat(output:size(), ",")),
      "train.LocalizationMeter{decode = function(output, batch) return points end} reads others")
  end
  return output:to("f32"):reshape(N, count / 2, 2)
end

-- (N,P,3) of the truth: the points that the model gives.
local function meant(self, truth, P)
  if self.points then
    local parts = {}
    for i, number in ipairs(self.points) do
      if number > truth:size(2) then
        check.fail(OP, ("the samples have %d points, not %d"):format(truth:size(2), number))
      end
      parts[i] = truth:narrow(2, number, 1)
    end
    truth = #parts == 1 and parts[1] or core.op.concat(parts, {dim = 2})
  end
  if P > truth:size(2) or self.points and P ~= truth:size(2) then
    check.fail("train.evaluate", ("the model gives %d points, the samples have %d"):format(P, truth:size(2)))
  end
  return truth:narrow(2, 1, P)
end

local function distances(self, got, want)
  local d = got - want
  if self.distance == "l1" then return d:abs():sum(3) end
  return (d * d):sum(3):sqrt()
end

local function add(self, output, batch)
  local points = meters.field(OP, batch, "points")
  local N = points:size(1)
  local got = places(self.decode and self.decode(output, batch) or output, N)
  local truth = meant(self, points, got:size(2))
  self.P = got:size(2)
  self.waiting:add({distances(self, got, truth:narrow(3, 1, 2)), truth:narrow(3, 3, 1), got,
    truth:narrow(3, 1, 2)}, batch.ids or N, {P = self.P})
end

--- Counts a batch; nothing is read from the device until metrics are computed.
-- in   output (N,P,2) or (N,P*2): x and y in px; batch with points (N,P,3): x, y, 1 = to be seen
-- errs value: other sizes
function Localization:add(output, batch) return core.no_grad(add, self, output, batch) end

local function count(sums, d, hits)
  sums = sums or {n = 0, sum = 0, squares = 0, hits = {}}
  sums.n, sums.sum, sums.squares = sums.n + 1, sums.sum + d, sums.squares + d * d
  for i, px in ipairs(hits) do sums.hits[i] = (sums.hits[i] or 0) + (d <= px and 1 or 0) end
  return sums
end

-- Where a point is, for its spread.
local function count_place(sums, x, y)
  sums.x, sums.y = (sums.x or 0) + x, (sums.y or 0) + y
  sums.far = (sums.far or 0) + x * x + y * y
end

-- Root mean square distance of a point's true places from the middle of them.
local function spread_of(sums)
  local n = sums.n
  return math.sqrt(math.max(0, sums.far / n - (sums.x / n) ^ 2 - (sums.y / n) ^ 2))
end

-- -> greatest distance of the image's points; nil when none can be seen
local function count_image(self, columns, first, id)
  local most
  for p = 1, self.P do
    local d, seen = columns[1][first + p], columns[2][first + p]
    if seen > 0 then
      if d ~= d then
        core.error{code = "value", op = OP, path = false,
          message = ("the model's output for sample %d is not finite"):format(id)}
      end
      self.all, self.each[p] = count(self.all, d, self.hits), count(self.each[p], d, self.hits)
      count_place(self.each[p], columns[4][2 * (first + p) - 1], columns[4][2 * (first + p)])
      most = math.max(most or 0, d)
    end
  end
  return most
end

-- List of {x, y} of an image's points.
local function places_of(list, first, P)
  local out = {}
  for p = 1, P do out[p] = {list[2 * (first + p) - 1], list[2 * (first + p)]} end
  return out
end

function Localization:read_columns(columns, ids)
  for i, id in ipairs(ids) do
    local most = count_image(self, columns, (i - 1) * self.P, id)
    if most then
      self.images = self.images + 1
      for k, px in ipairs(self.hits) do self.image_hits[k] = (self.image_hits[k] or 0) + (most <= px and 1 or 0) end
      self.kept:add{id = id, distance = most, read = places_of(columns[3], (i - 1) * self.P, self.P)}
    end
  end
  self.n = self.n + #ids
end

-- ---- metrics ----

local function put_share(out, name, right, n)
  out[name], out[name .. "_low"], out[name .. "_high"] = interval.share(right, n)
end

local function put_sums(out, prefix, sums, hits)
  if not sums then return end
  out[prefix .. "mae"], out[prefix .. "rmse"] = sums.sum / sums.n, math.sqrt(sums.squares / sums.n)
  for i, px in ipairs(hits) do put_share(out, ("%shit_%g"):format(prefix, px), sums.hits[i], sums.n) end
end

function Localization:name(p) return tostring(self.names[p] or "point" .. (self.points and self.points[p] or p)) end

--- The metrics, in px of the image.
-- out  n: images; points: those that could be seen; mae, rmse: mean and root mean square of the distances; hit_2, hit_5
--      …: share of points within so many px, with their 95 % interval (…_low, …_high); images_2 …: share of images all
--      of whose points are; and all but the last once more for each point, with its name before them: gap_mae …
function Localization:result()
  self.waiting:flush()
  local out = {role = self.role, n = self.n, points = self.all and self.all.n or 0}
  put_sums(out, "", self.all, self.hits)
  for i, px in ipairs(self.hits) do put_share(out, ("images_%g"):format(px), self.image_hits[i] or 0, self.images) end
  for p = 1, (self.P or 1) > 1 and self.P or 0 do put_sums(out, self:name(p) .. "_", self.each[p], self.hits) end
  return out
end

local function hits_text(r, prefix, hits)
  local parts = {}
  for i, px in ipairs(hits) do
    local name = ("%shit_%g"):format(prefix, px)
    parts[i] = ("within %g px %.2f %% [%.2f, %.2f]"):format(px, 100 * r[name], 100 * r[name .. "_low"],
      100 * r[name .. "_high"])
  end
  return table.concat(parts, ", ")
end

--- "MAE 1.94 px, RMSE 2.51 px, within 2 px 61.00 % [57.92, 64.00], …, n 1000"
function Localization:line()
  local r = self:result()
  if r.points == 0 then return ("no visible point, n %d"):format(r.n) end
  return ("MAE %.2f px, RMSE %.2f px, %s, n %d"):format(r.mae, r.rmse, hits_text(r, "", self.hits), r.n)
end

--- List of {name, text}: the metrics, then those of each point.
function Localization:lines()
  local r, out = self:result(), {{"", self:line()}}
  for p = 1, (self.P or 1) > 1 and self.P or 0 do
    local prefix = self:name(p) .. "_"
    if r[prefix .. "mae"] then
      out[#out + 1] = {self:name(p), ("MAE %.2f px, RMSE %.2f px, %s"):format(r[prefix .. "mae"], r[prefix .. "rmse"],
        hits_text(r, prefix, self.hits))}
    end
  end
  return out
end

--- {wrong = images whose farthest point is farthest off: {id, distance, read = {{x, y}, …}}, right = those where it is
-- nearest}
function Localization:samples()
  self.waiting:flush()
  return self.kept:samples(function(e) return e.distance == 0 end)
end

--- result() and by_point: list of {name, n, spread, mae, rmse, hit_2, …}, of the points that could be seen; spread:
-- root mean square distance of the true places from the middle of them
function Localization:write()
  local out = self:result()
  out.by_point = {}
  for p = 1, self.P or 0 do
    if self.each[p] then
      local row = {name = self:name(p), n = self.each[p].n, spread = spread_of(self.each[p])}
      put_sums(row, "", self.each[p], self.hits)
      table.insert(out.by_point, row)
    end
  end
  return out
end

return {new = new}
