-- padding.lua: layers that add elements around sequences and images.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local classes = require "module_class"
local Module = require "nn.module"

local padding = {}

local modes = {Constant = "constant", Zero = "constant", Reflection = "reflect", Replication = "replicate",
  Circular = "circular"}

local function widths_of(name, padding_, n)
  local widths = {}
  for i = 1, n do widths[i] = type(padding_) == "number" and padding_ or padding_[i] end
  if type(padding_) == "table" and #padding_ ~= n then
    check.fail("nn." .. name, ("padding is a number or {%s}"):format(n == 2 and "left, right" or
      "left, right, top, bottom"))
  end
  return widths
end

local function layer(name)
  local kind, dims = name:match("^(%u%l+)Pad(%d)d$")
  local class = classes.class(name, Module)
  class.pure = true
  function class:init(...)
    local spec = {positional = 2, {"padding", "whole", "table", required = true}}
    if kind == "Constant" then spec[2] = {"value", "number", default = 0} end
    local o = check.arguments("nn." .. name, spec, ...)
    self.widths, self.value = widths_of(name, o.padding, 2 * dims), o.value
  end
  function class:forward(x)
    local y = x:pad(self.widths, {mode = modes[kind], value = self.value})
    return y
  end
  function class:extra() return table.concat(self.widths, ", ") end
  padding[name] = class
end

--- Elements around sequences (N, C, L): a constant, those mirrored without the edge, the edge, those of the other side.
-- opts nn.ReflectionPad1d(padding): a number, or {left, right}; nn.ConstantPad1d(padding, value)
-- eg   nn.ReflectionPad1d(1)(capl.zeros(1, 1, 3)):size(3)  --> 5
for _, name in ipairs{"ConstantPad1d", "ZeroPad1d", "ReflectionPad1d", "ReplicationPad1d", "CircularPad1d"} do
  layer(name)
end

--- Elements around images (N, C, H, W), as those of sequences; nn.ZeroPad2d is there, too.
-- opts nn.ReflectionPad2d(padding): a number, or {left, right, top, bottom}; nn.ConstantPad2d(padding, value)
-- eg   nn.ReflectionPad2d(1)(capl.zeros(1, 1, 3, 3)):size(4)  --> 5
for _, name in ipairs{"ConstantPad2d", "ReflectionPad2d", "ReplicationPad2d", "CircularPad2d"} do layer(name) end

return padding
