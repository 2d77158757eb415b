-- rearrange.lua: what a tensor can do with its elements' places: parts, indices, padding, running sums.
--
-- Dims count from 1, negative from the end. Indices in tensors, and lists of them, are values that count from 0, as
-- class labels do and as x:argmax gives them.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local number_in = require "operand"
local root = require "root"

local op, methods, is_tensor = core.op, core.tensor_methods, core.is_tensor

-- A whole number from `least` on.
local function from(n, fname, value, least)
  if check.arg(n, fname, "whole", value) < least then
    check.bad(n, fname, ("a number from %d on expected, got %d"):format(least, value))
  end
  return value
end

-- ---- parts ----

-- Views of the given lengths along dim.
local function parts_of(x, lengths, dim)
  local out, start = {}, 1
  for i, length in ipairs(lengths) do
    out[i] = op.narrow(x, {dim = dim, start = start, length = length})
    start = start + length
  end
  return out
end

--- x:split(length[, dim]) -> list of views of that length along dim (1), the last one shorter; x:split({lengths}[,
-- dim])
-- eg   #capl.arange(5):split(2)  --> 3
function methods.split(x, length, dim)
  dim = check.dim(2, "split", dim or 1, x.ndim)
  local total, lengths, sum = x.shape[dim], {}, 0
  if type(length) == "table" then
    for i, n in ipairs(length) do lengths[i], sum = check.arg(1, "split", "whole", n), sum + n end
    if sum ~= total then check.bad(1, "split", ("the lengths add up to %d, dim %d has %d"):format(sum, dim, total)) end
    return parts_of(x, lengths, dim)
  end
  from(1, "split", length, 1)
  for start = 0, math.max(total - 1, 0), length do lengths[#lengths + 1] = math.min(length, total - start) end
  return parts_of(x, lengths, dim)
end

--- x:chunk(n[, dim]) -> list of at most n views of equal length along dim (1), the last one shorter
-- eg   #capl.arange(6):chunk(3)  --> 3
function methods.chunk(x, n, dim)
  dim = check.dim(2, "chunk", dim or 1, x.ndim)
  from(1, "chunk", n, 1)
  return methods.split(x, math.max(1, math.ceil(x.shape[dim] / n)), dim)
end

--- x:unbind([dim]) -> list of views without dim (1), one for each of its indices
-- eg   #capl.zeros(2, 3):unbind()  --> 2
function methods.unbind(x, dim)
  dim = check.dim(1, "unbind", dim or 1, x.ndim)
  local out = {}
  for i = 1, x.shape[dim] do out[i] = x:select(dim, i) end
  return out
end

-- Place i of n, negative from the end.
local function place(d, i, n)
  if type(i) ~= "number" or i % 1 ~= 0 or i == 0 or i > n or i < -n then
    check.fail("slice", ("%s is no place from 1 to %d of dim %d"):format(tostring(i), n, d))
  end
  return i > 0 and i or n + 1 + i
end

--- x:slice{…}, x[{…}]: a view of part of x; for each dim a number (that place, and the dim goes), {first, last} (both
-- included, negative from the end) or {} (all). Dims that are not named stay whole. x[{…}]:copy_(y) writes.
-- errs value: a place that the dim does not have
-- eg   capl.arange(6):view(2, 3)[{{}, {2, 3}}]:tolist()[1][1]  --> 1
function methods.slice(x, parts)
  check.list("slice", check.arg(1, "slice", "table", parts), "for dims left whole: {}")
  if #parts > x.ndim then check.fail("slice", ("%d parts of a tensor with %d dims"):format(#parts, x.ndim)) end
  local gone = 0
  for d, part in ipairs(parts) do
    local dim = d - gone
    local n = x.shape[dim]
    if type(part) == "number" then
      x, gone = x:select(dim, place(d, part, n)), gone + 1
    elseif check.arg(1, "slice", "table", part)[1] ~= nil then
      if #part > 2 then check.fail("slice", "a part is {first, last}", "steps: x:index_select(dim, {0, 2, …})") end
      local first, last = place(d, part[1], n), place(d, part[2] or part[1], n)
      if last < first then check.fail("slice", ("part %d to %d of dim %d is empty"):format(first, last, d)) end
      x = op.narrow(x, {dim = dim, start = first, length = last - first + 1})
    end
  end
  return x
end

-- ---- by index ----

-- An index given as a tensor, or as a list of numbers.
local function index_of(x, n, fname, index)
  if is_tensor(index) then return index end
  for _, v in ipairs(check.arg(n, fname, "table", index)) do
    if type(v) ~= "number" and type(v) ~= "table" then
      check.bad(n, fname, ("a tensor or a list of numbers expected, got a %s in it"):format(core.typename(v)))
    end
  end
  return core.tensor(index, {dtype = "i32", device = x.device})
end

--- x:index_select(dim, index): slices of dim in the order of index, a tensor (n) or a list; values from 0 on.
-- errs value: an index out of range (on a GPU the slice becomes NaN)
-- eg   capl.tensor{5, 6, 7}:index_select(1, {2, 0}):tolist()[1]  --> 7
function methods.index_select(x, dim, index)
  dim = check.dim(1, "index_select", dim, x.ndim)
  return (op.index_select(x, index_of(x, 2, "index_select", index), {dim = dim}))
end

--- x:gather(dim, index): for dim 2 of a matrix, y[i][j] = x[i][index[i][j]]; index i32 or i64, values from 0 on.
-- errs shape: index has other dims than x, or is longer in another dim; value: out of range (on a GPU: NaN)
-- eg   capl.tensor{{5, 6}}:gather(2, capl.tensor({{1}}, {dtype = "i64"})):item()  --> 6
function methods.gather(x, dim, index)
  dim = check.dim(1, "gather", dim, x.ndim)
  return (op.gather(x, index_of(x, 2, "gather", index), {dim = dim}))
end

local is_float = {f32 = true, f16 = true, bf16 = true, f64 = true}

-- src in x's dtype where both are floats: autocast may have made one of them narrower.
local function like(x, src)
  if src.dtype ~= x.dtype and is_float[src.dtype] and is_float[x.dtype] then return src:to(x.dtype) end
  return src
end

--- x:scatter(dim, index, src): a copy of x; for dim 2 of a matrix, y[i][index[i][j]] = src[i][j]. src: a tensor of
-- index's shape, or a number. Of several for one place the last stays.
function methods.scatter(x, dim, index, src)
  dim = check.dim(1, "scatter", dim, x.ndim)
  index = index_of(x, 2, "scatter", index)
  if type(src) == "number" then return (op.scatter(x, index, nil, {dim = dim, value = src})) end
  return (op.scatter(x, index, like(x, check.arg(3, "scatter", "tensor", src)), {dim = dim}))
end

--- x:scatter_add(dim, index, src): a copy of x; for dim 2 of a matrix, y[i][index[i][j]] += src[i][j].
function methods.scatter_add(x, dim, index, src)
  dim = check.dim(1, "scatter_add", dim, x.ndim)
  return (op.scatter_add(x, index_of(x, 2, "scatter_add", index), like(x, check.arg(3, "scatter_add", "tensor", src)),
    {dim = dim}))
end

--- x:one_hot(classes): class numbers from 0 on as rows of zeros with a one, i64 (x's shape, classes). Numbers that are
-- no class, such as a padding of -1, give a row of zeros.
-- eg   capl.tensor({2, 0}, {dtype = "i32"}):one_hot(3):tolist()[1][3]  --> 1
function methods.one_hot(x, count)
  if is_float[x.dtype] then check.fail("one_hot", "class numbers are whole, x is " .. x.dtype, "x:long() cuts them") end
  from(1, "one_hot", count, 1)
  return x:unsqueeze(-1):eq(core.arange(0, count, 1, {dtype = x.dtype, device = x.device})):to("i64")
end

--- x:masked_fill(mask, value): value where mask (bool, broadcast) holds, x elsewhere. value: a number or a tensor
-- without dims.
-- eg   capl.tensor{1, 5}:masked_fill(capl.tensor{1, 5}:gt(2), 0):sum():item()  --> 1
function methods.masked_fill(x, mask, value)
  check.arg(1, "masked_fill", "tensor", mask)
  if not is_tensor(value) then
    return (op.where(mask, number_in.exactly("masked_fill", x, check.arg(2, "masked_fill", "number", value)), x))
  end
  if value.ndim > 0 then
    check.fail("masked_fill", ("the value has %d dims, one number has none"):format(value.ndim),
      "capl.where(mask, value, x) takes an element of each place")
  end
  return (op.where(mask, value:to(x.dtype), x))
end

--- x:where(condition, other): x where condition holds, else other (a tensor or a number).
function methods.where(x, condition, other)
  check.arg(1, "where", "tensor", condition)
  if type(other) ~= "number" then check.arg(2, "where", "tensor", other) end
  return (op.where(condition, x, number_in.like(x, other)))
end

-- ---- other orders, copies ----

--- x:flip(dim, …): the given dims backwards.
-- eg   capl.tensor{1, 2, 3}:flip(1):tolist()[1]  --> 3
function methods.flip(x, ...)
  local dims = type((...)) == "table" and (...) or {...}
  for i, given in ipairs(dims) do
    local dim = check.dim(i, "flip", given, x.ndim)
    local n = x.shape[dim]
    if n > 1 then
      x = op.index_select(x, core.arange(n - 1, -1, -1, {dtype = "i32", device = x.device}), {dim = dim})
    end
  end
  return x
end

--- x:roll(shift[, dim]): moved by shift along dim, or as one row where none is named; what leaves at one end comes in
-- at the other. Lists of shifts and dims: one after the other.
-- eg   capl.tensor{1, 2, 3}:roll(1):get(1)  --> 3
function methods.roll(x, shift, dim)
  if type(shift) == "table" then
    for i, by in ipairs(shift) do x = methods.roll(x, by, check.arg(2, "roll", "table", dim)[i]) end
    return x
  end
  if dim == nil then return methods.roll(x:reshape(-1), shift, 1):reshape(x.shape) end
  dim = check.dim(2, "roll", dim, x.ndim)
  local n = x.shape[dim]
  local by = n > 0 and check.arg(1, "roll", "whole", shift) % n or 0
  if by == 0 then return x end
  local parts = parts_of(x, {n - by, by}, dim)
  return (op.concat(parts[2], parts[1], {dim = dim}))
end

-- x with each slice of `inner` elements n times, one after the other, in the given shape.
local function repeated(x, inner, n, shape)
  if x:numel() == 0 then return op.reshape(x, {size = shape}) end
  local outer = x:numel() / inner
  local slices = op.expand(op.reshape(x, {size = {outer, 1, inner}}), {size = {outer, n, inner}})
  return op.reshape(slices, {size = shape})
end

-- The elements of x from dim on, for one index of those before it.
local function numel_from(shape, dim)
  local n = 1
  for d = dim, #shape do n = n * shape[d] end
  return n
end

--- x:tile(n, …): x side by side, n times along each dim (PyTorch's repeat, a word that Lua keeps); new dims come first.
-- eg   capl.tensor{1, 2}:tile(2, 3):size(2)  --> 6
function methods.tile(x, ...)
  local times = type((...)) == "table" and (...) or {...}
  local shape = x.shape
  if #times < #shape then check.fail("tile", ("%d numbers for %d dims"):format(#times, #shape),
    "one for each dim of x, or more") end
  for i, n in ipairs(times) do from(i, "tile", n, 0) end
  while #shape < #times do table.insert(shape, 1, 1) end
  local y = op.reshape(x, {size = shape})
  for d, n in ipairs(times) do
    local inner = numel_from(shape, d)
    shape[d] = shape[d] * n
    if n ~= 1 then y = repeated(y, inner, n, shape) end
  end
  return y
end

--- x:repeat_interleave(n[, dim]): each slice of dim (1) n times, one after the other.
-- eg   capl.tensor{1, 2}:repeat_interleave(2):tolist()[2]  --> 1
function methods.repeat_interleave(x, n, dim)
  dim = check.dim(2, "repeat_interleave", dim or 1, x.ndim)
  from(1, "repeat_interleave", n, 0)
  local shape = x.shape
  shape[dim] = shape[dim] * n
  return repeated(x, numel_from(x.shape, dim + 1), n, shape)
end

-- ---- padding ----

-- Indices from 0 of n elements with before and after more around them.
local around = {
  replicate = function(i, n) return math.min(math.max(i, 0), n - 1) end,
  circular = function(i, n) return i % n end,
  reflect = function(i, n)
    if n == 1 then return 0 end
    local k = i % (2 * n - 2)
    return k < n and k or 2 * n - 2 - k
  end,
}

local function pad_by_index(x, dim, before, after, mode)
  local n, index = x.shape[dim], {}
  local most = mode == "reflect" and n - 1 or mode == "circular" and n or math.huge
  if n < 1 or math.max(before, after) > most then
    check.fail("pad", ("%d and %d elements around dim %d of %d: mode \"%s\" has no more than %d to show"):format(before,
      after, dim, n, mode, math.max(0, math.min(most, n))))
  end
  for i = -before, n - 1 + after do index[#index + 1] = around[mode](i, n) end
  return methods.index_select(x, dim, index)
end

-- Constant elements at both ends of dim; negative numbers cut.
local function pad_constant(x, dim, before, after, value)
  local n = x.shape[dim]
  local cut_before, cut_after = math.max(0, -before), math.max(0, -after)
  if cut_before + cut_after > n then
    check.fail("pad", ("%d and %d elements cut off dim %d, which has %d"):format(cut_before, cut_after, dim, n))
  end
  if cut_before + cut_after > 0 then
    x = op.narrow(x, {dim = dim, start = cut_before + 1, length = n - cut_before - cut_after})
  end
  local function block(length)
    local shape = x.shape
    shape[dim] = length
    return core.full(shape, value, {dtype = x.dtype, device = x.device})
  end
  if before > 0 and after > 0 then return (op.concat(block(before), x, block(after), {dim = dim})) end
  if before > 0 then return (op.concat(block(before), x, {dim = dim})) end
  if after > 0 then return (op.concat(x, block(after), {dim = dim})) end
  return x
end

--- x:pad({left, right[, top, bottom, …]}[, {mode, value}]): elements around x, of the last dim first, as in PyTorch.
-- opts mode = "constant" (value = 0; negative numbers cut), "reflect", "replicate" or "circular"
-- errs value: more numbers than x has dims, or more elements than the mode can show
-- eg   capl.zeros(1, 3, 4, 5):pad({1, 2, 3, 0}):size(4)  --> 8
function methods.pad(x, widths, options)
  check.arg(1, "pad", "table", widths)
  local o = check.options("pad", {{"mode", "string", default = "constant"}, {"value", "number"}, positional = 0},
    options)
  check.one_of("pad", "mode", o.mode, {"constant", "reflect", "replicate", "circular"})
  if o.value and o.mode ~= "constant" then
    check.fail("pad", ("value is about mode \"constant\", mode is \"%s\""):format(o.mode))
  end
  if #widths % 2 ~= 0 or #widths > 2 * x.ndim then
    check.bad(1, "pad", ("pairs {before, after} for at most %d dims expected, the last dim first, got %d numbers"):format(x.ndim, #widths))
  end
  for i = 1, #widths, 2 do
    local dim, before, after = x.ndim - (i - 1) / 2, check.arg(1, "pad", "whole", widths[i]),
      check.arg(1, "pad", "whole", widths[i + 1])
    if o.mode == "constant" then x = pad_constant(x, dim, before, after, o.value or 0)
    elseif before < 0 or after < 0 then check.fail("pad",
      ("mode \"%s\" cannot cut: %d, %d"):format(o.mode, before, after))
    elseif before + after > 0 then x = pad_by_index(x, dim, before, after, o.mode) end
  end
  return x
end

-- ---- running sums, the largest, triangles ----

--- x:cumsum([dim]): sums of the elements up to each one, along dim (1).
-- eg   capl.tensor{1, 2, 3}:cumsum():tolist()[3]  --> 6
function methods.cumsum(x, dim)
  dim = check.dim(1, "cumsum", dim or 1, math.max(x.ndim, 1))
  if x.ndim == 0 then return x end
  local n, step = x.shape[dim], 1
  while step < n do -- each round adds what lies `step` back, which is then a sum of `step` elements itself
    local back = pad_constant(op.narrow(x, {dim = dim, start = 1, length = n - step}), dim, step, 0, 0)
    x, step = x + back, step * 2
  end
  return x
end

-- Places of the elements of dim in order; the fast kernels sort rows.
local function order(x, dim, descending)
  local last = x.ndim
  x = x:detach():transpose(dim, last):contiguous()
  return op.argsort(x, {dim = last, descending = descending}):transpose(dim, last)
end

--- x:sort([dim[, {descending = false}]]) -> values, places from 0 on (i32): in order along dim (the last); equals stay
-- in order, NaN is the largest.
-- eg   capl.tensor{3, 9, 5}:sort():tolist()[2]  --> 5
function methods.sort(x, dim, options)
  if type(dim) == "table" then dim, options = nil, dim end
  local o = check.options("sort", {{"descending", "boolean", default = false}, positional = 0}, options)
  dim = check.dim(1, "sort", dim or -1, math.max(x.ndim, 1))
  if x.ndim == 0 then return x, x:argmax() end
  local places = order(x, dim, o.descending)
  return (op.gather(x, places, {dim = dim})), places
end
--- x:argsort([dim[, {descending = false}]]): the places alone, as x:sort gives them. i32
function methods.argsort(x, ...) return (select(2, methods.sort(x, ...))) end

--- x:topk(k[, dim[, {largest = true}]]) -> values, places from 0 on (i32): the k largest along dim (the last), in
-- order; NaN is the largest.
-- eg   capl.tensor{3, 9, 5}:topk(2):tolist()[2]  --> 5
function methods.topk(x, k, dim, options)
  if x.ndim == 0 then
    local values, one = methods.topk(x:reshape(1), k, dim, options)
    return values:reshape{}, one:reshape{}
  end
  dim = check.dim(2, "topk", dim or -1, x.ndim)
  local o = check.options("topk", {{"largest", "boolean", default = true}, positional = 0}, options)
  local n = x.shape[dim]
  if check.arg(1, "topk", "whole", k) < 1 or k > n then
    check.bad(1, "topk", ("1 to %d of dim %d can be chosen, got %d"):format(n, dim, k))
  end
  local places = op.narrow(order(x, dim, o.largest), {dim = dim, start = 1, length = k})
  return (op.gather(x, places, {dim = dim})), places
end

--- x:norm([p[, dims[, keepdim]]]): (sum of |x|^p)^(1/p), p = 2 unless said; math.huge: the largest, -math.huge: the
-- smallest, 0: how many are not 0. In f32 of 16-bit values; without gradient where it is 0.
-- eg   capl.tensor{3, 4}:norm():item()  --> 5
function methods.norm(x, p, dims, keepdim)
  p = p == nil and 2 or check.arg(1, "norm", "number", p)
  if p == math.huge then return x:abs():amax(dims, keepdim) end
  if p == -math.huge then return x:abs():amin(dims, keepdim) end
  if p == 0 then return x:ne(0):to(x.dtype):sum(dims, keepdim) end
  if not (p > 0) then check.bad(1, "norm", ("a number above 0 expected, got %g"):format(p)) end
  if p == 1 then return x:abs():sum(dims, keepdim) end
  if x.dtype == "f16" or x.dtype == "bf16" then x = x:float() end
  if p == 2 then return root((x * x):sum(dims, keepdim), x.sqrt) end
  local power = p < 1 and root(x:abs(), x.pow, p) or x:abs():pow(p)
  return root(power:sum(dims, keepdim), x.pow, 1 / p)
end

-- x where column - row, seen as matrices in the last two dims, compares with k.
local function triangle(fname, compare)
  methods[fname] = function(x, k)
    local shape = x.shape
    if #shape < 2 then check.fail(fname, ("x has %d dims, a matrix has 2"):format(#shape)) end
    local rows, columns = shape[#shape - 1], shape[#shape]
    local i = core.arange(0, rows, 1, {dtype = "i32", device = x.device}):view(rows, 1)
    local j = core.arange(0, columns, 1, {dtype = "i32", device = x.device}):view(1, columns)
    return x:where((j - i)[compare](j - i, k == nil and 0 or check.arg(1, fname, "whole", k)), 0)
  end
end

--- x:triu([k]): zeros below diagonal k (0) of the last two dims.
-- eg   capl.ones(3, 3):triu(1):sum():item()  --> 3
triangle("triu", "ge")
--- x:tril([k]): zeros above diagonal k (0) of the last two dims.
-- eg   capl.ones(3, 3):tril():sum():item()  --> 6
triangle("tril", "le")

--- x:clip(lo, hi): the same as clamp.
methods.clip = methods.clamp

-- ---- functions ----

local rearrange = {}

--- capl.linspace(first, last, n[, {dtype, device}]): n numbers at equal distances, both ends included. f32
-- eg   capl.linspace(0, 1, 5):tolist()[2]  --> 0.25
function rearrange.linspace(first, last, n, options)
  check.arg(1, "linspace", "number", first)
  check.arg(2, "linspace", "number", last)
  from(3, "linspace", n, 0)
  local o = check.options("linspace", {{"dtype", "string", default = "f32"}, {"device", "string"}, positional = 0},
    options)
  local i = core.arange(0, n, 1, {dtype = "f32", device = o.device})
  local y = n > 1 and i * ((last - first) / (n - 1)) + first or i + first
  return o.dtype == "f32" and y or y:to(o.dtype)
end

return rearrange
