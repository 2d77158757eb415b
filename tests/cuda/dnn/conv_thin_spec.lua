-- Convolutions of one input channel, 3x3, which own kernels run by choice: against ref, and that they run at all.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "cuda.ops.support"

local op = capl.op
local normal, same, text = support.normal, support.same, support.text

-- Images, outputs, attributes: widths that 4 does and does not divide, outputs in whole and broken loads of 16 bytes,
-- images below the kernel, padding beyond it, more outputs than a block has, more strips than run at once.
local CASES = {
  {{3, 1, 13, 17}, 32, {padding = 1}},
  {{2, 1, 12, 16}, 32, {padding = 1}},
  {{2, 1, 9, 10}, 33, {padding = {0, 2}}},
  {{1, 1, 1, 1}, 8, {padding = 1}},
  {{2, 1, 3, 3}, 5, {}},
  {{1, 1, 2, 1}, 1, {padding = {4, 5}}},
  {{2, 1, 11, 14}, 72, {padding = 1, stride = 2}},
  {{3, 1, 4, 5}, 7, {padding = {2, 0}, stride = 2}},
  {{2, 1, 70, 41}, 16, {padding = 1}},
  {{16, 1, 26, 33}, 8, {padding = 1}},
}
local TOLERANCE = {f32 = 2e-5, f16 = 2e-3, bf16 = 1.6e-2}
-- Gradients of weights are summed in f32 here, and handed over in the type of the images by cuDNN.
local GRADIENTS = os.getenv("CAPL_FAKE_DNN") == "faster" and TOLERANCE or {f32 = 2e-5, f16 = 2e-5, bf16 = 2e-5}

local function with(attrs, more)
  local all = {}
  for k, v in pairs(attrs) do all[k] = v end
  for k, v in pairs(more) do all[k] = v end
  return all
end

local function inputs(size, outputs, dtype)
  return normal(size, dtype), normal({outputs, 1, 3, 3}, dtype, 2, 0, 0.3), normal({outputs}, dtype, 3)
end

-- t on the GPU as part of a larger tensor, so that it begins at an odd element.
local function shifted(t)
  local n, s = t:numel(), t.shape
  local pixels = op.reshape(t:permute(1, 3, 4, 2):contiguous(), {size = {n}})
  local flat = op.concat(capl.zeros(1, {device = "cuda"}):to(t.dtype), pixels, {dim = 1})
  return op.reshape(op.narrow(flat, {dim = 1, start = 2, length = n}), {size = {s[1], s[3], s[4], s[2]}}):permute(1, 4,
    2, 3)
end

for _, dtype in ipairs {"f32", "f16", "bf16"} do
  local off = TOLERANCE[dtype]
  for _, case in ipairs(CASES) do
    local size, outputs, attrs = unpack(case)
    it(("%s -> %d, stride %d, %s"):format(text(size), outputs, attrs.stride or 1, dtype), function()
      local x, w, bias = inputs(size, outputs, dtype)
      local _, want = same("conv2d", {x, w, bias}, attrs, {off})
      same("conv2d", {x, w}, attrs, {off})
      if dtype ~= "f32" then same("conv2d", {x, w, normal({outputs}, "f32", 3)}, attrs, {off}) end
      local dy = normal(want[1].shape, dtype, 4)
      same("conv2d_grad_w", {x, dy}, with(attrs, {kernel = 3}), {GRADIENTS[dtype], GRADIENTS[dtype]})
    end)
  end

  it("takes images and gradients that begin anywhere in memory, " .. dtype, function()
    local x, w, bias = inputs({2, 1, 9, 12}, 16, dtype)
    same("conv2d", {x, w, bias}, {padding = 1}, {off}, function(t)
      return t.ndim == 4 and t.shape[1] == 2 and shifted(t) or t end)
    local dy = normal({2, 16, 9, 12}, dtype, 4)
    same("conv2d_grad_w", {x, dy}, {padding = 1, kernel = 3}, {GRADIENTS[dtype], GRADIENTS[dtype]}, shifted)
  end)

  it("passes on NaN and infinity where a window sees them, " .. dtype, function()
    local x, w, bias = inputs({2, 1, 8, 9}, 16, dtype)
    x:set(1, 1, 3, 4, 0 / 0)
    x:set(2, 1, 8, 9, math.huge)
    same("conv2d", {x, w:abs() + 0.1, bias}, {padding = 1}, {off})
    same("conv2d_grad_w", {x, normal({2, 16, 8, 9}, dtype, 4):abs() + 0.1}, {padding = 1, kernel = 3},
      {GRADIENTS[dtype], GRADIENTS[dtype]})
  end)
