-- Convolution on a GPU: records for cuDNN, own kernels where they are refused, and what surrounds both.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "cuda.ops.support"

local normal, same, text = support.normal, support.same, support.text

-- x, outputs, kernel, attributes: channels 1, 3, 10 and 33, every way a window can lie.
local CASES = {
  {{2, 1, 13, 17}, 32, {3, 3}, {padding = 1}},
  {{2, 3, 15, 11}, 10, {5, 3}, {padding = {2, 1}, stride = {2, 1}}},
  {{1, 10, 9, 8}, 33, {3, 3}, {padding = 2, dilation = 2}},
  {{2, 33, 7, 7}, 3, {1, 1}, {stride = 2}},
  {{2, 12, 6, 9}, 6, {3, 3}, {groups = 3, padding = 1}},
  {{3, 10, 8, 8}, 20, {3, 3}, {groups = 10, stride = 2, padding = 1}},
  {{1, 2, 5, 6}, 3, {2, 2}, {stride = 3, padding = 2}},
  -- For own kernels: several tiles of each product and parts of pixels; several taps of several outputs; few inputs.
  {{2, 20, 19, 17}, 70, {3, 3}, {padding = 1}},
  {{2, 40, 21, 18}, 40, {3, 5}, {groups = 40, padding = {1, 2}, stride = {1, 2}}},
  {{2, 2, 20, 19}, 24, {5, 5}, {padding = 2}},
}

local function with(attrs, more)
  local all = {}
  for k, v in pairs(attrs) do all[k] = v end
  for k, v in pairs(more) do all[k] = v end
  return all
end

-- Sums of products are off by what their terms are rounded by, more than a sum's own rounding.
local function tolerance(dtype) return ({f32 = 2e-5, f16 = 2e-3, bf16 = 1.6e-2})[dtype] end

for i, case in ipairs(CASES) do
  local size, outputs, kernel, attrs = unpack(case)
  local dtype = ({"f32", "f16", "bf16"})[i % 3 + 1]
  local groups = attrs.groups or 1
  it(("conv2d %s -> %d, kernel %s, %s"):format(text(size), outputs, text(kernel), dtype), function()
    local x = normal(size, dtype)
    local w = normal({outputs, size[2] / groups, kernel[1], kernel[2]}, dtype, 2, 0, 0.3)
    local bias = normal({outputs}, dtype, 3)
    local off = tolerance(dtype)
    local _, want = same("conv2d", {x, w, bias}, attrs, {off})
    same("conv2d", {x, w}, attrs, {off})
    if dtype ~= "f32" then same("conv2d", {x, w, normal({outputs}, "f32", 3)}, attrs, {off}) end
    local dy = normal(want[1].shape, dtype, 4)
    same("conv2d_grad_x", {dy, w}, with(attrs, {size = {size[3], size[4]}}), {off})
    same("conv2d_grad_w", {x, dy}, with(attrs, {kernel = kernel}), {off, 2e-5})
  end)
end

-- Channels that fill 16-byte loads of a block evenly and channels that do not; pixels for one block and for several.
describe("the gradient of the bias", function()
  for i, channels in ipairs {4, 8, 32, 64, 24, 33, 512} do
    local dtype = ({"f32", "f16", "bf16"})[i % 3 + 1]
    local side = channels < 100 and 23 or 3
    it(("of %d channels, %s"):format(channels, dtype), function()
      local x, dy = normal({3, 1, side, side}, dtype), normal({3, channels, side, side}, dtype, 2)
      same("conv2d_grad_w", {x, dy}, {kernel = 1}, {tolerance(dtype), 2e-5})
      -- a part of a larger tensor: it begins anywhere
      local all = normal({4, channels, side, side}, dtype, 3):to("cuda")
      local _, db = capl.op.conv2d_grad_w(x:to("cuda"), all:narrow(1, 2, 3), {kernel = 1})
      local _, want = capl.op.conv2d_grad_w(x, all:narrow(1, 2, 3):to("ref"), {kernel = 1})
      assert(support.distance(db, want) < 2e-5)
    end)
  end
end)

describe("convolution without elements", function()
  local op = capl.op
  local function cuda(...) return capl.zeros({...}, {device = "cuda"}) end

  it("of no images gives no outputs, and gradients of 0", function()
    local x, w = cuda(0, 3, 5, 5), cuda(4, 3, 3, 3)
    local y = op.conv2d(x, w)
    assert.are.same({0, 4, 3, 3}, y.shape)
    assert.are.same({0, 3, 5, 5}, op.conv2d_grad_x(y, w, {size = 5}).shape)
    local dw, db = op.conv2d_grad_w(x, y, {kernel = 3})
    assert.are.equal(0, op.sum(op.abs(dw)):to("cpu"):item())
    assert.are.equal(0, op.sum(op.abs(db)):to("cpu"):item())
  end)

  it("of no channels gives the bias", function()
    local bias = normal({4}, "f32", 5)
    local y = op.conv2d(cuda(2, 0, 5, 5), cuda(4, 0, 3, 3), bias:to("cuda"))
    local want = op.conv2d(capl.zeros({2, 0, 5, 5}, {device = "ref"}), capl.zeros({4, 0, 3, 3}, {device = "ref"}), bias)
    assert.are.equal(0, support.different(y, want))
  end)
end)

describe("products are counted", function()
  it("in the type they ran in", function()
    local function run(dtype)
      local x, w = normal({1, 4, 5, 5}, dtype):to("cuda"), normal({4, 4, 3, 3}, dtype, 2):to("cuda")
      capl.op.conv2d(x, w)
    end
    for dtype, counter in pairs {f32 = "fp32_kernels", f16 = "fp16_kernels", bf16 = "bf16_kernels"} do
      local before = capl.counters()[counter]
      run(dtype)
      assert.are.equal(before + 1, capl.counters()[counter])
    end
  end)
end)
