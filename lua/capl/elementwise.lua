-- elementwise.lua: functions of each element that are made of a few ops, and logical ones.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local number_in = require "operand"

local op, methods, is_tensor = core.op, core.tensor_methods, core.is_tensor
local is_float = {f32 = true, f16 = true, bf16 = true, f64 = true}

-- ---- rounding ----

--- x:floor(), x:ceil(), x:round(), x:trunc(), x:frac(): downwards, upwards, to the nearest (of two the even one),
-- towards zero, and what trunc cuts off; integers stay. Their gradient is 0, that of frac 1.
-- eg   capl.tensor{-1.5}:floor():item()  --> -2
local rounded = {
  floor = op.floor, round = op.round,
  ceil = function(x) return -op.floor(-x) end,
  trunc = function(x) return op.floor(x:abs()) * x:sign() end,
}
for name, fn in pairs(rounded) do
  methods[name] = function(x) return is_float[x.dtype] and fn(x) or x end
end
function methods.frac(x) return x - x:trunc() end

--- x:remainder(y): of x / floor(x / y), with the sign of y, as Lua's %. y: a tensor or a number.
-- eg   capl.tensor{-5}:remainder(3):item()  --> 1
function methods.remainder(x, y)
  if not is_tensor(y) then
    check.arg(1, "remainder", "number", y)
    if y == 0 and not is_float[x.dtype] then check.fail("remainder", ("%s by 0"):format(x.dtype)) end
  end
  return (op.remainder(x, number_in.like(x, y)))
end

--- x:fmod(y): what x / y leaves, with the sign of x. y: a tensor or a number.
-- eg   capl.tensor{-5}:fmod(3):item()  --> -2
function methods.fmod(x, y)
  local size = is_tensor(y) and y:abs() or math.abs(check.arg(1, "fmod", "number", y))
  return x:abs():remainder(size) * x:sign()
end

-- ---- logarithms, powers ----

--- x:log1p(), x:log2(), x:log10(), x:expm1(), x:exp2(), x:reciprocal(), x:rsqrt(), x:square(): log(1 + x), logarithms
-- of other bases, exp(x) - 1, 2^x, 1/x, x^-0.5, x².
-- errs dtype: x is not floating
-- eg   capl.tensor{8}:log2():item()  --> 3
function methods.log1p(x) return (op.log1p(x)) end
function methods.log2(x) return x:log() * (1 / math.log(2)) end
function methods.log10(x) return x:log() * (1 / math.log(10)) end
function methods.exp2(x) return (x * math.log(2)):exp() end
function methods.expm1(x) -- 2 sinh(x/2) exp(x/2) with tanh: exact near 0
  local half = (x * 0.5):tanh()
  return half * 2 / (1 - half)
end
function methods.reciprocal(x) return 1 / x end
function methods.rsqrt(x) return (op.pow(x, {exponent = -0.5})) end
function methods.square(x) return x * x end

--- x:lerp(y, weight): x + weight * (y - x).
-- eg   capl.zeros(1):lerp(capl.ones(1), 0.25):item()  --> 0.25
function methods.lerp(x, y, weight) return x + (check.arg(1, "lerp", "tensor", y) - x) * weight end

--- x:logaddexp(y): log(exp(x) + exp(y)), without overflow.
-- eg   capl.zeros(1):logaddexp(capl.zeros(1)):exp():item()  --> 2
function methods.logaddexp(x, y)
  local most = x:maximum(y)
  return most + op.log1p((-(x - y):abs()):exp())
end

-- ---- logical ----

--- x:isnan(), x:isinf(), x:isfinite(): of each element. bool
-- eg   capl.tensor{0 / 0, 1}:isnan():tolist()[1]  --> 1
function methods.isnan(x) return x:ne(x) end
function methods.isinf(x) return x:abs():eq(is_float[x.dtype] and math.huge or 2 ^ 64) end
function methods.isfinite(x) return is_float[x.dtype] and (x * 0):eq(0) or x:eq(x) end

