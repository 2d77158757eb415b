-- activation.lua: layers without parameters that treat every element alike, and softmax.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "nn.class"
local Module = require "nn.module"

local activation = {}

local function elementwise(name, op_name)
  local class = classes.class(name, Module)
  class.pure = true
  function class:init(...) check.arguments("nn." .. name, {}, ...) end
  function class:forward(x) -- luacheck: no self
    local y = core.op[op_name](x)
    return y
  end
  activation[name] = class
end

--- y = max(x, 0)
elementwise("ReLU", "relu")
--- y = 1 / (1 + exp(-x))
elementwise("Sigmoid", "sigmoid")
--- y = tanh(x)
elementwise("Tanh", "tanh")

local function over_dim(name, op_name)
  local class = classes.class(name, Module)
  class.pure = true
  function class:init(...)
    self.over = check.arguments("nn." .. name, {{"dim", "whole", default = -1}}, ...).dim
  end
  function class:forward(x)
    local y = core.op[op_name](x, {dim = self.over})
    return y
  end
  function class:extra() return "dim " .. self.over end
  activation[name] = class
end

--- Shares that sum to 1 along dim (the last).
over_dim("Softmax", "softmax")
--- Logarithm of softmax along dim (the last).
over_dim("LogSoftmax", "log_softmax")

--- y = x
activation.Identity = classes.class("Identity", Module)
activation.Identity.pure = true
function activation.Identity:forward(x) return x end -- luacheck: no self

--- Dims first..last become one; without arguments all but the batch dim.
-- opts nn.Flatten{first = 2, last = -1}
-- eg   nn.Flatten()(capl.zeros(2, 3, 4, 5)):size(2)  --> 60
activation.Flatten = classes.class("Flatten", Module)
activation.Flatten.pure = true

function activation.Flatten:init(...)
  local o = check.arguments("nn.Flatten", {{"first", "whole", default = 2}, {"last", "whole", default = -1}}, ...)
  self.first, self.last = o.first, o.last
end

function activation.Flatten:forward(x)
  local y = x:flatten(self.first, self.last)
  return y
end

--- Training: zeroes each element with probability p and scales the rest by 1/(1-p). Evaluation: y = x.
-- opts nn.Dropout(p = 0.5); the mask follows from capl.manual_seed and the number of calls so far
activation.Dropout = classes.class("Dropout", Module)
activation.Dropout.pure = true

function activation.Dropout:init(...)
  self.p = check.arguments("nn.Dropout", {{"p", "number", default = 0.5}}, ...).p
  if self.p < 0 or self.p > 1 then check.fail("nn.Dropout", ("p is a probability, 0 to 1, got %g"):format(self.p)) end
end

function activation.Dropout:forward(x)
  if not self.training or self.p == 0 then return x end
  local seed = core.rng()
  local y = core.op.dropout(x, {p = self.p, seed = seed, offset = core.next_stream()})
  return y
end

function activation.Dropout:extra() return "p " .. self.p end

return activation
