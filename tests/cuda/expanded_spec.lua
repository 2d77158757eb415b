-- Ops of one input on broadcast tensors, whose strides are 0, against ref: kernels that read several values at once
-- must not read beyond the one that is there.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local op = capl.op

local ops = {
  affine = {{scale = 2, shift = 1}}, relu = {}, abs = {}, sign = {}, exp = {}, log = {}, sqrt = {}, sigmoid = {},
  tanh = {}, pow = {{exponent = 3}}, cast = {{dtype = "bf16"}, {dtype = "i32"}}, contiguous = {},
  dropout = {{p = 0.5, seed = 3}}, sum = {{}, {dims = {1}}, {dims = {2}}}, mean = {{dims = {2}}}, amax = {{dims = {1}}},
  argmax = {{dim = 2}}, softmax = {{dim = 2}}, log_softmax = {{dim = 1}},
  erf = {}, sin = {}, cos = {}, silu = {}, gelu = {{}, {approximate = "tanh"}}, softplus = {}, leaky_relu = {},
  elu = {}, hardsigmoid = {}, hardswish = {}, log_sigmoid = {}, clamp = {{min = 0.5, max = 1}},
}

-- Shapes before and after: all strides 0, those of rows, those of columns.
local shapes = {{{1, 1}, {2, 2}}, {{1, 1}, {37, 16}}, {{1, 1}, {3, 5}}, {{1, 16}, {9, 16}}, {{9, 1}, {9, 16}},
  {{7, 1}, {7, 3}}}

local function expanded(from, to, dtype, device)
  local x = (capl.rand(from, {seed = 5, stream = {1, 2, 3}, device = "ref"}) + 0.25):to(dtype)
  return op.expand(x:to(device), {size = to})
end

local function values(t) return t:to("ref"):to("f32"):reshape(-1):tolist() end

local function check(name, attrs, dtype)
  for _, shape in ipairs(shapes) do
    local want = values(op[name](expanded(shape[1], shape[2], dtype, "ref"), attrs))
    local got = values(op[name](expanded(shape[1], shape[2], dtype, capl.device()), attrs))
    assert.equal(#want, #got)
    local tolerance = dtype == "f32" and 2e-5 or 1.6e-2
    for i, v in ipairs(want) do
      local close = math.abs(v - got[i]) <= tolerance * (1 + math.abs(v))
      assert.is_true(close, ("%s of (%d,%d) as (%d,%d) in %s: element %d is %g, not %g"):format(name,
        shape[1][1], shape[1][2], shape[2][1], shape[2][2], dtype, i, got[i], v))
    end
  end
end

describe("broadcast inputs", function()
  for name, list in pairs(ops) do
    for _, attrs in ipairs(#list > 0 and list or {{}}) do
      for _, dtype in ipairs{"f32", "f16", "bf16"} do
        it(("of %s in %s"):format(name, dtype), function() check(name, attrs, dtype) end)
      end
    end
  end
end)
