-- one_dim.lua: convolution and pooling over sequences (N, C, L): the layers of images, one row high.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"
local conv_padding = require "nn.conv_padding"
local unbatched = require "nn.unbatched"
local parameter = require "nn.parameter"
local places_in_image = require "nn.pooling_indices"
local Module = require "nn.module"

local one_dim = {}

local function fail_shape(op, message, hint) core.error{code = "shape", op = op, message = message, hint = hint} end

-- x (N,C,L) as an image (N,C,1,L).
local function as_image(op, x)
  if not core.is_tensor(x) or x.ndim ~= 3 then
    fail_shape(op, "x must be (N,C,L), got " .. (core.is_tensor(x) and core.describe(x) or core.typename(x)))
  end
  return x:unsqueeze(3)
end

local function at_least(op, name, value, least)
  if value < least then check.fail(op, ("%s is at least %d, got %d"):format(name, least, value)) end
end

local conv_spec = {
  positional = 6,
  {"in_channels", "whole", required = true}, {"out_channels", "whole", required = true},
  {"kernel_size", "whole", required = true}, {"stride", "whole", default = 1},
  {"padding", "whole", "string", default = 0}, {"dilation", "whole", default = 1}, {"groups", "whole", default = 1},
  {"bias", "boolean", default = true}, {"padding_mode", "string", default = "zeros"},
}

--- 1-d convolution over sequences.
-- in   x (N, Cin, L)
-- out  y (N, Cout, L')   L' = floor((L + 2*padding - dilation*(kernel-1) - 1) / stride) + 1
-- opts nn.Conv1d(in_channels, out_channels, kernel_size, {stride = 1, padding = 0 | "same", dilation = 1, groups = 1,
--      bias = true, padding_mode = "zeros" | "reflect" | "replicate" | "circular"})
-- init weight (Cout, Cin/groups, kernel) and bias: uniform within 1/sqrt(fan-in), as PyTorch
-- errs shape: x has other than Cin channels; value: Cin or Cout not divisible by groups
-- eg   nn.Conv1d(3, 8, 5, {stride = 2, padding = 2})(capl.zeros(2, 3, 20)):size(3)  --> 10
one_dim.Conv1d = classes.class("Conv1d", Module)
one_dim.Conv1d.pure = true

local function padding_of(o)
  if type(o.padding) == "number" then return o.padding, o.padding end
  if o.padding ~= "same" then check.unknown("nn.Conv1d", "padding", o.padding, {"same"}) end
  return conv_padding.same("nn.Conv1d", o.dilation * (o.kernel_size - 1), o.stride)
end

function one_dim.Conv1d:init(...)
  local o = check.arguments("nn.Conv1d", conv_spec, ...)
  for _, name in ipairs{"in_channels", "out_channels", "kernel_size", "stride", "dilation", "groups"} do
    at_least("nn.Conv1d", name, o[name], 1)
    self[name] = o[name]
  end
  for _, name in ipairs{"in_channels", "out_channels"} do
    if o[name] % o.groups ~= 0 then
      check.fail("nn.Conv1d", ("%s = %d is not divisible by groups = %d"):format(name, o[name], o.groups))
    end
  end
  local before, behind = padding_of(o)
  self.padding = before
  at_least("nn.Conv1d", "padding", self.padding, 0)
  local left = conv_padding.set(self, "nn.Conv1d", o.padding_mode, {before}, {behind})[1]
  self.attributes = {stride = {1, o.stride}, padding = {0, left}, dilation = {1, o.dilation}, groups = o.groups}
  local bound = 1 / math.sqrt(o.in_channels / o.groups * o.kernel_size)
  self.weight = parameter.uniform({o.out_channels, o.in_channels / o.groups, o.kernel_size}, bound)
  if o.bias then self.bias = parameter.uniform({o.out_channels}, bound) end
end

function one_dim.Conv1d:forward(x)
  local image = as_image("nn.Conv1d", core.is_tensor(x) and x.ndim == 3 and conv_padding.apply(self, x) or x)
  if x:size(2) ~= self.in_channels then
    fail_shape("nn.Conv1d", ("weight expects %d input channel%s, x has %d"):format(self.in_channels,
      self.in_channels == 1 and "" or "s", x:size(2)),
      ("make the layer nn.Conv1d(%d, %d, …)"):format(x:size(2), self.out_channels))
  end
  local y = core.op.conv2d(image, self.weight:unsqueeze(3), self.bias, self.attributes)
  return conv_padding.trim(self, y:squeeze(3))
end

function one_dim.Conv1d:extra()
  local text = ("%d -> %d, %d"):format(self.in_channels, self.out_channels, self.kernel_size)
  for _, name in ipairs{"stride", "padding", "dilation", "groups"} do
    if self[name] ~= (name == "padding" and 0 or 1) then text = ("%s, %s %d"):format(text, name, self[name]) end
  end
  if self.padding_mode ~= "zeros" then text = text .. ", " .. self.padding_mode end
  return self.bias and text or text .. ", no bias"
end

-- ---- pooling ----

local pool_spec = {
  positional = 3,
  {"kernel_size", "whole", required = true}, {"stride", "whole"}, {"padding", "whole", default = 0},
  {"ceil_mode", "boolean", default = false}, {"count_include_pad", "boolean", default = true},
}

local max_pool_spec = {
  positional = 3, pool_spec[1], pool_spec[2], pool_spec[3], pool_spec[4], {"dilation", "whole", default = 1},
  {"return_indices", "boolean", default = false},
}

local function pool(name, op_name)
  local is_max = op_name == "max_pool2d"
  local class = classes.class(name, Module)
  class.pure = true
  function class:init(...)
    local o = check.arguments("nn." .. name, is_max and max_pool_spec or pool_spec, ...)
    self.kernel_size, self.stride, self.padding = o.kernel_size, o.stride or o.kernel_size, o.padding
    at_least("nn." .. name, "kernel_size", self.kernel_size, 1)
    at_least("nn." .. name, "stride", self.stride, 1)
    self.attributes = {kernel = {1, o.kernel_size}, stride = {1, self.stride}, padding = {0, o.padding},
      ceil_mode = o.ceil_mode}
    if is_max then
      at_least("nn." .. name, "dilation", o.dilation, 1)
      self.attributes.dilation, self.return_indices = {1, o.dilation}, o.return_indices
    else
      self.attributes.count_include_pad = o.count_include_pad
    end
  end
  function class:forward(x)
    local y, index = core.op[op_name](as_image("nn." .. name, x), self.attributes)
    if self.return_indices then
      return y:squeeze(3), places_in_image(x:unsqueeze(3), index, self.attributes):squeeze(3)
    end
    if index then index:free() end
    return y:squeeze(3)
  end
  function class:extra()
    local text = tostring(self.kernel_size)
    if self.stride ~= self.kernel_size then text = text .. ", stride " .. self.stride end
    return self.padding == 0 and text or text .. ", padding " .. self.padding
  end
  one_dim[name] = class
end

--- Largest value of each window of a sequence (N, C, L): nn.MaxPool1d(kernel_size[, stride[, padding]], {ceil_mode,
-- dilation, return_indices}).
-- eg   nn.MaxPool1d(2)(capl.ones(1, 3, 8)):size(3)  --> 4
pool("MaxPool1d", "max_pool2d")
--- Mean of each window of a sequence; options as nn.MaxPool1d, and count_include_pad = true.
-- eg   nn.AvgPool1d(2)(capl.ones(1, 3, 8)):size(3)  --> 4
pool("AvgPool1d", "avg_pool2d")

for _, class in pairs(one_dim) do unbatched(class, 3) end

return one_dim
