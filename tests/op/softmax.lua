--- Cases of softmax and log_softmax.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local cases = {covers = {"softmax_grad", "log_softmax_grad"}}
local function case(c) cases[#cases + 1] = c end

for _, op in ipairs {"softmax", "log_softmax"} do
  case {op = op, inputs = {gen.float {4, 7, lo = -3, hi = 3}}}
  case {op = op, name = "first dim", inputs = {gen.float {4, 3, lo = -3, hi = 3}}, attrs = {dim = 1}, batch = false}
  case {op = op, name = "channels of images", inputs = {gen.float {2, 5, 3, 2, lo = -3, hi = 3}}, attrs = {dim = 2}}
  case {op = op, name = "many classes", inputs = {gen.float {3, 500, lo = -5, hi = 5}}}
  for _, size in ipairs {{5, 1}, {70, 11}, {33, 32}, {3, 2000}, {70, 33}, {2, 9001}} do
    case {op = op, name = "rows of " .. size[2], inputs = {gen.float {size[1], size[2], lo = -5, hi = 5}},
      only = {"against_ref", "twice_the_same"}}
    case {op = op, name = "columns of " .. size[2], inputs = {gen.float {3, size[2], size[1], lo = -5, hi = 5}}, attrs = {dim = 2},
      only = {"against_ref", "twice_the_same"}}
  end
  case {op = op, name = "one class", inputs = {gen.float {2, 1, 3, 4}}, attrs = {dim = 2}}
  case {op = op, name = "integers are refused", inputs = {gen.int {3, 4}}, fails = {"dtype", "x must be floating point"}}
end
case {op = "softmax", name = "large values do not overflow", inputs = {gen.values {1, 2, values = {1000, 1000}, diff = false}}, expect = {{0.5, 0.5}}}
case {op = "log_softmax", name = "large values do not overflow", inputs = {gen.values {1, 2, values = {-1000, -1000}, diff = false}}, expect = {{-math.log(2), -math.log(2)}}}
local inf = math.huge
case {op = "softmax", name = "impossible classes", inputs = {gen.values {1, 3, values = {-inf, 1, 1}}}, only = {"expected"}, expect = {{0, 0.5, 0.5}}}
case {op = "log_softmax", name = "impossible classes", inputs = {gen.values {1, 3, values = {-inf, 1, 1}}}, only = {"expected"}, expect = {{-inf, -math.log(2), -math.log(2)}}}
-- One NaN among short and long rows, at a place of every part of a vector loop; the other row stays as it is.
for _, op in ipairs {"softmax", "log_softmax"} do
  for _, n in ipairs {3, 40, 300} do
    for _, nan in ipairs {1, n - 1, n} do
      local values, expect = {}, {}
      for k = 1, n do
        values[k], values[n + k] = k == nan and 0 / 0 or 5 - k % 3, 1
        expect[k], expect[n + k] = 0 / 0, op == "softmax" and 1 / n or -math.log(n)
      end
      case {op = op, name = ("NaN %d of %d"):format(nan, n), inputs = {gen.values {2, n, values = values, diff = false}}, only = {"expected"}, expect = {expect}}
    end
  end
end

return cases
