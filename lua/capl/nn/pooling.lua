-- pooling.lua: windows over images: largest or mean value.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"
local unbatched = require "nn.unbatched"
local Module = require "nn.module"
local places_in_image = require "nn.pooling_indices"

local pooling = {}

-- The options of both kinds of window, and more.
local function window_spec(...)
  return {
    positional = 3,
    {"kernel_size", "whole", "table", required = true}, {"stride", "whole", "table"},
    {"padding", "whole", "table", default = 0}, {"ceil_mode", "boolean", default = false}, ...
  }
end

local max_spec = window_spec({"dilation", "whole", "table", default = 1},
  {"return_indices", "boolean", default = false})
local average_spec = window_spec({"count_include_pad", "boolean", default = true},
  {"divisor_override", "whole", from = 1})

local function read_window(self, spec, ...)
  local op = "nn." .. self.__name
  local o = check.arguments(op, spec, ...)
  self.kernel_size = check.pair(op, "kernel_size", o.kernel_size, 1)
  self.stride = check.pair(op, "stride", o.stride or o.kernel_size, 1)
  self.padding = check.pair(op, "padding", o.padding, 0)
  self.ceil_mode = o.ceil_mode
  self.attributes = {kernel = self.kernel_size, stride = self.stride, padding = self.padding, ceil_mode = o.ceil_mode}
  return o
end

local function window_text(self)
  local text = ("%dx%d"):format(self.kernel_size[1], self.kernel_size[2])
  if self.stride[1] ~= self.kernel_size[1] or self.stride[2] ~= self.kernel_size[2] then
    text = text .. (", stride %dx%d"):format(self.stride[1], self.stride[2])
  end
  if self.padding[1] ~= 0 or self.padding[2] ~= 0 then
    text = text .. (", padding %dx%d"):format(self.padding[1], self.padding[2])
  end
  local d = self.dilation
  if d and (d[1] ~= 1 or d[2] ~= 1) then text = text .. (", dilation %dx%d"):format(d[1], d[2]) end
  return text
end

--- Largest value of each window.
-- in   x (N, C, H, W)
-- out  y (N, C, H', W')   H' = floor((H + 2*padding - dilation*(kernel-1) - 1) / stride) + 1 (ceil with ceil_mode), W'
--      alike; with return_indices also where in the image the values were, i64: row * W + column, from 0
-- opts nn.MaxPool2d(kernel_size[, stride = kernel_size[, padding = 0]], {ceil_mode = false, dilation = 1,
--      return_indices = false})
-- eg   nn.MaxPool2d(2)(capl.zeros(1, 3, 5, 8)):size(3)  --> 2
pooling.MaxPool2d = classes.class("MaxPool2d", Module)
pooling.MaxPool2d.pure = true
pooling.MaxPool2d.extra = window_text

function pooling.MaxPool2d:init(...)
  local o = read_window(self, max_spec, ...)
  self.return_indices, self.dilation = o.return_indices, check.pair("nn.MaxPool2d", "dilation", o.dilation, 1)
  self.attributes.dilation = self.dilation
  if o.return_indices then self.alone = "return_indices" end
end

function pooling.MaxPool2d:forward(x)
  local y, index = core.op.max_pool2d(x, self.attributes)
  if self.return_indices then return y, places_in_image(x, index, self.attributes) end
  index:free()
  return y
end

--- Whether it is the pooling that bn_act_pool includes.
function pooling.MaxPool2d:is_two_by_two()
  local k, s, p, d = self.kernel_size, self.stride, self.padding, self.dilation
  if self.return_indices or d[1] ~= 1 or d[2] ~= 1 then return false end
  return k[1] == 2 and k[2] == 2 and s[1] == 2 and s[2] == 2 and p[1] == 0 and p[2] == 0 and not self.ceil_mode
end

--- Mean of each window; shapes as nn.MaxPool2d.
-- opts nn.AvgPool2d(kernel_size[, stride[, padding]], {ceil_mode = false, count_include_pad = true, divisor_override
--      (none: what sums are divided by instead; not with ceil_mode)})
-- eg   nn.AvgPool2d(2)(capl.full({1, 1, 4, 4}, 3)):mean():item()  --> 3
pooling.AvgPool2d = classes.class("AvgPool2d", Module)
pooling.AvgPool2d.pure = true
pooling.AvgPool2d.extra = window_text

function pooling.AvgPool2d:init(...)
  local o = read_window(self, average_spec, ...)
  self.attributes.count_include_pad = o.count_include_pad or o.divisor_override ~= nil
  if not o.divisor_override then return end
  if o.ceil_mode then
    check.fail("nn.AvgPool2d", "divisor_override is not possible with ceil_mode = true, whose last windows are smaller",
      "pad x first: nn.ZeroPad2d, with ceil_mode = false")
  end
  self.factor = self.kernel_size[1] * self.kernel_size[2] / o.divisor_override
end

function pooling.AvgPool2d:forward(x)
  local y = core.op.avg_pool2d(x, self.attributes)
  if self.factor then return y * self.factor end
  return y
end

-- {height, width}: numbers, or "keep" and nil for the size of x.
local function read_output_size(name, value)
  if type(value) == "number" then value = {value, value} end
  local out = {}
  for d = 1, 2 do
    local size = value[d]
    if size == nil or size == "keep" then out[d] = "keep"
    elseif type(size) == "number" and size >= 1 and size % 1 == 0 then out[d] = size
    else
      check.fail("nn." .. name, ('output_size is a number, or {height, width} of numbers from 1 on and "keep", got ' ..
        '%s'):format(
        tostring(size)))
    end
  end
  return out
end

-- AdaptiveAvgPool2d and AdaptiveMaxPool2d
local function adaptive(name, op_name)
  local class = classes.class(name, Module)
  class.pure = true
  function class:init(...)
    local o = check.arguments("nn." .. name, {{"output_size", "whole", "table", required = true}}, ...)
    self.output_size = read_output_size(name, o.output_size)
  end
  function class:forward(x)
    local size = {self.output_size[1], self.output_size[2]}
    for d = 1, 2 do
      if size[d] == "keep" and core.is_tensor(x) and x.ndim == 4 then size[d] = x:size(d + 2) end
    end
    if type(size[1]) ~= "number" or type(size[2]) ~= "number" then size = 1 end -- x is no image, which the op says
    local y, index = core.op[op_name](x, {output = size})
    if index then index:free() end
    return y
  end
  function class:extra() return ("%sx%s"):format(self.output_size[1], self.output_size[2]) end
  pooling[name] = class
end

--- Mean over windows chosen so that the output is output_size: nn.AdaptiveAvgPool2d(1) or {height, width},
-- where "keep" leaves the size of x: {1, "keep"} makes a row.
-- eg   nn.AdaptiveAvgPool2d(1)(capl.ones(2, 3, 8, 6)):size(3)  --> 1
adaptive("AdaptiveAvgPool2d", "adaptive_avg_pool2d")
--- Largest value over such windows.
-- eg   nn.AdaptiveMaxPool2d({2, 3})(capl.ones(1, 1, 8, 6)):size(4)  --> 3
adaptive("AdaptiveMaxPool2d", "adaptive_max_pool2d")

for _, name in ipairs{"MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "AdaptiveMaxPool2d"} do unbatched(pooling[name], 4) end

return pooling
