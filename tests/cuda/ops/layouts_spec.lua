-- Elementwise ops, copies, reductions and softmax on a GPU beside ref, on views of random shapes, strides and dtypes.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "cuda.ops.support"

local op = capl.op
local MOST = 30000 -- elements
local SIZES = {1, 1, 2, 3, 4, 5, 8, 10, 16, 33, 64, 100}
local DTYPES = {"f32", "f16", "bf16", "f32", "f16", "bf16", "i32", "u8", "i64", "bool"}
local FLOATS = {f32 = true, f16 = true, bf16 = true}

local function pick(list) return list[math.random(#list)] end

local function random_shape()
  local size, n = {}, 1
  for d = 1, math.random(4) do
    size[d] = pick(SIZES)
    if n * size[d] > MOST then size[d] = 1 end
    n = n * size[d]
  end
  return size
end

local function values(size, dtype)
  local seed = math.random(1e6)
  if FLOATS[dtype] then return support.normal(size, dtype, seed) end
  return support.whole(size, dtype, seed, 0, dtype == "bool" and 1 or 9)
end

-- What turns a tensor into a view of it, the same for every device.
local views = {}

function views.permuted(size)
  local dims = {}
  for d = 1, #size do table.insert(dims, math.random(d), d) end
  return function(t) return op.permute(t, {dims = dims}) end
end

function views.narrowed(size)
  local d = math.random(#size)
  local start = math.random(size[d])
  local length = math.random(size[d] - start + 1)
  return function(t) return op.narrow(t, {dim = d, start = start, length = length}) end
end

function views.expanded(size)
  local wide, n = {unpack(size)}, 1
  for d = 1, #size do n = n * size[d] end
  for d = 1, #size do
    if size[d] == 1 and n * 7 <= MOST then wide[d], n = 7, n * 7 end
  end
  return function(t) return op.expand(t, {size = wide}) end
end

function views.plain() return function(t) return t end end

local NAMES = {"plain", "permuted", "narrowed", "expanded"}

-- A pair of like views, on ref and on cuda.
local function random_pair(size, dtype)
  local a = values(size, dtype)
  local b = a:to("cuda")
  for _ = 1, math.random(2) do
    local view = views[pick(NAMES)](a.shape)
    a, b = view(a), view(b)
  end
  return a, b
end

-- Likewise of a shape that broadcasts to this one.
local function other_pair(shape, dtype)
  local size = {}
  for d = math.random(#shape + 1), #shape do size[#size + 1] = math.random() < 0.3 and 1 or shape[d] end
  local a = values(size, dtype)
  return a, a:to("cuda")
end

local function compare(what, got, want)
  local tolerance = support.tolerance[want.dtype] or 0
  assert.equal(support.text(want.shape), support.text(got.shape), what)
  assert.equal(want.dtype, got.dtype, what)
  local distance = support.distance(got, want)
  assert.is_true(distance <= tolerance, ("%s of %s: off by %.3g"):format(what, support.text(want.shape), distance))
end

local function both(name, inputs_ref, inputs_cuda, attrs)
  inputs_ref[#inputs_ref + 1], inputs_cuda[#inputs_cuda + 1] = attrs, attrs
  compare(name, op[name](unpack(inputs_cuda)), op[name](unpack(inputs_ref)))
end

local function some_dims(n)
  local dims = {}
  for d = 1, n do
    if math.random() < 0.5 then dims[#dims + 1] = d end
  end
  return dims
end

local trials = {}

function trials.binary()
  local dtype = pick(DTYPES)
  local a, A = random_pair(random_shape(), dtype)
  local b, B = other_pair(a.shape, math.random() < 0.2 and pick(DTYPES) or dtype)
  for _, name in ipairs {"add", "mul", "maximum", "lt", "eq"} do
    if math.random() < 0.5 then both(name, {a, b}, {A, B}) else both(name, {b, a}, {B, A}) end
  end
end

function trials.where()
  local dtype = pick(DTYPES)
  local a, A = random_pair(random_shape(), dtype)
  local b, B = other_pair(a.shape, dtype)
  local c, C = other_pair(a.shape, "bool")
  both("where", {c, a, b}, {C, A, B})
  both("where", {c, b, a}, {C, B, A})
end

function trials.unary()
  local a, A = random_pair(random_shape(), pick(DTYPES))
  both("relu", {a}, {A})
  both("abs", {a}, {A})
  both("affine", {a}, {A}, {scale = 3, shift = -2})
  if not FLOATS[a.dtype] then return end
  both("sigmoid", {a}, {A})
  both("dropout", {a}, {A}, {p = 0.3, seed = math.random(1e9), offset = math.random(1e9)})
end

function trials.copies()
  local a, A = random_pair(random_shape(), pick(DTYPES))
  both("contiguous", {a}, {A})
  both("cast", {a}, {A}, {dtype = pick(DTYPES)})
  local dim = math.random(#a.shape)
  both("concat", {a, a}, {A, A}, {dim = dim})
  both("narrow_grad", {a}, {A}, {dim = dim, start = 2, size = a.shape[dim] + 3})
end

function trials.reductions()
  local a, A = random_pair(random_shape(), pick(DTYPES))
  local attrs = {dims = some_dims(#a.shape), keepdim = math.random() < 0.5}
  both("sum", {a}, {A}, attrs)
  both("amax", {a}, {A}, attrs)
  both("argmax", {a}, {A}, {dim = math.random(#a.shape)})
  if FLOATS[a.dtype] then both("mean", {a}, {A}, attrs) end
end

function trials.classes()
  local a, A = random_pair(random_shape(), pick {"f32", "f16", "bf16"})
  local attrs = {dim = math.random(#a.shape)}
  for _, name in ipairs {"softmax", "log_softmax"} do
    both(name, {a}, {A}, attrs)
    both(name .. "_grad", {a, a}, {A, A}, attrs)
  end
end

for name, trial in pairs(trials) do
  it(name .. " on views of any kind", function()
    for seed = 1, 40 do
      math.randomseed(seed)
      local ok, err = pcall(trial)
      assert(ok, ("seed %d: %s"):format(seed, type(err) == "table" and err.message or tostring(err)))
    end
  end)
end
