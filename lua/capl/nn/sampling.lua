-- sampling.lua: images made larger or smaller, and read at any places.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"

local resample = require "nn.resample"

local op = core.op
local sampling = {}

-- A number for both axes, or {vertical, horizontal}, of numbers above 0.
local function scales_of(fname, value)
  local pair = type(value) == "number" and {value, value} or value
  for _, v in ipairs{pair[1] or false, pair[2] or false} do
    if #pair ~= 2 or type(v) ~= "number" or not (v > 0 and v < math.huge) then
      check.fail(fname, "scale_factor is a number above 0 or a list of two: {vertical, horizontal}")
    end
  end
  return pair
end

local resize_spec = {
  {"size", "whole", "table"}, {"scale_factor", "number", "table"}, {"mode", "string", default = "nearest"},
  {"align_corners", "boolean", default = false}, {"recompute_scale_factor", "boolean", default = false}, positional = 0,
}

-- The attributes of op interpolate. scaled: sizes follow from x, so that recompute_scale_factor needs them.
local function resize_attributes(fname, o)
  check.one_of(fname, "mode", o.mode, {"nearest", "linear", "bilinear", "bicubic", "area", "nearest-exact"})
  if (o.size == nil) == (o.scale_factor == nil) then
    check.fail(fname, o.size and "size and scale_factor are both given" or "neither size nor scale_factor is given",
      "size = {height, width} in px, or scale_factor = 2")
  end
  if o.align_corners and (o.mode == "area" or o.mode:find("nearest", 1, true)) then
    check.fail(fname, ("align_corners is about mode = \"bilinear\", mode is \"%s\""):format(o.mode))
  end
  local attrs = {mode = o.mode, align_corners = o.align_corners}
  if o.size then attrs.size = check.pair(fname, "size", o.size, 1) end
  if o.scale_factor then
    local pair = scales_of(fname, o.scale_factor)
    attrs.scale_h, attrs.scale_w = pair[1], pair[2]
  end
  return attrs
end

-- Modes for sequences (N, C, L), as those of images of one row.
local of_sequences = {linear = "bilinear", nearest = "nearest", area = "area", ["nearest-exact"] = "nearest-exact"}

local function check_mode(x, attrs)
  local sequence, known = x.ndim == 3, of_sequences[attrs.mode]
  if sequence and known or x.ndim == 4 and attrs.mode ~= "linear" then return sequence end
  local takes = attrs.mode == "linear" and "sequences (N,C,L)" or known and "images (N,C,H,W) and sequences (N,C,L)"
    or "images (N,C,H,W)"
  core.error{code = "shape", op = "interpolate", context = "x " .. core.describe(x),
    message = ("mode \"%s\" is for %s, x has %d dims"):format(attrs.mode, takes, x.ndim),
    hint = sequence and "linear is the mode for sequences" or x.ndim == 4 and "bilinear is the one for images" or nil}
end

-- The attributes for a sequence as an image of one row: its length is what a number says.
local function of_row(attrs)
  local size, h, w = attrs.size or {}, attrs.scale_h, attrs.scale_w
  if size[1] ~= size[2] or h ~= w then
    core.error{code = "shape", op = "interpolate",
      message = "x is a sequence (N,C,L): size and scale_factor are numbers"}
  end
  return {mode = of_sequences[attrs.mode], align_corners = attrs.align_corners, size = size[1] and {1, size[2]},
    scale_h = h and 1, scale_w = w}
end

local function size_of(x, attrs)
  return {math.floor(x:size(3) * attrs.scale_h), math.floor(x:size(4) * attrs.scale_w)}
end

-- With recompute_scale_factor positions follow from the two sizes, without it from the scale as given.
local function resize(x, attrs, recompute)
  if check_mode(x, attrs) then return resize(x:unsqueeze(3), of_row(attrs), recompute):squeeze(3) end
  if recompute and attrs.scale_h then
    attrs = {mode = attrs.mode, align_corners = attrs.align_corners, size = size_of(x, attrs)}
  end
  if attrs.mode == "area" then return (op.adaptive_avg_pool2d(x, {output = attrs.size or size_of(x, attrs)})) end
  if attrs.mode == "bicubic" or attrs.mode == "nearest-exact" then return resample(x, attrs) end
  return (op.interpolate(x, attrs))
end

