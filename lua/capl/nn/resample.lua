-- resample.lua: resizing by tables made here: bicubic as a product with a matrix of weights along each axis,
-- nearest-exact by the rows and columns that are read.
--
-- Tables are kept, so that a step that is repeated makes none.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local op = core.op
local MOST = 64 -- tables kept
local A = -0.75 -- of the cubic convolution, as PyTorch and OpenCV have it; R. Keys, 1981

local kept, count = {}, 0

local function remember(key, make)
  if not kept[key] then
    if count == MOST then kept, count = {}, 0 end
    kept[key], count = make():keep(), count + 1
  end
  return kept[key]
end

-- Weight of a pixel at distance d, 0 to 2.
local function cubic(d)
  if d <= 1 then return ((A + 2) * d - (A + 3)) * d * d + 1 end
  return ((A * d - 5 * A) * d + 8 * A) * d - 4 * A
end

-- Inputs per output along an axis.
local function ratio_of(n, out, scale, align)
  if align then return out > 1 and (n - 1) / (out - 1) or 0 end
  return scale and 1 / scale or n / out
end

-- (out, n): each output as a weighted sum of inputs.
local function cubic_matrix(n, out, scale, align, device)
  local rows, ratio = {}, ratio_of(n, out, scale, align)
  for o = 0, out - 1 do
    local at, row = align and o * ratio or (o + 0.5) * ratio - 0.5, {}
    local first = math.floor(at)
    for i = 1, n do row[i] = 0 end
    for tap = first - 1, first + 2 do
      local i = 1 + math.min(math.max(tap, 0), n - 1)
      row[i] = row[i] + cubic(math.abs(at - tap))
    end
    rows[o + 1] = row
  end
  return core.tensor(rows, {dtype = "f32", device = device}) -- no op: a model that is saved has it as a constant
end

local function nearest_places(n, out, scale, device)
  local places, ratio = {}, ratio_of(n, out, scale, false)
  for o = 0, out - 1 do places[o + 1] = math.min(math.floor((o + 0.5) * ratio), n - 1) end
  return core.tensor(places, {dtype = "i64", device = device})
end

local function out_size(attrs, axis, n)
  if attrs.size then return attrs.size[axis] end
  return math.floor(n * (axis == 1 and attrs.scale_h or attrs.scale_w))
end

local function along(x, dim, attrs)
  local axis = dim - 2
  local n, scale = x:size(dim), not attrs.size and (axis == 1 and attrs.scale_h or attrs.scale_w) or nil
  local out = out_size(attrs, axis, n)
  if n < 1 or out < 1 then
    core.error{code = "shape", op = "interpolate",
      message = ("%d px cannot become %d along dim %d"):format(n, out, dim), context = "x " .. core.describe(x)}
  end
  local key = table.concat({attrs.mode, n, out, tostring(scale), tostring(attrs.align_corners), x.device}, " ")
  if attrs.mode == "nearest-exact" then
    return x:index_select(dim, remember(key, function() return nearest_places(n, out, scale, x.device) end))
  end
  local matrix = remember(key, function() return cubic_matrix(n, out, scale, attrs.align_corners, x.device) end)
  if dim == 4 then return op.matmul(x, matrix, {transpose_b = true}) end
  return op.matmul(matrix, x)
end

--- Images of other sizes: mode "bicubic" or "nearest-exact"; attrs as those of the op interpolate.
return function(x, attrs)
  if attrs.mode == "nearest-exact" then return along(along(x, 3, attrs), 4, attrs) end
  local dtype = x.dtype
  local y = along(along(dtype == "f64" and x or x:float(), 3, attrs), 4, attrs)
  return y.dtype == dtype and y or y:to(dtype)
end
