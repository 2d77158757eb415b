-- activation.lua: layers without parameters that treat every element alike, and softmax.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"
local Module = require "nn.module"
local parameter = require "nn.parameter"

local activation = {}

-- A class that runs one op. spec: its options in order, each an attribute of the op's; in_place is refused by name.
local function elementwise(name, op_name, spec)
  local class = classes.class(name, Module)
  class.pure = true
  function class:init(...) self.attributes = check.arguments("nn." .. name, spec or {}, ...) end
  function class:forward(x)
    local y = core.op[op_name](x, self.attributes)
    return y
  end
  if spec then
    function class:extra()
      local words = {}
      for i, entry in ipairs(spec) do words[i] = entry[1] .. " " .. tostring(self.attributes[entry[1]]) end
      return table.concat(words, ", ")
    end
  end
  activation[name] = class
end

--- y = max(x, 0)
-- eg   nn.ReLU()(capl.tensor{-2, 3}):sum():item()  --> 3
elementwise("ReLU", "relu")
--- y = 1 / (1 + exp(-x))
-- eg   nn.Sigmoid()(capl.tensor{0}):item()  --> 0.5
elementwise("Sigmoid", "sigmoid")
--- y = tanh(x)
-- eg   nn.Tanh()(capl.tensor{0}):item()  --> 0
elementwise("Tanh", "tanh")
--- y = x * sigmoid(x), also called swish
-- paper S. Elfwing, E. Uchibe, K. Doya: Sigmoid-weighted linear units, 2018
-- eg   nn.SiLU()(capl.tensor{0}):item()  --> 0
elementwise("SiLU", "silu")
--- y = x * share of a normal distribution below x
-- opts nn.GELU{approximate = "none"|"tanh"}
-- paper D. Hendrycks, K. Gimpel: Gaussian error linear units, 2016
-- eg   nn.GELU()(capl.tensor{0}):item()  --> 0
elementwise("GELU", "gelu", {{"approximate", "string", default = "none"}})
--- y = log(1 + exp(beta * x)) / beta; x itself where beta * x is above threshold
-- opts nn.Softplus{beta = 1, threshold = 20}
-- eg   nn.Softplus()(capl.tensor{0}):item()  --> 0.69314718
elementwise("Softplus", "softplus", {{"beta", "number", default = 1}, {"threshold", "number", default = 20}})
--- y = x for x > 0, else negative_slope * x
-- opts nn.LeakyReLU(negative_slope = 0.01)
-- eg   nn.LeakyReLU(0.1)(capl.tensor{-10}):item()  --> -1
elementwise("LeakyReLU", "leaky_relu", {{"negative_slope", "number", default = 0.01}})
--- y = x for x > 0, else alpha * (exp(x) - 1)
-- opts nn.ELU(alpha = 1)
-- paper D.-A. Clevert, T. Unterthiner, S. Hochreiter: Exponential linear units, 2016
-- eg   nn.ELU()(capl.tensor{2}):item()  --> 2
elementwise("ELU", "elu", {{"alpha", "number", default = 1}})
--- y = (x + 3) / 6, kept in 0..1
-- eg   nn.Hardsigmoid()(capl.tensor{3}):item()  --> 1
elementwise("Hardsigmoid", "hardsigmoid")
--- y = x * hardsigmoid(x)
-- paper A. Howard and others: Searching for MobileNetV3, 2019
-- eg   nn.Hardswish()(capl.tensor{3}):item()  --> 3
elementwise("Hardswish", "hardswish")
--- y = log(sigmoid(x))
-- eg   nn.LogSigmoid()(capl.tensor{0}):item()  --> -0.69314718
elementwise("LogSigmoid", "log_sigmoid")

-- A class without options that runs fn(x).
local function composed(name, fn)
  local class = classes.class(name, Module)
  class.pure = true
  function class:init(...) check.arguments("nn." .. name, {}, ...) end
  function class:forward(x) return fn(x) end -- luacheck: no self
  activation[name] = class
end

--- y = x, kept in 0..6
-- eg   nn.ReLU6()(capl.tensor{9}):item()  --> 6
composed("ReLU6", function(x) return x:clamp(0, 6) end)
--- y = x * tanh(softplus(x))
-- paper D. Misra: Mish, 2020
-- eg   nn.Mish()(capl.tensor{0}):item()  --> 0
composed("Mish", function(x) return x * x:softplus():tanh() end)
--- y = 1.0507 * (x for x > 0, else 1.6733 * (exp(x) - 1)): keeps mean 0 and variance 1 through layers
-- paper G. Klambauer and others: Self-normalizing neural networks, 2017
-- eg   nn.SELU()(capl.tensor{0}):item()  --> 0
composed("SELU", function(x) return x:elu(1.6732632423543772) * 1.0507009873554805 end)

