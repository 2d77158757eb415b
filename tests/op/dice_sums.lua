--- Cases of the areas that dice losses are made of.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local cases = {covers = {"dice_sums_grad"}}
local function case(c) cases[#cases + 1] = c end

for _, activation in ipairs {"softmax", "none"} do
  case {name = activation, batch = {1, 2}, attrs = {activation = activation}, inputs = {gen.float {2, 13, 5}, gen.int {2, 13, lo = 0, hi = 4}}}
  case {name = activation .. " with ignored places", batch = {1, 2}, attrs = {activation = activation, ignore_index = 2},
    inputs = {gen.float {2, 13, 3}, gen.int {2, 13, lo = 0, hi = 2, dtype = "i64"}}}
end
case {name = "more classes than a warp has lanes", batch = {1, 2}, inputs = {gen.float {1, 9, 37}, gen.int {1, 9, lo = 0, hi = 36}}}
case {name = "more places than one piece", batch = {1, 2}, inputs = {gen.float {1, 530, 2}, gen.int {1, 530, lo = 0, hi = 1}},
  tolerance = {f32 = 1e-4}, because = "hundreds of terms", only = {"against_ref", "twice_the_same", "expected"}}
case {name = "expected", batch = {1, 2}, attrs = {activation = "none", ignore_index = 255},
  inputs = {gen.values {1, 3, 2, values = {0.25, 0.75, 1, 0, 5, 5}}, gen.values {1, 3, values = {1, 1, 255}, dtype = "i32"}},
  expect = {{0, 0.75, 1.25, 0.75, 0, 2}}}
case {name = "a label outside", inputs = {{1, 2, 3}, gen.values {1, 2, values = {0, 3}, dtype = "i32"}},
  fails = {"value", "labels[1][2] is 3, classes are 0 to 2", on = {"ref", "cpu"}}}
case {name = "labels of another size", inputs = {{1, 2, 3}, gen.int {1, 3, lo = 0, hi = 2}}, fails = {"shape", "labels are (1,3), x is (1,2,3)"}}
case {name = "labels of floats", inputs = {{1, 2, 3}, {1, 2}}, fails = {"dtype", "labels must be i32 or i64"}}

return cases
