-- parameter.lua: new parameters, and PyTorch's ways to fill them.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local parameter = {}

--- Marks a tensor as a parameter: assigned to a module's field, it will be trained.
function parameter.Parameter(tensor)
  return check.arg(1, "Parameter", "tensor", tensor):detach():requires_grad_():keep()
end

--- A parameter of the given sizes, uniform in -bound..bound.
function parameter.uniform(size, bound)
  return core.fill_random(core.empty(size), "uniform", -bound, bound):requires_grad_():keep()
end

--- A parameter of n equal values.
function parameter.constant(n, value) return core.full({n}, value):requires_grad_():keep() end

-- ---- nn.init ----

local init = {}
local written = setmetatable({}, {__mode = "k"}) -- tensor -> list of {how =, where = recipe line}

-- Notes who fills a tensor: of several, the last one is in force.
local function note(tensor, how)
  if not core.is_tensor(tensor) then return tensor end
  written[tensor] = written[tensor] or {}
  table.insert(written[tensor], {how = "nn.init." .. how, where = core.where()})
  return tensor
end

--- Who filled a tensor with nn.init, in order: list of {how =, where = recipe line}.
function parameter.writers(tensor) return written[tensor] or {} end

-- Inputs and outputs that one value of a weight (O, I, …) takes part in.
local function fans(fname, tensor)
  local shape = check.arg(1, fname, "tensor", tensor).shape
  if #shape < 2 then check.bad(1, fname, ("a tensor of at least 2 dims expected, got %d"):format(#shape)) end
  local field = 1
  for d = 3, #shape do field = field * shape[d] end
  return shape[2] * field, shape[1] * field
end

local function gain_of(fname, nonlinearity, a)
  if nonlinearity == "relu" then return math.sqrt(2) end
  if nonlinearity == "leaky_relu" then return math.sqrt(2 / (1 + a * a)) end
  if nonlinearity == "tanh" then return 5 / 3 end
  if nonlinearity == "linear" or nonlinearity == "sigmoid" then return 1 end
  check.unknown(fname, "nonlinearity", nonlinearity, {"relu", "leaky_relu", "tanh", "sigmoid", "linear"})
end

local kaiming_options = {{"a", "number", default = 0}, {"mode", "string", default = "fan_in"},
  {"nonlinearity", "string", default = "leaky_relu"}}

local function kaiming_std(fname, tensor, opts)
  local o = check.options(fname, kaiming_options, opts)
  local fan_in, fan_out = fans(fname, tensor)
  check.one_of(fname, "mode", o.mode, {"fan_in", "fan_out"})
  return gain_of(fname, o.nonlinearity, o.a) / math.sqrt(o.mode == "fan_in" and fan_in or fan_out)
end

--- Uniform in lo..hi (0..1).
function init.uniform(tensor, lo, hi) return core.fill_random(note(tensor, "uniform"), "uniform", lo or 0, hi or 1) end

--- Normal with mean (0) and standard deviation (1).
function init.normal(tensor, mean, std) return core.fill_random(note(tensor, "normal"), "normal", mean or 0, std or 1) end

--- Uniform with variance gain^2 / fan. opts: a = 0, mode = "fan_in"|"fan_out", nonlinearity = "leaky_relu"
function init.kaiming_uniform(tensor, opts)
  local bound = math.sqrt(3) * kaiming_std("kaiming_uniform", tensor, opts)
  return core.fill_random(note(tensor, "kaiming_uniform"), "uniform", -bound, bound)
end

--- Normal with variance gain^2 / fan; options as kaiming_uniform.
function init.kaiming_normal(tensor, opts)
  local std = kaiming_std("kaiming_normal", tensor, opts)
  return core.fill_random(note(tensor, "kaiming_normal"), "normal", 0, std)
end

--- Uniform with variance 2 gain^2 / (fan_in + fan_out).
function init.xavier_uniform(tensor, gain)
  local fan_in, fan_out = fans("xavier_uniform", tensor)
  local bound = (gain or 1) * math.sqrt(6 / (fan_in + fan_out))
  return core.fill_random(note(tensor, "xavier_uniform"), "uniform", -bound, bound)
end

--- Normal with variance 2 gain^2 / (fan_in + fan_out).
function init.xavier_normal(tensor, gain)
  local fan_in, fan_out = fans("xavier_normal", tensor)
  return core.fill_random(note(tensor, "xavier_normal"), "normal", 0, (gain or 1) * math.sqrt(2 / (fan_in + fan_out)))
end

--- All values equal.
function init.constant(tensor, value) return core.no_grad(tensor.fill_, note(tensor, "constant"), value) end
function init.zeros(tensor) return init.constant(tensor, 0) end
function init.ones(tensor) return init.constant(tensor, 1) end

parameter.init = init
return parameter
