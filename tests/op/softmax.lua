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
  case {op = op, name = "integers are refused", inputs = {gen.int {3, 4}}, fails = {"dtype", "x must be floating point"}}
end
case {op = "softmax", name = "large values do not overflow", inputs = {gen.values {1, 2, values = {1000, 1000}, diff = false}}, expect = {{0.5, 0.5}}}
case {op = "log_softmax", name = "large values do not overflow", inputs = {gen.values {1, 2, values = {-1000, -1000}, diff = false}}, expect = {{-math.log(2), -math.log(2)}}}

return cases
