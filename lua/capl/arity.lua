-- arity.lua: methods of tensors, and layers, that are given more arguments than they take raise an error and drop none:
-- PyTorch's have options that are not here.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local methods = core.tensor_methods

-- Methods by how many arguments they take besides the tensor. What takes any number is not here.
local names = {
  [0] = "dim t contiguous clone float half bfloat16 double int long byte bool neg relu sigmoid tanh exp log sqrt abs "
    .. "sign erf sin cos silu hardsigmoid hardswish log_sigmoid floor round ceil trunc frac log1p log2 log10 exp2 expm1 "
    .. "reciprocal rsqrt square isnan isinf isfinite logical_not diagonal relu6 selu mish softsign tanhshrink",
  [1] = "size unsqueeze squeeze expand_as to add sub mul div pow add_ sub_ mul_ div_ leaky_relu elu gelu maximum minimum "
    .. "eq ne lt le gt ge clamp_min clamp_max matmul mm bmm softmax log_softmax remainder fmod logaddexp logical_and "
    .. "logical_or logical_xor equal count_nonzero dot outer mv reshape_as view_as type_as celu softmin glu unbind slice "
    .. "one_hot cumsum triu tril",
  [2] = "flatten transpose select softplus clamp clip lerp unflatten movedim hardtanh split chunk index_select gather "
    .. "masked_fill where roll repeat_interleave pad sort argsort logsumexp prod argmax argmin max min sum mean amax amin "
    .. "any all var std",
  [3] = "narrow nan_to_num isclose allclose scatter scatter_add topk norm",
}

-- What PyTorch's options are here.
local instead = {
  add = "alpha: x + y * 2", sub = "alpha: x - y * 2", round = "decimals: (x * 100):round() / 100",
  div = "rounding_mode: (x / y):floor(), (x / y):trunc()", scatter = "reduce: x:scatter_add(dim, index, src)",
  to = "x:to{dtype = …, device = …}", contiguous = "images are N,H,W,C in memory already",
  diagonal = "offset: x:narrow(2, 1 + offset, n):diagonal()",
}
for name in ("cumsum prod softmax log_softmax softmin"):gmatch("%S+") do instead[name] = "dtype: x:to(dtype) before it" end

local function refuse(name, call, most, more)
  check.fail(name, ("%s takes %s, got a %s more"):format(call, most == 0 and "no arguments"
    or most == 1 and "1 argument" or most .. " arguments", core.typename(more)), instead[name])
end

-- guarded[n](name, call, fn): fn with an error behind argument n, the object aside. Without varargs, which would cost
-- more than the check.
local guarded = {
  [0] = function(name, call, fn) return function(x, more)
    if more ~= nil then refuse(name, call, 0, more) end
    return fn(x)
  end end,
  [1] = function(name, call, fn) return function(x, a, more)
    if more ~= nil then refuse(name, call, 1, more) end
    return fn(x, a)
  end end,
  [2] = function(name, call, fn) return function(x, a, b, more)
    if more ~= nil then refuse(name, call, 2, more) end
    return fn(x, a, b)
  end end,
  [3] = function(name, call, fn) return function(x, a, b, c, more)
    if more ~= nil then refuse(name, call, 3, more) end
    return fn(x, a, b, c)
  end end,
  [4] = function(name, call, fn) return function(x, a, b, c, d, more)
    if more ~= nil then refuse(name, call, 4, more) end
    return fn(x, a, b, c, d)
  end end,
}

for most, list in pairs(names) do
  for name in list:gmatch("%S+") do
    methods[name] = guarded[most](name, "x:" .. name .. "(…)", methods[name])
  end
end

-- Layers that take another number than one input, losses aside. Recurrent layers count for themselves.
local takes = {ConvTranspose2d = 2, PairwiseDistance = 2, TransformerEncoder = 2, TransformerEncoderLayer = 2,
  MultiheadAttention = 4, CTCLoss = 4}
local unguarded = {Module = true, ModuleList = true, ModuleDict = true, LSTM = true, GRU = true, RNN = true,
  LSTMCell = true, GRUCell = true, RNNCell = true}

--- Guards forward of every class in a table by name; `inputs` of a class is how many a loss takes.
local function layers(nn)
  for name, class in pairs(nn) do
    local forward = type(class) == "table" and class.__module and not unguarded[name] and rawget(class, "forward")
    if forward then
      class._forward = forward -- where its docstring is
      class.forward = guarded[takes[name] or class.inputs or 1]("nn." .. name, "the layer", forward)
    end
  end
end

return {layers = layers}
