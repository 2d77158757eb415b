--- Cases of the activations and of erf, sine and cosine. Values beyond a few digits come from PyTorch (tests/golden/loss).
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local cases = {covers = {}}
local function case(c) cases[#cases + 1] = c end

-- Sizes that fill vectors and leave a rest; away from the kinks, which have cases of their own.
local ops = {
  erf = {{}}, sin = {{}}, cos = {{}}, silu = {{}}, gelu = {{}, {approximate = "tanh"}}, softplus = {{}, {beta = 2, threshold = 3}},
  leaky_relu = {{}, {negative_slope = 0.3}}, elu = {{}, {alpha = 0.6}}, hardsigmoid = {{}}, hardswish = {{}}, log_sigmoid = {{}},
  clamp = {{}, {min = -1.01}, {max = 0.51}, {min = -1.01, max = 0.51}},
}
local plain = {erf = true, sin = true, cos = true}
for op, list in pairs(ops) do
  if not plain[op] then cases.covers[#cases.covers + 1] = op .. "_grad" end
  for k, attrs in ipairs(list) do
    case {op = op, name = "form " .. k, inputs = {gen.float {3, 37, lo = -2.9, hi = 2.9}}, attrs = attrs}
  end
  case {op = op, name = "images", inputs = {gen.float {2, 3, 4, 5, lo = -2.9, hi = 2.9}}}
  case {op = op, name = "integers are refused", inputs = {gen.int {9}}, fails = {"dtype", "x must be floating point"}}
end
for _, op in ipairs {"sigmoid", "tanh"} do -- the rest of their cases is in elementwise.lua
  cases.covers[#cases.covers + 1] = op .. "_grad"
  case {op = op, name = "vectors and a rest", inputs = {gen.float {3, 37, lo = -2.9, hi = 2.9}}}
  case {op = op .. "_grad", name = "shapes that differ", inputs = {{3, 5}, {3, 4}}, fails = {"shape", "y is (3,5), dy is (3,4)"}}
end
case {op = "sigmoid_grad", name = "near 1", inputs = {gen.values {4, values = {0, 1, 0.99609375, 0.5}}, gen.values {4, values = {2, 2, 2, 2}}},
  expect = {{0, 0, 0.007781982421875, 0.5}}, only = {"expected"}}
case {op = "tanh_grad", name = "near 1", inputs = {gen.values {4, values = {-1, 1, 0.99609375, 0}}, gen.values {4, values = {2, 2, 2, 2}}},
  expect = {{0, 0, 0.015594482421875, 2}}, only = {"expected"}}
case {op = "silu", name = "one element", inputs = {{}}, batch = false}
case {op = "silu", name = "many", inputs = {gen.float {5, 33, 7, lo = -6, hi = 6}}}
case {op = "silu_grad", name = "shapes that differ", inputs = {{3, 5}, {3, 4}}, fails = {"shape", "x is (3,5), dy is (3,4)"}}
case {op = "gelu", name = "another approximation", inputs = {{3}}, attrs = {approximate = "erf"}, fails = {"value", "none"}}
case {op = "softplus", name = "a beta of nothing", inputs = {{3}}, attrs = {beta = 0}, fails = {"value", "beta"}}

-- Kinks, saturation and infinities, where finite differences say nothing.
local nan, inf = 0 / 0, math.huge
local function edge(op, x, y, slope, attrs)
  case {op = op, name = "edges", inputs = {gen.values {#x, values = x}}, attrs = attrs, only = {"expected"},
    expect = {y, grads = {slope}}}
end
edge("silu", {-1000, 0, 1000, inf, nan}, {0, 0, 1000, inf, nan}, {0, 0.5, 1, nan, nan})
edge("gelu", {-1000, 0, 1000, inf, nan}, {0, 0, 1000, inf, nan}, {0, 0.5, 1, 1, nan})
edge("gelu", {-1000, 0, 1000, inf, nan}, {0, 0, 1000, inf, nan}, {0, 0.5, 1, 1, nan}, {approximate = "tanh"})
edge("softplus", {-inf, -1000, 0, 1000, inf, nan}, {0, 0, math.log(2), 1000, inf, nan}, {0, 0, 0.5, 1, 1, nan})
edge("leaky_relu", {-100, 0, 2, nan}, {-1, 0, 2, nan}, {0.01, 0.01, 1, 0.01})
edge("elu", {-inf, -1000, 0, 2, nan}, {-1, -1, 0, 2, nan}, {0, 0, 1, 1, nan})
edge("hardsigmoid", {-inf, -3, 0, 3, inf, nan}, {0, 0, 0.5, 1, 1, nan}, {0, 0, 1 / 6, 0, 0, 0})
edge("hardswish", {-10, -3, 0, 3, inf, nan}, {0, 0, 0, 3, inf, nan}, {0, 0, 0.5, 1, 1, nan})
edge("log_sigmoid", {-inf, -1000, 0, 1000, inf, nan}, {-inf, -1000, -math.log(2), 0, 0, nan}, {1, 1, 0.5, 0, 0, nan})
edge("clamp", {-inf, -1, 0.5, 1, 2, nan}, {-1, -1, 0.5, 1, 1, nan}, {0, 0, 1, 0, 0, 0}, {min = -1, max = 1})
edge("clamp", {-5, inf}, {-5, 3}, {1, 0}, {max = 3})
edge("erf", {-inf, -6, 0, 6, inf, nan}, {-1, -1, 0, 1, 1, nan}, {0, 0, 2 / math.sqrt(math.pi), 0, 0, nan})

return cases
