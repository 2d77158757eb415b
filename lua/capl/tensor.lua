-- tensor.lua: what a tensor can do, written with the ops: arithmetic, shapes, reductions, comparisons.
--
-- Dims count from 1, negative from the end. Results are new tensors or views; names that end in _ write in place.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local number_in = require "operand"
local root = require "root"

local op, methods, meta = core.op, core.tensor_methods, core.tensor_meta
local is_tensor = core.is_tensor

-- ---- shape ----

--- x:size() -> {…}; x:size(dim) -> number
-- eg   capl.zeros(2, 3):size(-1)  --> 3
function methods.size(x, dim)
  local shape = x.shape
  if dim == nil then return shape end
  return shape[check.dim(1, "size", dim, #shape)]
end

--- x:dim() -> number of dims
-- eg   capl.zeros(2, 3):dim()  --> 2
function methods.dim(x) return x.ndim end

-- Sizes as numbers or one table.
local function sizes(fname, ...)
  local list = type((...)) == "table" and (...) or {...}
  for i, n in ipairs(list) do check.arg(i, fname, "whole", n) end
  return list
end

--- x:reshape(size, …): same elements in logical order; one size may be -1. A view where strides allow.
-- errs shape: another number of elements
-- eg   capl.arange(6):reshape(2, -1):size(2)  --> 3
function methods.reshape(x, ...) return op.reshape(x, {size = sizes("reshape", ...)}) end

--- x:view(size, …): the same as reshape.
-- eg   capl.arange(6):view(3, 2):get(2, 1)  --> 2
function methods.view(x, ...) return op.reshape(x, {size = sizes("view", ...)}) end

--- x:flatten([first[, last]]): dims first..last become one; all without arguments.
-- eg   capl.zeros(2, 3, 4):flatten(2):size(2)  --> 12
function methods.flatten(x, first, last)
  local shape = x.shape
  if #shape == 0 then return op.reshape(x, {size = {1}}) end
  first = check.dim(1, "flatten", first == nil and 1 or first, #shape)
  last = check.dim(2, "flatten", last == nil and -1 or last, #shape)
  if last < first then check.bad(2, "flatten", ("last dim %d comes before first %d"):format(last, first)) end
  local out, product = {}, 1
  for d, n in ipairs(shape) do
    if d < first or d > last then
      out[#out + 1] = n
    else
      product = product * n
      if d == last then out[#out + 1] = product end
    end
  end
  return op.reshape(x, {size = out})
end

--- x:permute(dim, …): view with the dims in the given order.
-- eg   capl.zeros(2, 3, 4):permute(3, 1, 2):size(1)  --> 4
function methods.permute(x, ...) return op.permute(x, {dims = sizes("permute", ...)}) end

--- x:transpose(a, b): view with two dims exchanged.
-- eg   capl.zeros(2, 3, 4):transpose(1, 3):size(1)  --> 4
function methods.transpose(x, a, b)
  local n, dims = x.ndim, {}
  a, b = check.dim(1, "transpose", a, n), check.dim(2, "transpose", b, n)
  for d = 1, n do dims[d] = d end
  dims[a], dims[b] = b, a
  return op.permute(x, {dims = dims})
end

--- x:t(): transpose of a 2-d tensor; a vector stays.
-- eg   capl.zeros(2, 3):t():size(1)  --> 3
function methods.t(x)
  if x.ndim < 2 then return x end
  if x.ndim ~= 2 then
    core.error{code = "shape", op = "t", message = ("x has %d dims, t() needs 2"):format(x.ndim),
      hint = "use transpose(a, b)"}
  end
  return op.permute(x, {dims = {2, 1}})
end

--- x:narrow(dim, start, length): view of length elements from start on.
-- eg   capl.arange(5):narrow(1, 2, 3):tolist()[1]  --> 1
function methods.narrow(x, dim, start, length)
  dim = check.dim(1, "narrow", dim, x.ndim)
  check.arg(2, "narrow", "whole", start)
  check.arg(3, "narrow", "whole", length)
  return op.narrow(x, {dim = dim, start = start, length = length})
end

--- x:select(dim, index): view without dim, at index.
-- eg   capl.tensor{{1, 2}, {3, 4}}:select(1, 2):get(1)  --> 3
function methods.select(x, dim, index)
  local shape = x.shape
  dim = check.dim(1, "select", dim, #shape)
  check.arg(2, "select", "whole", index)
  local n = shape[dim]
  if index == 0 or index > n or index < -n then
    check.bad(2, "select", ("index %d is outside 1..%d of dim %d"):format(index, n, dim))
  end
  if index < 0 then index = n + 1 + index end
  local part = op.narrow(x, {dim = dim, start = index, length = 1})
  table.remove(shape, dim)
  return op.reshape(part, {size = shape})
end

--- x:unsqueeze(dim): a dim of size 1 before dim; -1 = at the end.
-- eg   capl.zeros(3):unsqueeze(1):size(1)  --> 1
function methods.unsqueeze(x, dim)
  local shape = x.shape
  dim = check.dim(1, "unsqueeze", dim, #shape + 1)
  table.insert(shape, dim, 1)
  return op.reshape(x, {size = shape})
end

--- x:squeeze([dim]): without the dims of size 1, or without that one.
-- eg   capl.zeros(1, 3, 1):squeeze():dim()  --> 1
function methods.squeeze(x, dim)
  local shape, out = x.shape, {}
  if dim ~= nil then dim = check.dim(1, "squeeze", dim, #shape) end
  for d, n in ipairs(shape) do
    if n ~= 1 or (dim and d ~= dim) then out[#out + 1] = n end
  end
  return op.reshape(x, {size = out})
end

--- x:expand(size, …): view with dims of size 1 repeated; -1 keeps a size.
-- eg   capl.ones(1, 3):expand(2, -1):size(1)  --> 2
function methods.expand(x, ...) return op.expand(x, {size = sizes("expand", ...)}) end

--- x:expand_as(y): x:expand to the sizes of y.
function methods.expand_as(x, y) return op.expand(x, {size = check.arg(1, "expand_as", "tensor", y).shape}) end

--- x:contiguous(): row-major in memory; x itself if it is already.
function methods.contiguous(x)
  if x:is_contiguous() then return x end
  return (op.contiguous(x))
end

--- x:clone(): a copy, part of the graph.
-- eg   capl.ones(2):clone():add_(1):get(1)  --> 2
function methods.clone(x) return op.cast(x, {dtype = x.dtype}) end

-- ---- dtype and device ----

local function to_one(x, what)
  if core.is_dtype(what) then return op.cast(x, {dtype = what}) end
  if what == x.device then return x end
  return core.copy_to(x, what)
end

--- x:to("bf16"), x:to("cpu"), x:to{dtype = …, device = …}. Casts are part of the graph; a copy to another device is
-- not.
-- eg   capl.ones(2):to("i32").dtype  --> i32
function methods.to(x, what)
  if type(what) == "table" then
    local o = check.options("to", {{"dtype", "string"}, {"device", "string"}}, what)
    if o.device then x = to_one(x, o.device) end
    return o.dtype and op.cast(x, {dtype = o.dtype}) or x
  end
  return to_one(x, check.arg(1, "to", "string", what))
end

--- x:float(), x:half(), x:bfloat16(), x:double(), x:int(), x:long(), x:byte(), x:bool(): x as f32, f16, bf16, f64, i32,
-- i64, u8, bool; x itself if it is that already. Part of the graph.
-- eg   capl.tensor{1.5}:int():item()  --> 1
for name, dtype in pairs{float = "f32", half = "f16", bfloat16 = "bf16", double = "f64", int = "i32", long = "i64",
  byte = "u8", bool = "bool"} do
  methods[name] = function(x) return x.dtype == dtype and x or op.cast(x, {dtype = dtype}) end
end

-- ---- arithmetic ----

local function operand(fname, value)
  if type(value) ~= "number" and not is_tensor(value) then
    check.fail(fname, ("tensor or number expected, got %s"):format(core.typename(value)))
  end
  return value
end

local function add(a, b)
  operand("add", a) operand("add", b)
  if type(b) == "number" then return op.affine(a, {shift = b}) end
  if type(a) == "number" then return op.affine(b, {shift = a}) end
  return op.add(a, b)
end

local function sub(a, b)
  operand("sub", a) operand("sub", b)
  if type(b) == "number" then return op.affine(a, {shift = -b}) end
  if type(a) == "number" then return op.affine(b, {scale = -1, shift = a}) end
  return op.sub(a, b)
end

local function mul(a, b)
  operand("mul", a) operand("mul", b)
  if type(b) == "number" then return op.affine(a, {scale = b}) end
  if type(a) == "number" then return op.affine(b, {scale = a}) end
  return op.mul(a, b)
end

local is_float = {f32 = true, f16 = true, bf16 = true, f64 = true}

local function div(a, b)
  operand("div", a) operand("div", b)
  if type(b) == "number" and is_float[a.dtype] and b ~= 0 then return op.affine(a, {scale = 1 / b}) end
  return op.div(is_tensor(a) and a or number_in.like(b, a), is_tensor(b) and b or number_in.like(a, b))
end

local function pow(a, b)
  operand("pow", a) operand("pow", b)
  if type(b) == "number" then return op.pow(a, {exponent = b}) end
  return op.power(number_in.like(b, a), b)
end

--- x:add(y), x:sub(y), x:mul(y), x:div(y), x:pow(y): element by element; y is a tensor whose sizes broadcast with
-- x's, or a number. The same as x + y, x - y, x * y, x / y, x ^ 2, which take a number on the left, too.
-- errs shape: sizes that do not broadcast; value: neither tensor nor number
-- eg   (capl.tensor{1, 2} * 3 + 1):tolist()[2]  --> 7
methods.add, methods.sub, methods.mul, methods.div, methods.pow = add, sub, mul, div, pow
meta.__add, meta.__sub, meta.__mul, meta.__div, meta.__pow = add, sub, mul, div, pow

--- x:neg(): the same as -x.
-- errs dtype: x is bool
-- eg   capl.tensor{2}:neg():item()  --> -2
function methods.neg(x)
  if x.dtype == "bool" then
    core.error{code = "dtype", op = "neg", message = "x is bool, which has no sign",
      hint = "x:eq(0) is its opposite; x:int() has numbers"}
  end
  return op.affine(x, {scale = -1})
end
meta.__unm = methods.neg

--- x:add_(y), x:sub_(y), x:mul_(y), x:div_(y): the same written into x, outside the graph; x itself. For parameters:
-- they take y's values whatever backward() thinks of it.
-- eg   capl.ones(2):add_(2):get(1)  --> 3
for name, fn in pairs{add_ = add, sub_ = sub, mul_ = mul, div_ = div} do
  methods[name] = function(x, y) return x:copy_(core.no_grad(fn, x, y)) end
end

--- x:relu(), x:sigmoid(), x:tanh(), x:exp(), x:log(), x:sqrt(), x:abs(), x:sign(), x:erf(), x:sin(), x:cos(), x:silu(),
-- x:hardsigmoid(), x:hardswish(), x:log_sigmoid(): of each element.
-- errs dtype: x is not floating
-- eg   capl.tensor{-1, 4}:relu():sqrt():tolist()[2]  --> 2
for _, name in ipairs{"relu", "sigmoid", "tanh", "exp", "log", "sqrt", "abs", "sign", "erf", "sin", "cos", "silu",
  "hardsigmoid", "hardswish", "log_sigmoid"} do
  methods[name] = function(x) return op[name](x) end
end

--- x:leaky_relu([negative_slope]), x:elu([alpha]), x:softplus([beta[, threshold]]), x:gelu([approximate]): of each
-- element, with the defaults of the layers: 0.01, 1, 1 and 20, "none".
-- eg   capl.tensor{-1}:leaky_relu(0.5):item()  --> -0.5
function methods.leaky_relu(x, slope) return op.leaky_relu(x, {negative_slope = slope}) end
function methods.elu(x, alpha) return op.elu(x, {alpha = alpha}) end
function methods.softplus(x, beta, threshold) return op.softplus(x, {beta = beta, threshold = threshold}) end
function methods.gelu(x, approximate) return op.gelu(x, {approximate = approximate}) end

--- x:maximum(y), x:minimum(y), x:eq(y), x:ne(y), x:lt(y), x:le(y), x:gt(y), x:ge(y): element by element, with a tensor
-- that broadcasts or a number; comparisons give bool. (Lua's own == compares handles, < raises an error.)
-- eg   capl.tensor{1, 5}:gt(2):tolist()[2]  --> 1
for _, name in ipairs{"maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"} do
  methods[name] = function(x, y)
    operand(name, y)
    return op[name](x, number_in.like(x, y))
  end
end

--- x:clamp(lo, hi); either may be nil, or a tensor that broadcasts; x:clamp_min(lo), x:clamp_max(hi).
-- eg   capl.tensor{5}:clamp(0, 1):item()  --> 1
function methods.clamp(x, lo, hi)
  if lo ~= nil then operand("clamp", lo) end
  if hi ~= nil then operand("clamp", hi) end
  if is_float[x.dtype] and not is_tensor(lo) and not is_tensor(hi) then return op.clamp(x, {min = lo, max = hi}) end
  if lo ~= nil then x = x:maximum(lo) end
  if hi ~= nil then x = x:minimum(hi) end
  return x
end

function methods.clamp_min(x, lo) return x:clamp(lo) end
function methods.clamp_max(x, hi) return x:clamp(nil, hi) end

--- x:matmul(y): (…,M,K) times (…,K,N); vectors as in PyTorch.
-- eg   capl.ones(2, 3):matmul(capl.ones(3, 4)):get(1, 1)  --> 3
function methods.matmul(x, y)
  check.arg(1, "matmul", "tensor", y)
  local a, b = x.ndim, y.ndim
  if a == 1 then x = x:unsqueeze(1) end
  if b == 1 then y = y:unsqueeze(2) end
  local out = op.matmul(x, y)
  if b == 1 then out = out:squeeze(-1) end
  if a == 1 then out = out:squeeze(b == 1 and -1 or -2) end
  return out
end

--- x:mm(y), x:bmm(y): other names of x:matmul(y), for two 2-d and two 3-d tensors.
methods.mm, methods.bmm = methods.matmul, methods.matmul

-- ---- reductions ----

local function keepdim_of(fname, n, value)
  if value == nil or type(value) == "boolean" then return value or false end
  return check.options(fname, {{"keepdim", "boolean", default = false}}, check.arg(n, fname, "table", value)).keepdim
end

-- x:sum(), x:sum(dim), x:sum({dims}), each with a last true or {keepdim = true}
local function reduction(fname, run)
  return function(x, dims, keep)
    local ndim = math.max(x.ndim, 1) -- a tensor without dims has dim 1 and -1, as in PyTorch
    if type(dims) == "boolean" or (type(dims) == "table" and dims[1] == nil and next(dims)) then
      dims, keep = nil, dims
    end
    local list = {}
    if type(dims) == "table" then
      check.list(fname, dims, ("x:%s({dims}, {keepdim = true})"):format(fname))
      for i, d in ipairs(dims) do list[i] = check.dim(1, fname, d, ndim) end
    elseif dims ~= nil then
      list[1] = check.dim(1, fname, dims, ndim)
    end
    if x.ndim == 0 then list = {} end
    return run(x, {dims = list, keepdim = keepdim_of(fname, 2, keep)})
  end
end

--- x:sum([dims][, keepdim]): sum over all elements; over one dim or a list of them, which go, or with true or {keepdim
-- = true} stay with size 1. Sums of 16-bit types are kept in f32.
-- eg   capl.tensor{{1, 2}, {3, 4}}:sum(1):tolist()[2]  --> 6
methods.sum = reduction("sum", op.sum)
--- x:mean([dims][, keepdim]): mean over all elements, or over dims as x:sum takes them.
-- errs dtype: x is not floating
-- eg   capl.tensor{1, 2, 6}:mean():item()  --> 3
methods.mean = reduction("mean", op.mean)
--- x:amax([dims][, keepdim]): the largest element, over dims as x:sum takes them; the gradient is shared among equal
-- ones.
-- eg   capl.tensor{{1, 2}, {3, 0}}:amax(2):tolist()[2]  --> 3
methods.amax = reduction("amax", op.amax)
-- The order turned around: x's dtype has a place for each number, also in integers, where -x may have none.
local function backwards(x, dtype)
  if is_float[x.dtype] then return -x end
  local y = op.affine(x, {scale = -1, shift = -1})
  return y.dtype == dtype and y or dtype and y:to(dtype) or y
end

--- x:amin([dims][, keepdim]): the smallest element, over dims as x:sum takes them.
methods.amin = reduction("amin", function(x, attrs) return backwards(op.amax(backwards(x), attrs), x.dtype) end)

--- x:any([dims][, keepdim]), x:all([dims][, keepdim]): whether one element, or each one, is not 0, over dims as x:sum
-- takes them. bool
-- eg   capl.tensor{0, 2}:any():item()  --> 1
local some = reduction("any", op.amax)
function methods.any(x, ...) return some(x:ne(0):float(), ...):ne(0) end -- f32 has fast kernels everywhere
function methods.all(x, ...) return x:eq(0):any(...):eq(0) end

local function argmax_of_one(x, dim)
  if dim ~= nil then check.dim(1, "argmax", dim, 1) end
  return (op.argmax(x:reshape(1), {dim = 1}))
end

--- x:argmax([dim][, keepdim]): place of the largest, counted from 0 as class labels are; first of ties. i32
-- eg   capl.tensor{3, 9, 5}:argmax():item()  --> 1
function methods.argmax(x, dim, keep)
  if x.ndim == 0 then return argmax_of_one(x, dim) end
  if dim == nil then x, dim = x:reshape(-1), 1 end
  return op.argmax(x, {dim = check.dim(1, "argmax", dim, x.ndim), keepdim = keepdim_of("argmax", 2, keep)})
end

--- x:max() -> largest element; x:max(dim[, keepdim]) -> values, places counted from 0. The gradient goes to that place.
-- eg   capl.tensor{3, 9, 5}:max():item()  --> 9
function methods.max(x, dim, keep)
  if dim == nil then return x:amax() end
  if is_tensor(dim) then check.fail("max", "the dim is a tensor", "x:maximum(y) is the larger of each two") end
  local places = x:argmax(dim, keep)
  if not x.requires_grad or x.ndim == 0 then return x:amax(dim, keep), places end
  local kept = places.ndim == x.ndim and places or places:unsqueeze(check.dim(1, "max", dim, x.ndim))
  local values = x:gather(dim, kept)
  return kept == places and values or values:squeeze(dim), places
end

--- x:argmin([dim][, keepdim]): place of the smallest, as x:argmax gives that of the largest. i32
-- eg   capl.tensor{3, 9, 1}:argmin():item()  --> 2
function methods.argmin(x, dim, keep) return methods.argmax(backwards(x), dim, keep) end

--- x:min() -> smallest element; x:min(dim[, keepdim]) -> values, places counted from 0, as x:max
-- eg   capl.tensor{3, 9, 5}:min():item()  --> 3
function methods.min(x, dim, keep)
  if dim == nil then return x:amin() end
  if is_tensor(dim) then check.fail("min", "the dim is a tensor", "x:minimum(y) is the smaller of each two") end
  local values, places = methods.max(backwards(x), dim, keep)
  return backwards(values, x.dtype), places
end

--- x:var([dims][, {keepdim, unbiased, correction}]): mean squared distance from the mean; unbiased (divided by n - 1)
-- unless unbiased = false (n) or correction = c (n - c).
-- eg   capl.tensor{1, 3}:var():item()  --> 2
function methods.var(x, dims, opts)
  if type(dims) == "table" and dims[1] == nil then dims, opts = nil, dims end
  local o = check.options("var", {{"keepdim", "boolean", default = false}, {"unbiased", "boolean"},
    {"correction", "number"}}, opts)
  if o.unbiased ~= nil and o.correction then check.fail("var", "unbiased and correction are both given") end
  local centred = x - x:mean(dims, true)
  local biased = (centred * centred):mean(dims, o.keepdim)
  local n = x:numel() / biased:numel()
  local correction = o.correction or o.unbiased == false and 0 or 1
  return correction == 0 and biased or biased * (n / math.max(n - correction, 0))
end

--- x:std(…): square root of x:var(…); without gradient where all elements are equal.
-- eg   capl.tensor{1, 3}:std({unbiased = false}):item()  --> 1
function methods.std(x, ...)
  local variance = x:var(...)
  return root(variance, variance.sqrt)
end

--- x:softmax([dim]), x:log_softmax([dim]): dim = last unless said.
-- eg   capl.zeros(4):softmax():get(1)  --> 0.25
for _, name in ipairs{"softmax", "log_softmax"} do
  methods[name] = function(x, dim)
    dim = check.dim(1, name, dim or -1, math.max(x.ndim, 1))
    if x.ndim > 0 then return op[name](x, {dim = dim}) end
    return op[name](x:reshape(1), {dim = dim}):reshape{}
  end
end

-- ---- functions of several tensors ----

local tensor = {}

local function tensor_list(fname, list)
  check.list("capl." .. fname, check.arg(1, fname, "table", list),
    ("the dim is the second argument: capl.%s({…}, dim)"):format(fname))
  if #list == 0 then check.bad(1, fname, "at least one tensor") end
  for i, x in ipairs(list) do
    if not is_tensor(x) then check.bad(1, fname, ("entry %d is a %s, not a tensor"):format(i, core.typename(x))) end
  end
  return list
end

--- capl.cat({x, …}[, dim]): joined along dim (1).
-- eg   capl.cat({capl.ones(2, 3), capl.zeros(4, 3)}):size(1)  --> 6
function tensor.cat(list, dim) return op.concat(tensor_list("cat", list), {dim = dim or 1}) end

--- capl.stack({x, …}[, dim]): joined along a new dim (1).
-- eg   capl.stack{capl.ones(3), capl.zeros(3)}:size(1)  --> 2
function tensor.stack(list, dim)
  local out = {}
  for i, x in ipairs(tensor_list("stack", list)) do out[i] = x:unsqueeze(dim or 1) end
  return op.concat(out, {dim = dim or 1})
end

--- capl.where(condition, a, b): a where condition holds, else b; a and b may be numbers.
-- eg   capl.where(capl.tensor{1, -1}:gt(0), 7, 0):tolist()[1]  --> 7
function tensor.where(condition, a, b)
  check.arg(1, "where", "tensor", condition)
  operand("where", a) operand("where", b)
  local like = is_tensor(a) and a or is_tensor(b) and b
  local function side(v)
    if like or is_tensor(v) then return number_in.like(like, v) end
    return core.fuse_constant(core.full({}, v, {device = condition.device}), v)
  end
  return op.where(condition, side(a), side(b))
end

--- capl.zeros_like(x[, options]), ones_like, empty_like, rand_like, randn_like: shape, dtype and device of x.
-- eg   capl.ones_like(capl.zeros(2, 3)):numel()  --> 6
local function options_like(fname, x, opts)
  check.arg(1, fname, "tensor", x)
  return check.options(fname, {{"dtype", "string", default = x.dtype}, {"device", "string", default = x.device},
    {"requires_grad", "boolean"}}, opts)
end
for _, name in ipairs{"zeros", "ones", "empty", "rand", "randn"} do
  tensor[name .. "_like"] = function(x, opts) return core[name](x.shape, options_like(name .. "_like", x, opts)) end
end

--- capl.eye(n[, {dtype, device}]): the n x n identity matrix, f32 unless said.
-- errs value: n is not a whole number from 0 on
-- eg   capl.eye(3):sum():item()  --> 3
function tensor.eye(n, opts)
  local o = check.options("eye", {{"dtype", "string", default = "f32"}, {"device", "string"}}, opts)
  if check.arg(1, "eye", "whole", n) < 0 then check.bad(1, "eye", ("a number from 0 on expected, got %d"):format(n)) end
  local i = core.arange(0, n, 1, {dtype = "f32", device = o.device})
  return i:view(n, 1):eq(i:view(1, n)):to(o.dtype)
end

--- capl.full_like(x, value[, options]): value in the shape, dtype and device of x.
-- eg   capl.full_like(capl.zeros(3), 7):get(3)  --> 7
function tensor.full_like(x, value, opts)
  local o = options_like("full_like", x, opts)
  return core.full(x.shape, check.arg(2, "full_like", "number", value), o)
end

require "elementwise"
for name, fn in pairs(require "rearrange") do tensor[name] = fn end
require "arity" -- the last one: of all methods

return tensor
