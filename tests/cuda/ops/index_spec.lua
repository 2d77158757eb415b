-- Indexing and resampling on a GPU: many blocks, sums whose bits do not depend on the order, indices out of range.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "cuda.ops.support"

local op = capl.op
local normal, same, whole = support.normal, support.same, support.whole

local SIZES = {f32 = {2, 32, 12, 17}, f16 = {3, 1, 25, 20}, bf16 = {1, 33, 9, 14}}

for dtype, size in pairs(SIZES) do
  it("elements by index, many of them, " .. dtype, function()
    local x, index = normal({70, 130}, dtype), whole({300, 130}, "i32", 2, 0, 69)
    same("gather", {x, index}, {dim = 1}, {0})
    same("gather_grad", {normal({300, 130}, dtype, 3), index}, {dim = 1, size = {70, 130}})
    same("scatter", {x, index, normal({300, 130}, dtype, 3)}, {dim = 1}, {0})
    same("scatter_add", {x, index, normal({300, 130}, dtype, 3)}, {dim = 1})
    same("index_select", {x, whole({500}, "i64", 4, 0, 129)}, {dim = 2}, {0})
    same("embedding_grad", {normal({9, 50, 67}, dtype, 3), whole({9, 50}, "i32", 2, 0, 20)},
      {rows = 21, padding_idx = 4})
  end)

  it("images larger, smaller and warped, " .. dtype, function()
    local x = normal(size, dtype)
    for _, mode in ipairs {"nearest", "bilinear"} do
      for _, to in ipairs {{21, 30}, {5, 7}, {70, 3}} do
        same("interpolate", {x}, {size = to, mode = mode})
        same("interpolate_grad", {normal({size[1], size[2], to[1], to[2]}, dtype, 2)},
          {size = {size[3], size[4]}, mode = mode})
      end
    end
    local grid, dy = normal({size[1], 20, 13, 2}, dtype, 3), normal({size[1], size[2], 20, 13}, dtype, 4)
    -- positions differ by roundings of f32, slopes with them
    for _, padding in ipairs {"zeros", "border", "reflection"} do
      same("grid_sample", {x, grid}, {padding_mode = padding}, dtype == "f32" and {3e-5})
      same("grid_sample_grad", {dy, x, grid}, {padding_mode = padding}, dtype == "f32" and {3e-5, 3e-4} or {nil, 0.02})
    end
  end)
end

local function cuda(values, dtype) return capl.tensor(values, {dtype = dtype, device = "cuda"}) end

describe("sums by index", function()
  it("have the same bits in any order of their terms", function()
    local n = 3000
    local src, index = normal({n}, "f32", 5, 0, 1e3), whole({n}, "i32", 6, 0, 6)
    local order = capl.tensor(src:tolist()):to("ref")
    local turned = capl.arange(n - 1, -1, -1, {dtype = "i32", device = "ref"})
    local function sums(s, i) return op.gather_grad(s:to("cuda"), i:to("cuda"), {dim = 1, size = {7}}):to("cpu") end
    local plain = sums(order, index)
    local backwards = sums(op.index_select(order, turned, {dim = 1}), op.index_select(index, turned, {dim = 1}))
    assert.equal(0, support.different(plain, backwards))
    assert.is_true(support.distance(plain, op.gather_grad(order, index, {dim = 1, size = {7}})) < 1e-6)
  end)

  it("keep small terms beside large ones, and tiny and huge ones alone", function()
    local function total(values)
      local index = cuda({0, 0, 0}, "i32")
      return op.gather_grad(cuda(values, "f32"), index, {dim = 1, size = {1}}):to("cpu"):item()
    end
    assert.is_true(math.abs(total{1e6, 1e-3, -1e6} - 1e-3) < 1e-9)
    assert.is_true(math.abs(total{1e-38, 1e-38, 1e-38} / 3e-38 - 1) < 1e-6)
    assert.is_true(math.abs(total{1e38, 1e38, 1e38} / 3e38 - 1) < 1e-6)
    assert.equal(0, total{0, 0, 0})
  end)

  it("are no numbers where a term is none", function()
    local bad = op.gather_grad(cuda({1, 1 / 0}, "f32"), cuda({0, 1}, "i32"), {dim = 1, size = {3}}):to("cpu"):tolist()
    for _, v in ipairs(bad) do assert.is_true(v ~= v) end
  end)
end)

-- Nothing may be read back, so what ref and cpu refuse must be seen in the result.
describe("an index out of range", function()
  local x = cuda({1, 2, 3}, "f32")
  local function shows(t, want)
    for i, v in ipairs(t:to("cpu"):tolist()) do
      assert.is_true(v == want[i] or (v ~= v and want[i] ~= want[i]), ("element %d is %g"):format(i, v))
    end
  end
  local nan = 0 / 0

  it("gives NaN where it reads, 0 of whole numbers", function()
    shows(op.gather(x, cuda({2, 3, -1}, "i32"), {dim = 1}), {3, nan, nan})
    shows(op.index_select(x, cuda({7, 0}, "i64"), {dim = 1}), {nan, 1})
    shows(op.embedding(x:view(3, 1), cuda({0, 3}, "i32")):view(2), {1, nan})
    shows(op.gather(cuda({1, 2, 3}, "i32"), cuda({2, 3}, "i32"), {dim = 1}), {3, 0})
  end)

  it("spoils all where it writes, is left out of whole numbers", function()
    shows(op.scatter(x, cuda({0, 3}, "i32"), cuda({5, 6}, "f32"), {dim = 1}), {nan, nan, nan})
    shows(op.scatter_add(x, cuda({0, -1}, "i32"), cuda({5, 6}, "f32"), {dim = 1}), {nan, nan, nan})
    shows(op.scatter(cuda({1, 2, 3}, "i32"), cuda({0, 3}, "i32"), cuda({5, 6}, "i32"), {dim = 1}), {5, 2, 3})
    shows(op.scatter_add(cuda({1, 2, 3}, "i64"), cuda({0, 3}, "i32"), cuda({5, 6}, "i64"), {dim = 1}), {6, 2, 3})
  end)
end)
