-- parameter.lua: new parameters, and PyTorch's ways to fill them.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local parameter = {}

--- Marks a tensor as a parameter: assigned to a module's field, it will be trained.
-- eg   nn.Parameter(capl.zeros(2)).requires_grad  --> true
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

-- Notes who fills a tensor: of several, the last one is in effect.
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
-- eg   nn.init.uniform(capl.zeros(100), 2, 3):amin():item() >= 2  --> true
function init.uniform(tensor, lo, hi) return core.fill_random(note(tensor, "uniform"), "uniform", lo or 0, hi or 1) end

--- Normal with mean (0) and standard deviation (1).
function init.normal(tensor, mean, std)
  return core.fill_random(note(tensor, "normal"), "normal", mean or 0, std or 1)
end

--- Uniform with variance gain^2 / fan. opts: a = 0, mode = "fan_in"|"fan_out", nonlinearity = "leaky_relu"
-- paper K. He and others: Delving deep into rectifiers, 2015
function init.kaiming_uniform(tensor, opts)
  local bound = math.sqrt(3) * kaiming_std("kaiming_uniform", tensor, opts)
  return core.fill_random(note(tensor, "kaiming_uniform"), "uniform", -bound, bound)
end

--- Normal with variance gain^2 / fan; options as kaiming_uniform.
-- eg   nn.init.kaiming_normal(capl.zeros(8, 4), {nonlinearity = "relu"}):size(1)  --> 8
function init.kaiming_normal(tensor, opts)
  local std = kaiming_std("kaiming_normal", tensor, opts)
  return core.fill_random(note(tensor, "kaiming_normal"), "normal", 0, std)
end

--- Uniform with variance 2 gain^2 / (fan_in + fan_out).
-- paper X. Glorot, Y. Bengio: Understanding the difficulty of training deep feedforward neural networks, 2010
-- eg   nn.init.xavier_uniform(capl.zeros(8, 4)):abs():max():item() <= math.sqrt(0.5)  --> true
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

local trunc_options = {{"mean", "number", default = 0}, {"std", "number", default = 1}, {"a", "number", default = -2},
  {"b", "number", default = 2}}

--- Normal, and only what lies in a..b: what does not is drawn again.
-- opts mean = 0, std = 1, a = -2, b = 2 (the bounds themselves, not in standard deviations, as in PyTorch)
function init.trunc_normal(tensor, opts)
  local o = check.options("trunc_normal", trunc_options, opts)
  if o.a >= o.b then check.fail("trunc_normal", ("a must be below b, got %g and %g"):format(o.a, o.b)) end
  if o.std <= 0 then check.fail("trunc_normal", ("std must be above 0, got %g"):format(o.std)) end
  check.arg(1, "trunc_normal", "tensor", tensor)
  return core.no_grad(function()
    local x = core.fill_random(core.empty(tensor.shape, {device = tensor.device}), "normal", o.mean, o.std)
    for _ = 1, 1000 do
      local outside = x:lt(o.a):to("f32") + x:gt(o.b):to("f32")
      if outside:sum():item() == 0 then return note(tensor, "trunc_normal"):copy_(x:to(tensor.dtype)) end
      local again = core.fill_random(core.empty(tensor.shape, {device = tensor.device}), "normal", o.mean, o.std)
      x = core.op.where(outside:gt(0), again, x)
    end
    check.fail("trunc_normal", ("next to nothing of a normal distribution with mean %g and std %g lies in %g..%g"):format(
      o.mean, o.std, o.a, o.b))
  end)
end

-- Rows of a matrix (a list of lists) made orthogonal to those above and of length 1; twice, for the rounding.
local function orthonormal(rows)
  for i, row in ipairs(rows) do
    for _ = 1, 2 do
      for j = 1, i - 1 do
        local other, product = rows[j], 0
        for k = 1, #row do product = product + row[k] * other[k] end
        for k = 1, #row do row[k] = row[k] - product * other[k] end
      end
      local length = 0
      for k = 1, #row do length = length + row[k] * row[k] end
      length = math.sqrt(length)
      for k = 1, #row do row[k] = row[k] / length end
    end
  end
  return rows
end

--- Rows (of the tensor as a matrix (I, O * …); columns where there are more rows) of length gain and at right angles.
-- paper A. M. Saxe, J. L. McClelland, S. Ganguli: Exact solutions to the nonlinear dynamics of learning in deep linear
--      networks, 2014
function init.orthogonal(tensor, gain)
  fans("orthogonal", tensor)
  return core.no_grad(function()
    local rows = tensor:size(1)
    local columns = tensor:numel() / rows
    local tall = rows > columns
    local draw = core.fill_random(core.empty({math.min(rows, columns), math.max(rows, columns)}), "normal", 0, 1)
    local q = core.tensor(orthonormal(draw:tolist()), {dtype = "f32"}) * (gain or 1)
    if tall then q = q:t() end
    return note(tensor, "orthogonal"):copy_(q:reshape(tensor.shape):to(tensor.dtype):to(tensor.device))
  end)
end

--- Ones on the diagonal of a matrix, zeros elsewhere.
-- eg   nn.init.eye(capl.zeros(2, 3)):sum():item()  --> 2
function init.eye(tensor)
  fans("eye", tensor)
  if tensor.ndim ~= 2 then check.bad(1, "eye", ("a tensor of 2 dims expected, got %d"):format(tensor.ndim)) end
  local rows = {}
  for i = 1, tensor:size(1) do
    rows[i] = {}
    for k = 1, tensor:size(2) do rows[i][k] = i == k and 1 or 0 end
  end
  return core.no_grad(function()
    return note(tensor, "eye"):copy_(core.tensor(rows, {dtype = tensor.dtype, device = tensor.device}))
  end)
end

--- All values equal.
-- eg   nn.init.constant(capl.zeros(2), 3):get(1)  --> 3
function init.constant(tensor, value) return core.no_grad(tensor.fill_, note(tensor, "constant"), value) end
function init.zeros(tensor) return init.constant(tensor, 0) end
function init.ones(tensor) return init.constant(tensor, 1) end

--- The factor of a nonlinearity in the methods above: nn.init.calculate_gain("leaky_relu"[, slope]).
-- eg   nn.init.calculate_gain("relu")  --> 1.41421356
function init.calculate_gain(nonlinearity, a)
  return gain_of("calculate_gain", nonlinearity, a or (nonlinearity == "leaky_relu" and 0.01 or 0))
end

--- PyTorch's names, which end with _ as they write in place, are the same: uniform_, normal_, kaiming_uniform_,
-- kaiming_normal_, xavier_uniform_, xavier_normal_, trunc_normal_, orthogonal_, eye_, constant_, zeros_, ones_.
-- eg   nn.init.ones(capl.zeros(3)):sum():item()  --> 3
for _, name in ipairs{"uniform", "normal", "kaiming_uniform", "kaiming_normal", "xavier_uniform", "xavier_normal",
  "trunc_normal", "orthogonal", "eye", "constant", "zeros", "ones"} do
  init[name .. "_"] = init[name]
end

parameter.init = init
return parameter
