-- linear.lua: fully-connected layer.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"
local parameter = require "nn.parameter"

local spec = {
  {"in_features", "whole", required = true, from = 1}, {"out_features", "whole", required = true, from = 1},
  {"bias", "boolean", default = true},
}

--- Fully-connected layer: y = x W' + b.
-- in   x (…, in_features)
-- out  y (…, out_features)
-- opts nn.Linear(in_features, out_features, {bias = true})
-- init weight and bias: uniform within 1/sqrt(in_features), as PyTorch
-- errs shape: x's last dim is not in_features
-- eg   nn.Linear(8, 2)(capl.zeros(5, 8)):size(2)  --> 2
local Linear = classes.class("Linear", require "nn.module")
Linear.pure = true

function Linear:init(...)
  local o = check.arguments("nn.Linear", spec, ...)
  for _, name in ipairs{"in_features", "out_features"} do
    self[name] = o[name]
  end
  local bound = 1 / math.sqrt(o.in_features)
  self.weight = parameter.uniform({o.out_features, o.in_features}, bound)
  if o.bias then self.bias = parameter.uniform({o.out_features}, bound) end
end

function Linear:forward(x)
  local y = core.op.linear(x, self.weight, self.bias)
  return y
end

-- Runs an op that begins with linear.
function Linear:fused(x, name) return (core.op[name](x, self.weight, self.bias)) end

function Linear:extra()
  return ("%d -> %d%s"):format(self.in_features, self.out_features, self.bias and "" or ", no bias")
end

return Linear
