-- Linear layers and matrix products on a GPU: sizes of several tiles with rests, few and many rows, batches that
-- broadcast, sizes of 0. Run four times: as cuBLASLt's records, with its epilogues refused before or when they run, and
-- by the own kernels.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "cuda.ops.support"

local normal, text = support.normal, support.text

local function same(name, inputs, attrs, ...) return support.same(name, inputs, attrs or {}, ...) end

-- rows, inputs, outputs
local LAYERS = {{1, 1, 1}, {1, 70, 3}, {65, 64, 64}, {130, 33, 67}, {64, 129, 16}, {300, 17, 200}, {5, 0, 7}, {0, 5, 7},
  {5, 7, 0}}

for i, sizes in ipairs(LAYERS) do
  local rows, inputs, outputs = unpack(sizes)
  for k = 0, 2 do
    local dtype = ({"f32", "f16", "bf16"})[(i + k) % 3 + 1]
    if k == 0 or rows * inputs * outputs < 100000 then
      it(("linear %s %s"):format(text(sizes), dtype), function()
        local x, weight, dy = normal({rows, inputs}, dtype), normal({outputs, inputs}, dtype, 2),
          normal({rows, outputs}, dtype, 3)
        same("linear", {x, weight})
        same("linear", {x, weight, normal({outputs}, dtype, 4)})
        same("linear", {x, weight, normal({outputs}, "f32", 4)}, nil, {dtype == "bf16" and 1.6e-2 or nil})
        same("linear_act", {x, weight})
        same("linear_act", {x, weight, normal({outputs}, dtype, 4)})
        same("linear_grad_x", {dy, weight})
        same("linear_grad_w", {x, dy}, nil, {1e-5, 1e-5})
      end)
    end
  end
end

it("sums of very many rows keep their digits", function()
  local x, dy = normal({20000, 1}, "bf16", 1, 1), normal({20000, 3}, "bf16", 2, 1)
  same("linear_grad_w", {x, dy}, nil, {1e-5, 1e-5})
end)

-- a, b: sizes before transposition
local PRODUCTS = {
  {{65, 33}, {33, 70}}, {{3, 20, 30}, {3, 30, 10}}, {{3, 20, 30}, {30, 10}}, {{20, 30}, {3, 30, 10}},
  {{2, 1, 20, 30}, {5, 30, 10}}, {{2, 3, 4, 5}, {2, 1, 5, 6}}, {{2, 3, 1, 4, 5}, {2, 1, 7, 5, 6}},
  {{1, 1, 4, 5}, {5, 6}}, {{4, 0}, {0, 3}}, {{0, 4, 5}, {5, 3}}, {{2, 3, 4, 0}, {0, 3}}, {{3, 1, 129}, {3, 129, 1}},
}

-- The same matrices stored the other way round.
local function turned(size)
  local out = {unpack(size)}
  out[#out], out[#out - 1] = size[#size - 1], size[#size]
  return out
end

for i, pair in ipairs(PRODUCTS) do
  local dtype = ({"f32", "f16", "bf16"})[i % 3 + 1]
  it(("matmul %s x %s %s"):format(text(pair[1]), text(pair[2]), dtype), function()
    for _, flip in ipairs {{false, false}, {true, false}, {false, true}, {true, true}} do
      local a, b = flip[1] and turned(pair[1]) or pair[1], flip[2] and turned(pair[2]) or pair[2]
      same("matmul", {normal(a, dtype), normal(b, dtype, 2)}, {transpose_a = flip[1], transpose_b = flip[2]})
    end
  end)
end

it("inputs may begin anywhere", function()
  for _, dtype in ipairs {"f32", "f16", "bf16"} do
    same("matmul", {normal({5, 6}, dtype), normal({6, 7}, dtype, 2)}, nil, nil, function(x)
      local rows, columns = x.shape[1], x.shape[2]
      local room = capl.zeros({rows + 1, columns}, {dtype = dtype, device = "cuda"})
      return room:narrow(1, 2, rows):copy_(x)
    end)
  end
end)

it("products are counted by the type they ran in", function()
  local names = {f32 = "fp32_kernels", f16 = "fp16_kernels", bf16 = "bf16_kernels"}
  for dtype, counter in pairs(names) do
    local x = normal({3, 4}, dtype):to("cuda")
    local before = capl.counters()[counter]
    capl.op.matmul(x, x, {transpose_b = true})
    assert.are.equal(before + 1, capl.counters()[counter])
  end
end)
