--- Cases of layer_norm, rms_norm and group_norm.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local cases = {covers = {"layer_norm_grad", "rms_norm_grad", "group_norm_grad"}}
local function case(c) cases[#cases + 1] = c end

local function param(...) return gen.float {dtype = "f32", ...} end
local function float(...) return gen.float {lo = -2, hi = 2, ...} end
-- 16-bit x: the rounding of x and y is a part of xhat, whose sums the gradients take.
local BECAUSE = "gradients are differences of sums over 16-bit values"
local function add(c)
  c.tolerance, c.because = {bf16 = 6e-2}, BECAUSE
  case(c)
end

for _, op in ipairs {"layer_norm", "rms_norm"} do
  local function inputs(x, shape)
    local list = {x, gen.float {dtype = "f32", unpack(shape)}}
    if op == "layer_norm" then list[3] = gen.float {dtype = "f32", unpack(shape)} end
    return list
  end
  local function only(x) return op == "layer_norm" and {x, false, false} or {x, false} end
  add {op = op, inputs = inputs(float(3, 4, 5), {5}), attrs = {normalized_shape = 5}}
  add {op = op, name = "two dims", inputs = inputs(float(3, 4, 5), {4, 5}), attrs = {normalized_shape = {4, 5}}}
  add {op = op, name = "all dims", inputs = inputs(float(3, 7), {3, 7}), attrs = {normalized_shape = {3, 7}}, batch = false}
  add {op = op, name = "images", inputs = inputs(float(2, 3, 2, 4), {3, 2, 4}), attrs = {normalized_shape = {3, 2, 4}}}
  add {op = op, name = "no parameters", inputs = only(float(4, 6)), attrs = {normalized_shape = 6, eps = 0.1}}
  add {op = op, name = "a row of one", inputs = inputs(float(3, 1), {1}), attrs = {normalized_shape = 1, eps = 0.5},
    only = op == "layer_norm" and {"finite_differences"} or nil} -- whose gradients are 0, but for rounding
  for _, n in ipairs {16, 33, 130} do
    add {op = op, name = "rows of " .. n, inputs = inputs(float(9, n), {n}), attrs = {normalized_shape = n},
      only = {"against_ref", "twice_the_same"}}
  end
  add {op = op, name = "long rows", inputs = inputs(float(2, 5000), {5000}), attrs = {normalized_shape = 5000},
    only = {"against_ref", "twice_the_same"}}
  add {op = op, name = "many rows", inputs = inputs(float(700, 40), {40}), attrs = {normalized_shape = 40},
    only = {"against_ref", "twice_the_same"}}
  case {op = op, name = "another shape", inputs = only(float(3, 4)), attrs = {normalized_shape = 5},
    fails = {"shape", "normalized_shape is (5), x is (3,4): x must end with it"}}
  case {op = op, name = "more dims than x", inputs = only(float(4)), attrs = {normalized_shape = {3, 4}},
    fails = {"shape", "normalized_shape is (3,4), x is (4): x must end with it"}}
  case {op = op, name = "no shape", inputs = only(float(4)), attrs = {normalized_shape = {}}, fails = {"value", "normalized_shape is empty"}}
  case {op = op, name = "shape left out", inputs = only(float(4)), fails = {"value", "normalized_shape"}}
  case {op = op, name = "weight of another shape", inputs = {float(3, 4), param(5)}, attrs = {normalized_shape = 4},
    fails = {"shape", "weight is (5), normalized_shape is (4): they must be the same"}}
  case {op = op, name = "16-bit weight", inputs = {float(3, 4), gen.float {4, dtype = "bf16"}}, attrs = {normalized_shape = 4},
    fails = {"dtype", "weight must be f32, it is bf16"}}
  case {op = op, name = "integers are refused", inputs = {gen.int {3, 4}}, attrs = {normalized_shape = 4},
    fails = {"dtype", "x must be floating point"}}
end
case {op = "layer_norm", name = "far from zero", inputs = {gen.values {1, 4, values = {10001, 10002, 10003, 10004}}, false, false},
  attrs = {normalized_shape = 4, eps = 0}, only = {"expected"},
  expect = {{-1.3416407865, -0.4472135955, 0.4472135955, 1.3416407865}, {10002.5}, {0.894427191}}}
case {op = "rms_norm", name = "values", inputs = {gen.values {1, 2, values = {3, 4}}, gen.values {2, values = {1, 2}, dtype = "f32"}},
  attrs = {normalized_shape = 2, eps = 0}, only = {"expected"}, expect = {{0.8485281374, 2.2627416998}}}

local function group(x, channels) return {x, param(channels), param(channels)} end
add {op = "group_norm", inputs = group(float(2, 6, 3, 2), 6), attrs = {num_groups = 3}}
add {op = "group_norm", name = "one group", inputs = group(float(3, 4, 2, 3), 4), attrs = {num_groups = 1}}
add {op = "group_norm", name = "instances", inputs = group(float(2, 5, 3, 3), 5), attrs = {num_groups = 5}}
add {op = "group_norm", name = "no parameters", inputs = {float(2, 4, 3, 3), false, false}, attrs = {num_groups = 2, eps = 0.1}}
add {op = "group_norm", name = "sequences", inputs = group(float(2, 6, 5), 6), attrs = {num_groups = 2}}
add {op = "group_norm", name = "vectors", inputs = group(float(3, 8), 8), attrs = {num_groups = 2}}
add {op = "group_norm", name = "volumes", inputs = group(float(2, 4, 2, 2, 3), 4), attrs = {num_groups = 2}}
for _, channels in ipairs {32, 48} do
  add {op = "group_norm", name = channels .. " channels", inputs = group(float(3, channels, 7, 5), channels),
    attrs = {num_groups = 8}, only = {"against_ref", "twice_the_same"}}
end
add {op = "group_norm", name = "long sequences", inputs = group(float(3, 6, 300), 6), attrs = {num_groups = 2},
  only = {"against_ref", "twice_the_same"}}
case {op = "group_norm", name = "groups of unequal size", inputs = {float(2, 6, 2, 2), false, false}, attrs = {num_groups = 4},
  fails = {"shape", "num_groups is 4, x has 6 channels: groups must be of equal size"}}
case {op = "group_norm", name = "no channels", inputs = {float(4), false, false}, attrs = {num_groups = 1},
  fails = {"shape", "x is (4), (N,C,…) is needed"}}
case {op = "group_norm", name = "weight of another size", inputs = {float(2, 6, 2, 2), param(5)}, attrs = {num_groups = 2},
  fails = {"shape", "weight must be (6), one per channel of x; it is (5)"}}

return cases
