--- Cases of ops that treat every element alike.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local cases = {covers = {"relu_grad"}}
local function case(c) cases[#cases + 1] = c end

-- Two operands, in the ways they may meet.
for _, op in ipairs {"add", "sub", "mul", "div", "maximum", "minimum"} do
  local b = op == "div" and function(size)
    size.lo, size.hi = 0.5, 2
    return gen.float(size)
  end or gen.float
  case {op = op, name = "same shape", inputs = {{3, 5}, b {3, 5}}, batch = {1, 2}}
  case {op = op, name = "a row for every row", inputs = {{3, 5}, b {5}}}
  case {op = op, name = "a column beside a row", inputs = {{4, 1}, b {1, 3}}}
  case {op = op, name = "a number for all", inputs = {{2, 3}, b {}}}
  case {op = op, name = "images and channels", inputs = {{2, 3, 4, 5}, b {3, 1, 1}}}
  case {op = op, name = "sizes that do not fit", inputs = {{3, 5}, {3, 4}}, fails = {"shape", "(3,5) and (3,4)"}}
end
for _, dtype in ipairs {"i32", "i64", "u8", "bool"} do
  for _, op in ipairs {"add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"} do
    local lo, hi = dtype == "u8" and 0 or dtype == "bool" and 0 or -9, dtype == "bool" and 1 or 9
    case {op = op, name = dtype, inputs = {gen.int {4, 6, lo = lo, hi = hi, dtype = dtype}, gen.int {6, lo = lo, hi = hi, dtype = dtype}}}
  end
end
for _, op in ipairs {"eq", "ne", "lt", "le", "gt", "ge"} do
  case {op = op, name = "floats, some equal", inputs = {gen.values {6, values = {1, 2, 3, -1, 0, 0}}, gen.values {6, values = {1, 3, 2, -1, 0, -2}}}, batch = {1, 2}}
end
case {op = "lt", name = "expected", inputs = {gen.values {3, values = {1, 2, 3}}, gen.values {3, values = {2, 2, 2}}}, batch = {1, 2}, expect = {{1, 0, 0}}}
case {op = "div", name = "integers give floats", inputs = {gen.values {3, values = {1, 7, -3}, dtype = "i32"}, gen.values {3, values = {2, 2, 2}, dtype = "i32"}}, batch = {1, 2}, expect = {{0.5, 3.5, -1.5}}}
case {op = "sub", name = "u8 wraps around", inputs = {gen.values {2, values = {1, 200}, dtype = "u8"}, gen.values {2, values = {2, 100}, dtype = "u8"}}, batch = {1, 2}, expect = {{255, 100}}}
case {op = "mul", name = "an integer beside a float", inputs = {{2, 3}, gen.int {2, 3}}, batch = {1, 2}}
local function pair(a, b) return {gen.values {2, values = a}, gen.values {2, values = b}} end
case {op = "maximum", name = "ties share the gradient", inputs = pair({1, 2}, {1, 3}), only = {"expected"}, expect = {{1, 3}, grads = {{0.5, 0}, {0.5, 1}}}}
case {op = "minimum", name = "ties share the gradient", inputs = pair({1, 2}, {1, 3}), only = {"expected"}, expect = {{1, 2}, grads = {{0.5, 1}, {0.5, 0}}}}
case {op = "maximum", name = "NaN wins", inputs = pair({0 / 0, 2}, {1, 0 / 0}), only = {"expected"}, expect = {{0 / 0, 0 / 0}}}
case {op = "mul", name = "the same gradient rule at 0", inputs = pair({0, 2}, {3, 0}), expect = {{0, 0}, grads = {{3, 0}, {0, 2}}}, batch = {1, 2}}

-- Sizes that fill vectors, that leave a rest, and that do neither.
for _, size in ipairs {{64}, {67}, {4, 16, 3, 5}, {2, 33, 3, 4}, {2, 10, 1, 7}, {1, 1}} do
  local channels = #size == 4 and {size[2], 1, 1} or {}
  local name = table.concat(size, "x")
  case {op = "add", name = "vectors " .. name, inputs = {gen.float(size), gen.float(channels)}, batch = {1}}
  case {op = "mul", name = "vectors " .. name, inputs = {gen.float(channels), gen.float(size)}, batch = {2}}
  case {op = "lt", name = "vectors " .. name, inputs = {gen.float(size), gen.float(channels)}, batch = {1}}
  case {op = "where", name = "vectors " .. name, inputs = {gen.bool {unpack(size)}, gen.float(size), gen.float(channels)}, batch = {1, 2}}
  case {op = "affine", name = "vectors " .. name, inputs = {gen.float(size)}, attrs = {scale = 3, shift = -1}}
  case {op = "dropout", name = "vectors " .. name, inputs = {gen.float(size)}, attrs = {p = 0.4, seed = 3, offset = 1}}
end

case {op = "where", inputs = {gen.bool {3, 4}, {3, 4}, {3, 4}}, batch = {1, 2, 3}}
case {op = "where", name = "all broadcast", inputs = {gen.bool {3, 1}, {1, 4}, {}}}
case {op = "where", name = "integers", inputs = {gen.bool {3, 4}, gen.int {3, 4}, gen.int {4}}, batch = {1, 2}}
case {op = "where", name = "a condition of numbers", inputs = {{3}, {3}, {3}}, fails = {"dtype", "condition must be bool"}}

-- One operand.
for _, op in ipairs {"relu", "abs", "sigmoid", "tanh", "exp"} do
  case {op = op, inputs = {gen.float {3, 7, lo = -3, hi = 3}}}
  case {op = op, name = "images", inputs = {gen.float {2, 3, 4, 5, lo = -3, hi = 3}}}
end
for _, op in ipairs {"log", "sqrt"} do
  case {op = op, inputs = {gen.float {3, 7, lo = 0.1, hi = 4}}}
end
local nan, inf = 0 / 0, math.huge
for _, op in ipairs {"log1p", "floor", "round"} do
  case {op = op, inputs = {gen.values {2, 4, values = {-0.7, 0.3, 1.4, 2.6, 0.1, -0.2, 8.9, 3.3}}}}
  case {op = op, name = "integers are refused", inputs = {gen.int {9}}, fails = {"dtype", "x must be floating point"}}
end
case {op = "round", name = "ties", inputs = {gen.values {5, values = {-1.5, -0.5, 0.5, 1.5, 2.5}, diff = false}}, expect = {{-2, 0, 0, 2, 2}}}
case {op = "remainder", inputs = {gen.values {2, 3, values = {-7.3, 5.2, 9.4, -1.1, 0.4, 3.3}}, gen.values {3, values = {2, -1.5, 2.5}}}}
case {op = "remainder", name = "signs", inputs = {gen.values {7, values = {5, -5, 5, -5, 0, 1, 4}, diff = false}, gen.values {7, values = {3, 3, -3, -3, 2, 0.1, 0}, diff = false}}, only = {"expected"},
  expect = {{2, 1, -1, -2, 0, 0.1, nan}}}
case {op = "remainder", name = "integers", inputs = {gen.values {5, values = {5, -5, 5, -5, 4}, dtype = "i32"}, gen.values {5, values = {3, 3, -3, -3, 0}, dtype = "i32"}}, batch = {1, 2}, expect = {{2, 1, -1, -2, 0}}}
case {op = "power", inputs = {gen.float {3, 5, lo = 0.3, hi = 2}, {3, 5}}, batch = {1, 2}}
case {op = "power", name = "broadcast", inputs = {gen.float {2, 3, 4, 5, lo = 0.3, hi = 2}, gen.float {3, 1, 1}}}
case {op = "sigmoid", name = "far out", inputs = {gen.values {4, values = {-100, -20, 20, 100}, diff = false}}}
case {op = "tanh", name = "far out", inputs = {gen.values {4, values = {-100, -20, 20, 100}, diff = false}}}
case {op = "sign", inputs = {gen.values {5, values = {-2, -0.5, 0, 0.5, 3}}}, expect = {{-1, -1, 0, 1, 1}}}
case {op = "relu", name = "many", inputs = {gen.float {5, 33, 7, lo = -3, hi = 3}}}
case {op = "relu", name = "integers", inputs = {gen.int {9}}}
case {op = "abs", name = "integers", inputs = {gen.int {9}}}
case {op = "exp", name = "integers are refused", inputs = {gen.int {9}}, fails = {"dtype", "x must be floating point"}}
case {op = "affine", inputs = {{3, 7}}, attrs = {scale = -1.5, shift = 0.25}}
case {op = "affine", name = "whole constants keep integers", inputs = {gen.values {2, values = {1, 2}, dtype = "i32"}}, attrs = {scale = 2, shift = 1}, expect = {{3, 5}}}
case {op = "affine", name = "other constants make floats", inputs = {gen.values {2, values = {1, 2}, dtype = "i32"}}, attrs = {scale = 0.5}, expect = {{0.5, 1}}}
for _, exponent in ipairs {2, 3, 0.5, -1, 0} do
  case {op = "pow", name = "to " .. exponent, inputs = {gen.float {3, 5, lo = 0.3, hi = 2}}, attrs = {exponent = exponent}}
end

-- Kinks and edges, where finite differences say nothing.
local function edge(op, x, y, slope, attrs)
  case {op = op, name = "edges", inputs = {gen.values {#x, values = x}}, attrs = attrs, only = {"expected"}, expect = {y, grads = {slope}}}
end
edge("relu", {-1, 0, 2, inf}, {0, 0, 2, inf}, {0, 0, 1, 1})
edge("abs", {-1, 0, 2}, {1, 0, 2}, {-1, 0, 1})
edge("sqrt", {0, 4}, {0, 2}, {inf, 0.25})
edge("log", {0, 1, -1}, {-inf, 0, nan}, {inf, 1, -1})
edge("pow", {0, 3}, {0, 9}, {0, 6}, {exponent = 2})
edge("pow", {0, 3}, {1, 1}, {0, 0}, {exponent = 0})
edge("log1p", {0, -1, -2, inf}, {0, -inf, nan, inf}, {1, inf, -1, 0})
case {op = "power", name = "edges", inputs = {gen.values {5, values = {0, 0, -2, -2, 3}}, gen.values {5, values = {0, 2, 2, 0.5, 1}}}, only = {"expected"},
  expect = {{1, 0, 4, nan, 3}, grads = {{0, 0, -4, nan, 1}, {0, 0, nan, nan, 3 * math.log(3)}}}}
edge("exp", {-inf, 0}, {0, 1}, {0, 1})
case {op = "relu", name = "NaN stays", inputs = {gen.values {1, values = {nan}}}, only = {"expected"}, expect = {{nan}}}

-- Casts: rounding to nearest even, cutting towards zero.
case {op = "cast", name = "to f32", inputs = {{3, 5}}, attrs = {dtype = "f32"}, tolerance = {f64 = 1}, because = "steps of 1e-6 vanish in f32", only = {"any_layout", "against_ref", "twice_the_same", "inputs_unharmed", "meta_shapes", "empty_batch"}}
-- ref alone computes in f64
case {op = "cast", name = "to f64", inputs = {{2, 3, 2, 2}}, attrs = {dtype = "f64"}, only = {"finite_differences", "inputs_unharmed", "meta_shapes"}}
case {op = "cast", name = "to bf16", inputs = {{3, 50}}, attrs = {dtype = "bf16"}, tolerance = {f64 = 1}, because = "steps of 1e-6 vanish in bf16", only = {"any_layout", "against_ref", "twice_the_same", "inputs_unharmed", "meta_shapes", "empty_batch"}}
case {op = "cast", name = "bf16 ties go to even", inputs = {gen.values {4, values = {1 + 2 ^ -8, 1 + 3 * 2 ^ -8, 1 + 2 ^ -8 + 2 ^ -20, -1 - 2 ^ -8}, diff = false}}, attrs = {dtype = "bf16"}, expect = {{1, 1 + 2 ^ -6, 1 + 2 ^ -7, -1}}}
case {op = "cast", name = "f64 is rounded once", inputs = {gen.values {2, values = {1 + 2 ^ -8 + 2 ^ -40, 1 + 2 ^ -8 - 2 ^ -40}, diff = false}}, attrs = {dtype = "bf16"}, only = {"expected"}, expect = {{1 + 2 ^ -7, 1}, on = {"ref"}}}
case {op = "cast", name = "f16 ties, limits and subnormals", inputs = {gen.values {5, values = {1 + 2 ^ -11, 1 + 3 * 2 ^ -11, 65519, 2 ^ -25, 3 * 2 ^ -25}, diff = false}}, attrs = {dtype = "f16"}, expect = {{1, 1 + 2 ^ -9, 65504, 0, 2 ^ -23}}}
case {op = "cast", name = "to integers", inputs = {gen.values {4, values = {-1.7, -0.5, 0.5, 1.7}, diff = false}}, attrs = {dtype = "i32"}, expect = {{-1, 0, 0, 1}}, dtypes = {"f32"}}
case {op = "cast", name = "beyond integers", inputs = {gen.values {2, values = {3e9, -3e9}, diff = false}}, attrs = {dtype = "i32"}, expect = {{2147483647, -2147483648}}, dtypes = {"f32"}}
case {op = "cast", name = "to bool", inputs = {gen.values {3, values = {0, 0.5, -2}, diff = false}}, attrs = {dtype = "bool"}, expect = {{0, 1, 1}}}
case {op = "cast", name = "pixels to f32", inputs = {gen.int {2, 3, 4, 5, lo = 0, hi = 255, dtype = "u8"}}, attrs = {dtype = "f32"}}

-- The mask is a pure function of seed, offset and position.
case {op = "dropout", inputs = {{4, 9}}, attrs = {p = 0.3, seed = 7, offset = 3}}
case {op = "dropout", name = "images", inputs = {{2, 3, 4, 5}}, attrs = {p = 0.5, seed = 1, offset = 0}}
case {op = "dropout", name = "long", inputs = {{3, 400}}, attrs = {p = 0.5, seed = 123456789012, offset = 5000000000}}
-- the mask of these 12 elements computed by another program from the doc's formula
case {op = "dropout", name = "expected mask", inputs = {gen.values {3, 4, values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}}, attrs = {p = 0.5, seed = 5000000007, offset = 6000000001},
  expect = {{2, 0, 6, 8, 10, 12, 0, 16, 0, 0, 22, 24}}}
case {op = "dropout", name = "nothing dropped", inputs = {gen.values {2, values = {1, 2}}}, attrs = {p = 0}, expect = {{1, 2}}}
case {op = "dropout", name = "everything dropped", inputs = {gen.values {2, values = {1, 2}}}, attrs = {p = 1}, expect = {{0, 0}}}

return cases