end

describe("the choice", function()
  local records = os.getenv("CAPL_DNN_RECORDS")
  local function length()
    local file = records and io.open(records)
    if not file then return 0 end
    local bytes = file:seek("end")
    file:close()
    return bytes
  end

  -- Whether cuDNN was asked, and how many own kernels count as a want of engines.
  local function run(size, outputs, attrs)
    local x, w = normal(size, "bf16"):to("cuda"), normal({outputs, size[2], 3, 3}, "bf16", 2):to("cuda")
    local before = length()
    local y = op.conv2d(x, w, nil, attrs)
    op.conv2d_grad_w(x, y, with(attrs, {kernel = 3}))
    return length() > before
  end

  local function fallen_back()
    local n = 0
    for _, kind in pairs(capl.own_kernels("cuda")) do n = n + kind.own end
    return n
  end

  it("is own kernels for one channel, which is no falling back, and cuDNN's for others", function()
    if not records then return end
    assert.is_false(run({2, 1, 7, 9}, 24, {padding = 1}))
    assert.equal(0, fallen_back())
    assert.is_true(run({2, 1, 7, 9}, 24, {padding = 1, dilation = 2}))
    assert.is_true(run({2, 1, 7, 9}, 24, {padding = 1, stride = 3}))
    assert.is_true(run({2, 1, 7, 9}, 24, {padding = 1, stride = {1, 2}}))
    assert.is_true(run({2, 2, 7, 9}, 24, {padding = 1}))
  end)

  it("counts its products", function()
    local before = capl.counters().bf16_kernels
    run({1, 1, 5, 5}, 8, {padding = 1})
    assert.equal(before + 2, capl.counters().bf16_kernels)
  end)
end)

it("gives the same bits every time", function()
  local x, w, bias = inputs({16, 1, 26, 33}, 40, "f32")
  local dy = normal({16, 40, 26, 33}, "f32", 4):to("cuda")
  local function run()
    local image = x:to("cuda")
    return op.conv2d(image, w:to("cuda"), bias:to("cuda"), {padding = 1}),
      op.conv2d_grad_w(image, dy, {padding = 1, kernel = 3})
  end
  local first, second = {run()}, {run()}
  for k, t in ipairs(first) do assert.equal(0, support.different(t, second[k])) end
end)

it("runs in a captured step", function()
  local x, w, bias = inputs({2, 1, 9, 12}, 16, "bf16")
  local dy = normal({2, 16, 9, 12}, "bf16", 4)
  local want = {op.conv2d(x, w, bias, {padding = 1}), op.conv2d_grad_w(x, dy, {padding = 1, kernel = 3})}
  x, w, bias, dy = x:to("cuda"), w:to("cuda"), bias:to("cuda"), dy:to("cuda")
  local step = capl.capture(function()
    local dw, db = op.conv2d_grad_w(x, dy, {padding = 1, kernel = 3})
    return {y = op.conv2d(x, w, bias, {padding = 1}), dw = dw, db = db}
  end)
  local got
  for _ = 1, 4 do got = step() end
  for k, name in ipairs {"y", "dw", "db"} do
    assert(support.distance(got[name], want[k]) <= (k == 1 and 1.6e-2 or GRADIENTS.bf16), name)
  end
end)