--- nn.interpolate(x, options): resizes images, or sequences.
-- in   x (N, C, H, W), or (N, C, L) with mode nearest, linear, area or nearest-exact
-- out  y (N, C, H', W'), or (N, C, L')
-- opts size = px or {H', W'}, or scale_factor = s or {s, s}: H' = floor(H * s); mode = "nearest"|"linear"|"bilinear"|
--      "bicubic"|"area"|"nearest-exact"; area: the mean of what a pixel covers, as nn.AdaptiveAvgPool2d; bicubic is a
--      product with a matrix along each axis, which takes long for large images; align_corners = false (linear,
--      bilinear, bicubic: true keeps the centres of the corner pixels in the corners);
--      recompute_scale_factor = false (true: positions follow from the sizes, not from a scale_factor that is no whole
--      number)
-- errs value: neither or both of size and scale_factor; shape: x has other dims than the mode takes
-- eg   nn.interpolate(capl.zeros(1, 3, 8, 20), {scale_factor = 2, mode = "bilinear"}):size(4)  --> 40
function sampling.interpolate(x, options)
  check.arg(1, "interpolate", "tensor", x)
  local o = check.options("nn.interpolate", resize_spec, options)
  return resize(x, resize_attributes("nn.interpolate", o), o.recompute_scale_factor)
end

--- A layer that resizes images.
-- opts nn.Upsample{size = …} or nn.Upsample{scale_factor = …}; mode, align_corners, recompute_scale_factor as
--      nn.interpolate
-- eg   nn.Upsample{scale_factor = {1, 2}}(capl.zeros(1, 3, 8, 20)):size(4)  --> 40
sampling.Upsample = classes.class("Upsample", require "nn.module")
sampling.Upsample.pure = true

function sampling.Upsample:init(...)
  local o = check.arguments("nn.Upsample", resize_spec, ...)
  self.attributes, self.recompute = resize_attributes("nn.Upsample", o), o.recompute_scale_factor
end

function sampling.Upsample:forward(x)
  local y = resize(x, self.attributes, self.recompute)
  return y
end

function sampling.Upsample:extra()
  local a = self.attributes
  local what = a.size and ("%dx%d"):format(a.size[1], a.size[2]) or ("x%g"):format(a.scale_h)
  if a.scale_h and a.scale_h ~= a.scale_w then what = ("x%g, x%g"):format(a.scale_h, a.scale_w) end
  return what .. ", " .. a.mode .. (a.align_corners and ", corners aligned" or "")
end

local grid_spec = {
  {"mode", "string", default = "bilinear"}, {"padding_mode", "string", default = "zeros"},
  {"align_corners", "boolean", default = false}, positional = 0,
}

--- nn.grid_sample(x, grid[, options]): samples images at the coordinates of grid, with gradients for both.
-- in   x (N, C, H, W); grid (N, H', W', 2) of pairs {x, y}: -1 is the left or upper end of the image, 1 the other
-- out  y (N, C, H', W')
-- opts mode = "bilinear"|"nearest", padding_mode = "zeros"|"border"|"reflection", align_corners = false
-- errs shape: grid does not fit x
-- eg   nn.grid_sample(capl.ones(1, 1, 4, 4), capl.zeros(1, 2, 3, 2)):size(4)  --> 3
function sampling.grid_sample(x, grid, options)
  check.arg(1, "grid_sample", "tensor", x)
  check.arg(2, "grid_sample", "tensor", grid)
  local o = check.options("nn.grid_sample", grid_spec, options)
  check.one_of("nn.grid_sample", "mode", o.mode, {"bilinear", "nearest"})
  check.one_of("nn.grid_sample", "padding_mode", o.padding_mode, {"zeros", "border", "reflection"})
  return (op.grid_sample(x, grid, o))
end

-- The coordinates of n pixels: centres from -1 to 1, or of n equal parts of it.
local function coordinates(n, align, device)
  local i = core.arange(0, n, 1, {dtype = "f32", device = device})
  if align then return n > 1 and i * (2 / (n - 1)) - 1 or i end
  return i * (2 / n) + (1 / n - 1)
end

--- nn.affine_grid(theta, size[, {align_corners = false}]): the grid of an affine map for nn.grid_sample.
-- in   theta (N, 2, 3): {x, y} of the source = theta times {x, y, 1} of the result; size {N, C, H, W} of the result
-- out  grid (N, H, W, 2)
-- errs shape: theta is not (N, 2, 3) for size
-- eg   nn.affine_grid(capl.tensor{{{1, 0, 0}, {0, 1, 0}}}, {1, 1, 2, 4}):size(3)  --> 4
function sampling.affine_grid(theta, size, options)
  check.arg(1, "affine_grid", "tensor", theta)
  check.arg(2, "affine_grid", "table", size)
  local align = check.options("nn.affine_grid", {{"align_corners", "boolean", default = false}, positional = 0},
    options).align_corners
  local shape = theta.shape
  if #size ~= 4 or #shape ~= 3 or shape[1] ~= size[1] or shape[2] ~= 2 or shape[3] ~= 3 then
    core.error{code = "shape", op = "nn.affine_grid",
      hint = "size is {N, C, H, W} of the result, theta one matrix {{a, b, c}, {d, e, f}} for each image",
      message = ("theta is %s, size has %d numbers%s: theta must be (N,2,3)"):format(core.describe(theta), #size,
        #size == 4 and (", N = %d"):format(size[1]) or "")}
  end
  local xs = coordinates(size[4], align, theta.device):view(1, 1, size[4])
  local ys = coordinates(size[3], align, theta.device):view(1, size[3], 1)
  local rows = {}
  for r = 1, 2 do
    local function t(column) return theta:narrow(2, r, 1):narrow(3, column, 1) end
    rows[r] = (xs * t(1) + ys * t(2) + t(3)):unsqueeze(4)
  end
  return (op.concat(rows[1], rows[2], {dim = 4}))
end

return sampling
