-- small.lua: layers of a line or two: activations seldom used, pixels and channels rearranged, distances.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"
local Module = require "nn.module"
local pooling = require "nn.pooling"

local small = {}

-- A layer whose options are fields, and whose forward is fn(x, self).
local function layer(name, spec, fn)
  local class = classes.class(name, Module)
  class.pure = true
  function class:init(...)
    for key, value in pairs(check.arguments("nn." .. name, spec, ...)) do self["o_" .. key] = value end
  end
  function class:forward(x)
    local y = fn(check.arg(1, name, "tensor", x), self)
    return y
  end
  small[name] = class
end

local function optional(name, value) return {{name, "number", default = value}, positional = 1} end

--- y = x / (1 + |x|).
-- eg   nn.Softsign()(capl.tensor{3}):item()  --> 0.75
layer("Softsign", {}, function(x) return x:softsign() end)
--- y = x - tanh x.
layer("Tanhshrink", {}, function(x) return x:tanhshrink() end)
--- y = x above 0, alpha * (exp(x / alpha) - 1) below: nn.CELU(alpha = 1).
layer("CELU", optional("alpha", 1), function(x, o) return x:celu(o.o_alpha) end)
--- One half of x along dim times the sigmoid of the other: nn.GLU(dim = -1).
-- eg   nn.GLU()(capl.zeros(2, 6)):size(2)  --> 3
layer("GLU", {{"dim", "whole", default = -1}, positional = 1}, function(x, o) return x:glu(o.o_dim) end)
--- Softmax of -x: nn.Softmin(dim = -1).
layer("Softmin", {{"dim", "whole", default = -1}, positional = 1}, function(x, o) return x:softmin(o.o_dim) end)
--- Softmax over the channels of images (N, C, H, W) or (C, H, W).
layer("Softmax2d", {}, function(x) return x:softmax(-3) end)
--- x moved towards 0 by lambd, 0 within: nn.Softshrink(lambd = 0.5).
layer("Softshrink", optional("lambd", 0.5), function(x, o)
  return (x - x:sign() * o.o_lambd):masked_fill(x:abs():le(o.o_lambd), 0)
end)
--- x, but 0 from -lambd to lambd: nn.Hardshrink(lambd = 0.5).
layer("Hardshrink", optional("lambd", 0.5), function(x, o) return x:masked_fill(x:abs():le(o.o_lambd), 0) end)
--- x where it is above threshold, else value: nn.Threshold(threshold, value).
-- eg   nn.Threshold(1, 20)(capl.tensor{0.5}):item()  --> 20
layer("Threshold", {{"threshold", "number", required = true}, {"value", "number", required = true}, positional = 2},
  function(x, o) return x:masked_fill(x:le(o.o_threshold), o.o_value) end)

--- Channels become blocks of r x r pixels, in PyTorch's order: the opposite of nn.PixelUnshuffle.
-- in   x (N, C*r*r, H, W) -> y (N, C, H*r, W*r)
-- opts nn.PixelShuffle(r)
-- errs shape: channels that r*r does not divide
-- eg   nn.PixelShuffle(2)(capl.zeros(1, 8, 3, 5)):size(4)  --> 10
layer("PixelShuffle", {{"upscale_factor", "whole", required = true, from = 1}, positional = 1}, function(x, o)
  local r = o.o_upscale_factor
  if x.ndim == 3 then return small.PixelShuffle(r)(x:unsqueeze(1)):squeeze(1) end
  if x.ndim ~= 4 or x:size(2) % (r * r) ~= 0 then
    core.error{code = "shape", op = "nn.PixelShuffle",
      message = ("x must be (N,C,H,W) with C divisible by %d, got %s"):format(r * r, core.describe(x))}
  end
  local n, c, h, w = unpack(x.shape)
  c = c / (r * r)
  return x:reshape(n, c, r, r, h, w):permute(1, 2, 5, 3, 6, 4):reshape(n, c, h * r, w * r)
end)

--- Channels of several groups in turn: channel g * C/groups + i moves to i * groups + g.
-- opts nn.ChannelShuffle(groups)
-- eg   nn.ChannelShuffle(2)(capl.zeros(1, 4, 2, 2)):size(2)  --> 4
layer("ChannelShuffle", {{"groups", "whole", required = true, from = 1}, positional = 1}, function(x, o)
  local shape = x.shape
  if x.ndim < 3 or shape[2] % o.o_groups ~= 0 then
    core.error{code = "shape", op = "nn.ChannelShuffle",
      message = ("x must be (N,C,…) with C divisible by %d, got %s"):format(o.o_groups, core.describe(x))}
  end
  return x:unflatten(2, {o.o_groups, shape[2] / o.o_groups}):transpose(2, 3):reshape(shape)
end)

--- Mean, or largest, of windows of a sequence (N, C, L) chosen so that L becomes output_size.
-- eg   nn.AdaptiveAvgPool1d(2)(capl.ones(1, 3, 8)):size(3)  --> 2
for _, name in ipairs{"AdaptiveAvgPool1d", "AdaptiveMaxPool1d"} do
  layer(name, {{"output_size", "whole", required = true, from = 1}, positional = 1}, function(x, o)
    return pooling[name:gsub("1d", "2d")]{1, o.o_output_size}(x:unsqueeze(-2)):squeeze(-2)
  end)
end

--- normalize(x[, {p = 2, dim = 2, eps = 1e-12}]): x divided by its norm along dim.
-- eg   nn.normalize(capl.tensor{{3, 4}}):get(1, 1)  --> 0.6
function small.normalize(x, options)
  check.arg(1, "normalize", "tensor", x)
  local o = check.options("normalize", {{"p", "number", default = 2}, {"dim", "whole", default = 2},
    {"eps", "number", default = 1e-12}}, options)
  return x / x:norm(o.p, o.dim, true):maximum(o.eps)
end

--- nn.PairwiseDistance{p = 2, eps = 1e-6, keepdim = false}(a, b): norm of a - b + eps along the last dim.
-- eg   nn.PairwiseDistance()(capl.zeros(1, 2), capl.tensor{{3, 4}}):item() > 4.99  --> true
small.PairwiseDistance = classes.class("PairwiseDistance", Module)
function small.PairwiseDistance:init(...)
  local o = check.arguments("nn.PairwiseDistance", {{"p", "number", default = 2}, {"eps", "number", default = 1e-6},
    {"keepdim", "boolean", default = false}}, ...)
  self.p, self.eps, self.keepdim = o.p, o.eps, o.keepdim
end
function small.PairwiseDistance:forward(a, b) return (a - b + self.eps):norm(self.p, -1, self.keepdim) end

return small