--- x:nan_to_num([nan[, posinf[, neginf]]]): numbers instead of NaN (0) and infinities (the largest of f32).
-- eg   capl.tensor{0 / 0}:nan_to_num():item()  --> 0
function methods.nan_to_num(x, nan, posinf, neginf)
  local far = ({f16 = 65504, bf16 = 3.3895313892515355e38})[x.dtype] or 3.4028234663852886e38
  local y = x:masked_fill(x:isnan(), nan or 0)
  return y:masked_fill(x:eq(math.huge), posinf or far):masked_fill(x:eq(-math.huge), neginf or -far)
end

--- x:logical_not(), x:logical_and(y), x:logical_or(y), x:logical_xor(y): of "is not 0". bool
-- eg   capl.tensor{0, 2}:logical_not():tolist()[1]  --> 1
function methods.logical_not(x) return x:eq(0) end
function methods.logical_and(x, y) return x:ne(0) * check.arg(1, "logical_and", "tensor", y):ne(0) end
function methods.logical_or(x, y) return x:ne(0):maximum(check.arg(1, "logical_or", "tensor", y):ne(0)) end
function methods.logical_xor(x, y) return x:ne(0):ne(check.arg(1, "logical_xor", "tensor", y):ne(0)) end

--- x:isclose(y[, rtol[, atol]]): |x - y| <= atol + rtol * |y|, bool.
-- eg   capl.ones(1):isclose(capl.ones(1) + 1e-7):item()  --> 1
function methods.isclose(x, y, rtol, atol)
  check.arg(1, "isclose", "tensor", y)
  return x:eq(y):logical_or((x - y):abs():le(y:abs() * (rtol or 1e-5) + (atol or 1e-8)):logical_and(y:isfinite()))
end

--- x:allclose(y[, rtol[, atol]]): whether x:isclose(y) holds for all elements: true or false.
-- eg   capl.ones(2):allclose(capl.ones(2) + 1e-7)  --> true
function methods.allclose(x, ...) return x:isclose(...):all():item() == 1 end

--- x:equal(y): whether sizes and elements are the same: true or false.
-- eg   capl.ones(2):equal(capl.ones(3))  --> false
function methods.equal(x, y)
  local a, b = x.shape, check.arg(1, "equal", "tensor", y).shape
  if #a ~= #b then return false end
  for d, n in ipairs(a) do
    if n ~= b[d] then return false end
  end
  return x:numel() == 0 or x:eq(y):all():item() == 1
end

-- ---- over dims ----

--- x:logsumexp(dims[, keepdim]): log of the sum of exp, without overflow.
-- eg   capl.zeros(4):logsumexp(1):exp():item()  --> 4
function methods.logsumexp(x, dims, keepdim)
  if not is_float[x.dtype] then x = x:float() end
  local most = x:detach():amax(dims, true)
  most = most:masked_fill(most:isfinite():logical_not(), 0)
  local sum = (x - most):exp():sum(dims, keepdim):log()
  return sum + most:reshape(sum.shape)
end

-- The product along dim, in halves: as many ops as the length has binary digits.
local function product(x, dim)
  local n = x.shape[dim]
  while n > 1 do
    local half = math.floor(n / 2)
    local y = x:narrow(dim, 1, half) * x:narrow(dim, half + 1, half)
    x, n = n % 2 == 1 and op.concat(y, x:narrow(dim, n, 1), {dim = dim}) or y, half + n % 2
  end
  return x
end

--- x:prod([dim[, keepdim]]): product of all elements, or along dim; of integers i64.
-- eg   capl.tensor{2, 3, 4}:prod():item()  --> 24
function methods.prod(x, dim, keepdim)
  if not is_float[x.dtype] then x = x:long() end
  if dim == nil then x, dim = x:reshape(-1), 1 end
  dim = check.dim(1, "prod", dim, math.max(x.ndim, 1))
  if x.ndim == 0 then return x end
  local shape = x.shape
  local empty = shape[dim] == 0
  shape[dim] = 1
  local y = empty and core.full(shape, 1, {dtype = x.dtype, device = x.device}) or product(x, dim)
  if keepdim == true or type(keepdim) == "table" and keepdim.keepdim then return y end
  return y:squeeze(dim)
end

--- x:count_nonzero([dims]): how many elements are not 0. i64
-- eg   capl.tensor{0, 2, 3}:count_nonzero():item()  --> 2
function methods.count_nonzero(x, dims) return x:ne(0):sum(dims) end

