--- Cases of the losses. Expected values follow from the formulas of PyTorch's documentation, by hand.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local cases = {covers = {"cross_entropy_grad", "bce_with_logits_grad", "smooth_l1_grad", "sigmoid_focal_grad"}}
local function case(c) cases[#cases + 1] = c end
local function logits(spec)
  spec.lo, spec.hi = -3, 3
  return gen.float(spec)
end

for _, reduction in ipairs {"mean", "sum", "none"} do
  for _, smoothing in ipairs {0, 0.1} do
    case {op = "cross_entropy", name = ("%s, smoothing %g"):format(reduction, smoothing), batch = {1, 2},
      inputs = {logits {5, 7}, gen.int {5, lo = 0, hi = 6}}, attrs = {reduction = reduction, label_smoothing = smoothing}}
  end
  case {op = "cross_entropy", name = reduction .. " with ignored rows", batch = {1, 2},
    inputs = {logits {4, 3}, gen.values {4, values = {2, -100, 0, -100}, dtype = "i64"}}, attrs = {reduction = reduction, label_smoothing = 0.2}}
  for _, op in ipairs {"bce_with_logits", "multilabel_soft_margin", "mse"} do
    case {op = op, name = reduction, inputs = {logits {5, 6}, gen.float {5, 6, lo = 0, hi = 1}}, batch = {1, 2}, attrs = {reduction = reduction}}
  end
  case {op = "bce_with_logits", name = reduction .. " of images", inputs = {logits {2, 3, 4, 5}, gen.float {2, 3, 4, 5, lo = 0, hi = 1}}, batch = {1, 2}, attrs = {reduction = reduction}}
end
for _, reduction in ipairs {"mean", "sum", "none"} do
  for name, attrs in pairs {weights = {}, ["weights and smoothing"] = {label_smoothing = 0.3}, ["weights and gamma"] = {gamma = 1.5}} do
    attrs = {label_smoothing = attrs.label_smoothing, gamma = attrs.gamma, reduction = reduction}
    case {op = "cross_entropy", name = reduction .. " with " .. name, batch = {1, 2}, attrs = attrs, inputs = {logits {5, 4},
      gen.values {5, values = {2, -100, 0, 3, 1}, dtype = "i32"}, gen.values {4, values = {0.5, 2, 1, 0.25}, dtype = "f32", diff = false}}}
  end
  case {op = "cross_entropy", name = reduction .. " with gamma", batch = {1, 2}, inputs = {logits {5, 7}, gen.int {5, lo = 0, hi = 6}},
    attrs = {reduction = reduction, gamma = 2}}
  for name, attrs in pairs {["beta 1"] = {}, ["beta 0"] = {beta = 0}, ["beta 0.4"] = {beta = 0.4}} do
    case {op = "smooth_l1", name = reduction .. ", " .. name, batch = {1, 2}, attrs = {reduction = reduction, beta = attrs.beta},
      inputs = {gen.distinct {3, 37, scale = 3.03}, gen.float {3, 37, lo = 3, hi = 3.02}}}
  end
  for name, attrs in pairs {plain = {}, ["no alpha"] = {alpha = -1, gamma = 0.5}, ["gamma 0"] = {gamma = 0}, ["gamma 1"] = {gamma = 1}} do
    case {op = "sigmoid_focal", name = reduction .. ", " .. name, batch = {1, 2}, inputs = {logits {3, 37}, gen.float {3, 37, lo = 0, hi = 1, diff = false}},
      attrs = {reduction = reduction, alpha = attrs.alpha, gamma = attrs.gamma}}
  end
end
case {op = "sigmoid_focal", name = "images", batch = {1, 2}, inputs = {logits {2, 3, 4, 5}, gen.float {2, 3, 4, 5, lo = 0, hi = 1, diff = false}}}
case {op = "sigmoid_focal", name = "bytes as target", batch = {1, 2}, inputs = {logits {3, 4}, gen.int {3, 4, lo = 0, hi = 1, dtype = "u8"}}}
local inf = math.huge
case {op = "sigmoid_focal", name = "certain and right costs nothing, certain and wrong everything", only = {"expected"},
  inputs = {gen.values {6, values = {-1000, 1000, -1000, 1000, -inf, inf}}, gen.values {6, values = {0, 1, 1, 0, 0, 1}, diff = false}},
  attrs = {reduction = "none", alpha = -1}, expect = {{0, 0, 1000, 1000, 0 / 0, 0 / 0}, grads = {{0, 0, -1, 1, 0 / 0, 0 / 0}}}}
case {op = "smooth_l1", name = "edges", only = {"expected"}, inputs = {gen.values {4, values = {0, 1, -1, 0 / 0}}, gen.values {4, values = {0, 0, 0, 0}, diff = false}},
  attrs = {reduction = "none", beta = 0}, expect = {{0, 1, 1, 0 / 0}, grads = {{0, 1, -1, 0 / 0}}}}
case {op = "cross_entropy", name = "gamma and smoothing", inputs = {{2, 3}, gen.int {2, lo = 0, hi = 2}}, attrs = {gamma = 2, label_smoothing = 0.1}, fails = {"value", "one of them must be 0"}}
case {op = "cross_entropy", name = "too few weights", inputs = {{2, 3}, gen.int {2, lo = 0, hi = 2}, {2}}, fails = {"shape", "weight"}}
case {op = "cross_entropy", name = "weights of whole numbers", inputs = {{2, 3}, gen.int {2, lo = 0, hi = 2}, gen.int {3}}, fails = {"dtype", "weight must be floating point"}}
case {op = "cross_entropy", name = "gamma where the label is certain, or certainly not", only = {"expected"}, attrs = {gamma = 0.5, reduction = "none"},
  inputs = {gen.values {2, 2, values = {1000, 0, 0, 1000}}, gen.values {2, values = {0, 0}, dtype = "i32"}}, expect = {{0, 1000}, grads = {{0, 0, -1, 1}}}}
case {op = "cross_entropy", name = "many rows", batch = {1, 2}, inputs = {logits {64, 36}, gen.int {64, lo = 0, hi = 35, dtype = "i64"}}}
case {op = "cross_entropy", name = "expected", batch = {1, 2}, inputs = {gen.values {2, 2, values = {0, 0, math.log(3), 0}, diff = false}, gen.values {2, values = {0, 0}, dtype = "i32"}},
  attrs = {reduction = "none"}, expect = {{math.log(2), math.log(4 / 3)}, tolerance = 1e-6}}
-- -(0.9 + 0.1/2) log(3/4) - 0.1/2 log(1/4)
case {op = "cross_entropy", name = "expected with smoothing", batch = {1, 2}, inputs = {gen.values {1, 2, values = {math.log(3), 0}, diff = false}, gen.values {1, values = {0}, dtype = "i32"}},
  attrs = {label_smoothing = 0.1}, expect = {{0.95 * math.log(4 / 3) + 0.05 * math.log(4)}, tolerance = 1e-6}}
-- A GPU cannot refuse: its loss is NaN then (tests/cuda/ops/loss_spec.lua).
case {op = "cross_entropy", name = "a label outside", inputs = {{2, 3}, gen.values {2, values = {0, 3}, dtype = "i32"}}, fails = {"value", "labels[2] is 3", on = {"ref", "cpu"}}}
case {op = "cross_entropy", name = "images", inputs = {{2, 3, 4, 4}, gen.int {2, lo = 0, hi = 2}}, fails = {"shape", "logits must have 2 dims, it has 4"}}
case {op = "cross_entropy", name = "labels of floats", inputs = {{2, 3}, {2}}, fails = {"dtype", "labels must be i32 or i64"}}
case {op = "bce_with_logits", name = "expected, far out too", batch = {1, 2}, inputs = {gen.values {4, values = {0, 100, -100, 100}, diff = false}, gen.values {4, values = {1, 1, 1, 0}, diff = false}},
  attrs = {reduction = "none"}, expect = {{math.log(2), 0, 100, 100}}}
case {op = "bce_with_logits", name = "bytes as target", batch = {1, 2}, inputs = {logits {3, 4}, gen.int {3, 4, lo = 0, hi = 1, dtype = "u8"}}}
case {op = "multilabel_soft_margin", name = "a row of the wrong length", inputs = {{3, 4}, {3, 5}}, fails = {"shape", "x is (3,4), target is (3,5)"}}
case {op = "mse", name = "expected", batch = {1, 2}, inputs = {gen.values {2, values = {1, 2}}, gen.values {2, values = {0, 4}}}, expect = {{2.5}}}

return cases
