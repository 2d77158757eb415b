--- Cases of the CTC loss. Expected values: the probabilities of all paths, counted by hand.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local cases = {covers = {"ctc_loss_grad"}}
local function case(c)
  c.batch = c.batch or false
  cases[#cases + 1] = c
end
local function whole(list, size)
  return gen.values {size or #list, values = list, dtype = "i32"}
end
-- targets: rows of labels, all of one length.
local function rows(list, dtype)
  local flat = {}
  for _, row in ipairs(list) do
    for _, v in ipairs(row) do flat[#flat + 1] = v end
  end
  return gen.values {#list, #list[1], values = flat, dtype = dtype or "i32"}
end
local function scores(t, n, k) return gen.float {t, n, k, lo = -4, hi = -0.2} end

local texts = rows {{1, 2, 2}, {3, -1, -1}, {1, 3, -1}, {-1, -1, -1}}
local lengths = whole {3, 1, 2, 0}
for _, reduction in ipairs {"mean", "sum", "none"} do
  case {name = reduction, inputs = {scores(6, 4, 5), texts, whole {6, 5, 4, 6}, lengths}, attrs = {reduction = reduction}}
  case {name = reduction .. ", infeasible samples", inputs = {scores(3, 4, 5), texts, whole {3, 0, 2, 0}, lengths}, attrs = {reduction = reduction}}
end
case {name = "the last class is the blank", inputs = {scores(5, 2, 4), rows({{0, 1, 0}, {2, 2, -100}}, "i64"), gen.values {2, values = {5, 5}, dtype = "i64"}, whole {3, 2}}, attrs = {blank = 3}}
case {name = "a label all over again", inputs = {scores(9, 1, 3), rows {{1, 1, 1, 1}}, whole {8}, whole {4}}}
case {name = "no room to spare", inputs = {scores(5, 1, 3), rows {{1, 1, 2, 1}}, whole {5}, whole {4}}}
case {name = "only blanks", inputs = {scores(4, 2, 1), gen.values {2, 0, values = {}, dtype = "i32"}, whole {4, 3}, whole {0, 0}}}
case {name = "no time", inputs = {gen.float {0, 2, 3}, rows {{1}, {-1}}, whole {0, 0}, whole {1, 0}}, only = {"against_ref", "meta_shapes", "inputs_unharmed"}}
case {name = "no samples", inputs = {gen.float {4, 0, 3}, gen.values {0, 2, values = {}, dtype = "i32"}, gen.values {0, values = {}, dtype = "i32"}, gen.values {0, values = {}, dtype = "i32"}}, only = {"against_ref", "meta_shapes"}, attrs = {reduction = "sum"}}

-- Texts of more states than a vector has lanes, and of one more than whole vectors.
for _, length in ipairs {8, 17} do
  local text = {}
  for s = 1, length do text[s] = s * s % 5 + 1 end
  case {name = ("a text of %d"):format(length), inputs = {scores(length + 6, 2, 7), rows {text, text}, whole {length + 6, length + 5}, whole {length, length - 1}}, only = {"against_ref"}}
end

-- Two steps, two classes, all paths of probability 1/4: "a" has aa, a-, -a.
local half = math.log(0.5)
local even = gen.values {2, 1, 2, values = {half, half, half, half}}
case {name = "expected: three of four paths", inputs = {even, rows {{1}}, whole {2}, whole {1}}, only = {"expected"},
  expect = {{math.log(4 / 3)}, {0}, tolerance = 1e-5, grads = {{-1 / 3, -2 / 3, -1 / 3, -2 / 3}}}}
case {name = "expected: the mean counts a text by its length", inputs = {gen.values {2, 1, 3, values = {0, half, half, 0, half, half}}, rows {{1, 2}}, whole {2}, whole {2}}, only = {"expected"},
  expect = {{math.log(2)}, {0}, tolerance = 1e-5}}
local inf = math.huge
case {name = "expected: too few steps are counted, and cost nothing", inputs = {even, rows {{1, 1}}, whole {2}, whole {2}}, only = {"expected"},
  expect = {{0}, {1}, grads = {{0, 0, 0, 0}}}}
case {name = "expected: or infinity on request", inputs = {even, rows {{1, 1}}, whole {2}, whole {2}}, attrs = {zero_infinity = false}, only = {"expected"},
  expect = {{inf}, {1}, grads = {{0, 0, 0, 0}}}}
case {name = "expected: a label of probability 0", inputs = {gen.values {2, 1, 2, values = {0, -inf, 0, -inf}}, rows {{1}}, whole {2}, whole {1}}, only = {"expected"},
  expect = {{0}, {2}, grads = {{0, 0, 0, 0}}}}
case {name = "expected: a certain text", inputs = {gen.values {2, 1, 2, values = {-inf, 0, -inf, 0}}, rows {{1}}, whole {2}, whole {1}}, only = {"expected"},
  expect = {{0}, {0}, grads = {{0, -1, 0, -1}}}}
case {name = "expected: far from certain", inputs = {gen.values {2, 1, 2, values = {-3e4, -3e4, -3e4, -3e4}}, rows {{1}}, whole {2}, whole {1}}, only = {"expected"},
  expect = {{6e4 - math.log(3)}, {0}, tolerance = 1e-5}}

local function refused(name, inputs, code, text, on, attrs)
  case {name = name, inputs = inputs, attrs = attrs, fails = {code, text, on = on}}
end
local host = {"ref", "cpu"} -- a GPU cannot refuse values: infeasible is 3 there (tests/cuda/ops/ctc_spec.lua)
local good = {scores(4, 2, 3), rows {{1, 2}, {2, 1}}, whole {4, 4}, whole {2, 2}}
local function but(i, input)
  local list = {unpack(good)}
  list[i] = input
  return list
end
refused("more steps than there are", but(3, whole {4, 5}), "value", "input_lengths[2] is 5, log_probs has 4 time steps", host)
refused("fewer steps than none", but(3, whole {-1, 4}), "value", "input_lengths[1] is -1", host)
refused("more labels than a row has", but(4, whole {2, 3}), "value", "target_lengths[2] is 3, a row of targets has 2 labels", host)
refused("a label outside", but(2, rows {{1, 2}, {2, 3}}), "value", "targets[2][2] is 3, classes are 0 to 2", host)
refused("padding within the length", but(2, rows {{1, -1}, {2, 1}}), "value", "targets[1][2] is -1", host)
refused("a blank among the labels", but(2, rows {{1, 0}, {2, 1}}), "value", "targets[1][2] is 0, which is the blank", host)
refused("a blank that is no class", good, "value", "blank is class 3, log_probs has 3 classes: 0 to 2", nil, {blank = 3})
refused("batch first", but(1, scores(2, 4, 3)), "shape", "targets must be (N,S) with N = 4 as in log_probs (T,N,K); it is (2,2)")
refused("targets in one row", but(2, whole {1, 2, 2, 1}), "shape", "it is (4)")
refused("one length for all", but(3, whole {4}), "shape", "input_lengths must be (2), one per sample; it is (1)")
refused("lengths of floats", but(4, gen.float {2}), "dtype", "target_lengths must be i32 or i64, it is f32")
refused("no classes", but(1, scores(4, 2, 0)), "value", "blank is class 0, log_probs has 0 classes")
refused("two dims", but(1, gen.float {4, 3}), "shape", "log_probs must have 3 dims, it has 2")

return cases