--- x:dot(y), x:outer(y), x:mv(y): of vectors: the sum of products, all products; a matrix times a vector.
-- eg   capl.tensor{1, 2}:dot(capl.tensor{3, 4}):item()  --> 11
for name, dims in pairs{dot = {1, 1}, outer = {1, 1}, mv = {2, 1}} do
  methods[name] = function(x, y)
    check.arg(1, name, "tensor", y)
    if x.ndim ~= dims[1] or y.ndim ~= dims[2] then
      check.fail(name, ("x has %d dims and y %d, expected are %d and %d"):format(x.ndim, y.ndim, dims[1], dims[2]),
        "x:matmul(y) takes all of them")
    end
    if name == "outer" then return x:unsqueeze(2) * y:unsqueeze(1) end
    return x:matmul(y)
  end
end

-- ---- shapes, other names ----

--- x:view_as(y), x:reshape_as(y), x:type_as(y): in the sizes, the dtype of y.
function methods.reshape_as(x, y) return x:reshape(check.arg(1, "reshape_as", "tensor", y).shape) end
function methods.view_as(x, y) return x:reshape(check.arg(1, "view_as", "tensor", y).shape) end
function methods.type_as(x, y) return x:to(check.arg(1, "type_as", "tensor", y).dtype) end

--- x:unflatten(dim, sizes): dim in parts, the opposite of flatten.
-- eg   capl.zeros(2, 12):unflatten(2, {3, 4}):size(3)  --> 4
function methods.unflatten(x, dim, parts)
  dim = check.dim(1, "unflatten", dim, x.ndim)
  local shape = x.shape
  table.remove(shape, dim)
  for i, n in ipairs(check.arg(2, "unflatten", "table", parts)) do table.insert(shape, dim + i - 1, n) end
  return x:reshape(shape)
end

--- x:movedim(from, to): view with one dim at another place.
-- eg   capl.zeros(2, 3, 4):movedim(3, 1):size(1)  --> 4
function methods.movedim(x, from, to)
  from, to = check.dim(1, "movedim", from, x.ndim), check.dim(2, "movedim", to, x.ndim)
  local dims = {}
  for d = 1, x.ndim do
    if d ~= from then dims[#dims + 1] = d end
  end
  table.insert(dims, to, from)
  return x:permute(dims)
end

--- x:diagonal(): elements [i][i] of a matrix, as a vector.
-- eg   capl.eye(3):diagonal():sum():item()  --> 3
function methods.diagonal(x)
  if x.ndim ~= 2 then check.fail("diagonal", ("x has %d dims, a matrix has 2"):format(x.ndim)) end
  local n = math.min(x:size(1), x:size(2))
  return op.gather(x:narrow(1, 1, n), core.arange(0, n, 1, {dtype = "i64", device = x.device}):view(n, 1), {dim = 2}):
    squeeze(2)
end

--- x:relu6(), x:hardtanh(), x:selu(), x:celu([alpha]), x:mish(), x:softsign(), x:tanhshrink(), x:softmin(), x:glu():
-- the functions of the layers with these names; softmin and glu take a dim (the last).
-- eg   capl.tensor{3}:softsign():item()  --> 0.75
function methods.relu6(x) return x:clamp(0, 6) end
function methods.hardtanh(x, lo, hi) return x:clamp(lo or -1, hi or 1) end
function methods.selu(x) return x:elu(1.6732632423543772) * 1.0507009873554805 end
function methods.celu(x, alpha)
  alpha = alpha or 1
  return (x * (1 / alpha)):elu(1) * alpha
end
function methods.mish(x) return x * x:softplus():tanh() end
function methods.softsign(x) return x / (x:abs() + 1) end
function methods.tanhshrink(x) return x - x:tanh() end
function methods.softmin(x, dim) return (-x):softmax(dim) end
function methods.glu(x, dim)
  dim = check.dim(1, "glu", dim or -1, x.ndim)
  local n = x:size(dim)
  if n % 2 ~= 0 then check.fail("glu", ("dim %d has %d elements, halves need an even number"):format(dim, n)) end
  return x:narrow(dim, 1, n / 2) * x:narrow(dim, n / 2 + 1, n / 2):sigmoid()
end

return {}