--- y = x, kept in min_val..max_val
-- opts nn.Hardtanh(min_val = -1, max_val = 1)
-- eg   nn.Hardtanh()(capl.tensor{5}):item()  --> 1
activation.Hardtanh = classes.class("Hardtanh", Module)
activation.Hardtanh.pure = true

function activation.Hardtanh:init(...)
  local o = check.arguments("nn.Hardtanh", {{"min_val", "number", default = -1}, {"max_val", "number", default = 1}},
    ...)
  if o.min_val >= o.max_val then
    check.fail("nn.Hardtanh", ("min_val must be below max_val, got %g and %g"):format(o.min_val, o.max_val))
  end
  self.min_val, self.max_val = o.min_val, o.max_val
end

function activation.Hardtanh:forward(x) return x:clamp(self.min_val, self.max_val) end
function activation.Hardtanh:extra() return ("%g to %g"):format(self.min_val, self.max_val) end

--- y = x for x > 0, else weight * x with a weight that is learned, one or one per channel (dim 2)
-- opts nn.PReLU(num_parameters = 1, {init = 0.25})
-- paper K. He and others: Delving deep into rectifiers, 2015
-- eg   nn.PReLU()(capl.tensor({-4, 2})):tolist()[1]  --> -1
activation.PReLU = classes.class("PReLU", Module)
activation.PReLU.pure = true

function activation.PReLU:init(...)
  local o = check.arguments("nn.PReLU",
    {{"num_parameters", "whole", default = 1, from = 1}, {"init", "number", default = 0.25}}, ...)
  self.weight = parameter.constant(o.num_parameters, o.init)
end

-- At 0 relu has slope 0 and the other side slope 1: there the weight's side is taken, as in PyTorch.
function activation.PReLU:forward(x)
  local weight = self.weight
  local n = weight:size(1)
  if n > 1 then
    if x.ndim < 2 or x:size(2) ~= n then
      check.fail("nn.PReLU", ("it has %d parameters, x has %d channels (dim 2)"):format(n, x.ndim < 2 and 1
        or x:size(2)))
    end
    local shape = {n}
    for d = 3, x.ndim do shape[d - 1] = 1 end
    weight = weight:reshape(shape)
  elseif x.ndim == 0 then
    weight = weight:reshape{}
  end
  if x.dtype ~= weight.dtype then weight = weight:to(x.dtype) end
  return x:relu() + weight * x:where(x:le(0), 0)
end

function activation.PReLU:extra() return ("%d parameters"):format(self.weight:size(1)) end

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
-- eg   nn.Softmax()(capl.zeros(1, 4)):get(1, 1)  --> 0.25
over_dim("Softmax", "softmax")
--- Logarithm of softmax along dim (the last).
-- eg   nn.LogSoftmax()(capl.zeros(1, 4)):get(1, 1)  --> -1.38629436
over_dim("LogSoftmax", "log_softmax")

--- y = x
-- eg   nn.Identity()(capl.tensor{5}):item()  --> 5
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
-- paper N. Srivastava and others: Dropout, 2014
-- eg   nn.Dropout(0.5):eval()(capl.ones(4)):sum():item()  --> 4
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

--- Dropout of whole channels: of (N, C, …) each one is kept or zeroed as a whole; scaling as nn.Dropout.
-- opts nn.Dropout2d(p = 0.5); Dropout1d and Dropout3d are the same for (N, C, L) and (N, C, D, H, W)
-- paper J. Tompson and others: Efficient object localization using convolutional networks, 2015
-- eg   nn.Dropout2d(0.5):eval()(capl.ones(1, 2, 3, 3)):sum():item()  --> 18
for _, name in ipairs{"Dropout1d", "Dropout2d", "Dropout3d"} do
  local class = classes.class(name, activation.Dropout)
  class.pure = true
  function class:forward(x)
    if not self.training or self.p == 0 then return x end
    if x.ndim < 3 then check.fail("nn." .. name, ("x must be (N, C, …), it has %d dims"):format(x.ndim)) end
    local shape = x.shape
    for d = 3, #shape do shape[d] = 1 end
    local kept = activation.Dropout.forward(self, core.full(shape, 1, {dtype = x.dtype, device = x.device}))
    return x * kept
  end
  activation[name] = class
end

return activation
