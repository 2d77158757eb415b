--- max_pool2d.lua -- cases of max pooling and of its gradient.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local LARGE = {"against_ref", "twice_the_same", "any_layout", "meta_shapes"}

-- 17 levels in a fixed order: many ties.
local function levels(size)
  local values = {}
  for i = 1, gen.count(size) do values[i] = (i * 37 + math.floor(i / 13)) % 17 - 8 end
  size.values = values
  return gen.values(size)
end

local function case(name, size, attrs)
  return {name = name, inputs = {gen.distinct(size)}, attrs = attrs}
end

local function large(name, size, attrs)
  return {name = name, inputs = {levels(size)}, attrs = attrs, only = LARGE}
end

return {
  covers = {"max_pool2d_grad"},

  case("2x2", {2, 3, 4, 6}, {kernel = 2}),
  case("2x2, odd image", {2, 3, 5, 7}, {kernel = 2}),
  case("one channel, ceil_mode", {2, 1, 5, 7}, {kernel = 2, ceil_mode = true}),
  case("overlapping windows", {1, 5, 6, 5}, {kernel = 3, stride = 1}),
  case("padding", {1, 3, 7, 5}, {kernel = 3, stride = 2, padding = 1}),
  case("padding and ceil_mode", {1, 3, 6, 8}, {kernel = 3, stride = 2, padding = 1, ceil_mode = true}),
  case("ceil_mode adds nothing in the right padding", {1, 1, 4, 4}, {kernel = 2, stride = 5, padding = 1, ceil_mode = true}),
  case("different kernels, strides and paddings", {1, 7, 6, 7}, {kernel = {3, 2}, stride = {1, 3}, padding = {1, 0}}),
  case("stride above the kernel", {1, 2, 7, 8}, {kernel = 2, stride = 3}),
  case("1x1", {1, 17, 3, 3}, {kernel = 1}),
  case("dilation", {2, 3, 7, 8}, {kernel = 3, stride = 2, padding = 1, dilation = 2}),
  case("dilation along one axis, overlapping", {1, 5, 7, 6}, {kernel = {2, 3}, stride = 1, dilation = {3, 1}, padding = {2, 1}}),
  case("dilation and ceil_mode", {1, 2, 6, 9}, {kernel = 2, stride = 3, dilation = {2, 4}, padding = {1, 2}, ceil_mode = true}),
  case("one window over all of x", {2, 5, 3, 5}, {kernel = {3, 5}}),
  large("vector code with ties", {3, 32, 9, 13}, {kernel = 2}),
  large("vector code with ties, dilation", {2, 37, 9, 11}, {kernel = 3, stride = 1, padding = 2, dilation = {2, 3}}),
  large("vector code with ties, overlapping", {2, 53, 7, 9}, {kernel = 3, stride = 2, padding = 1}),

  {name = "the first of equal values wins", inputs = {gen.values {1, 1, 2, 6, values = {1, 5, 2, 2, -1, -9, 5, 0, 2, 2, -1, -1}}},
    attrs = {kernel = 2}, expect = {{5, 2, -1}, {1, 0, 0}}, only = {"expected"}},
  {name = "padding never wins and counts in the position", inputs = {gen.values {1, 1, 2, 2, values = {-4, -3, -2, -1}}},
    attrs = {kernel = 3, stride = 2, padding = 1, ceil_mode = true}, expect = {{-1, -1, -1, -1}, {8, 6, 2, 0}}, only = {"expected"}},
  {name = "dilation counts positions of the window", inputs = {gen.values {1, 1, 1, 5, values = {9, 1, 2, 8, 3}}},
    attrs = {kernel = {1, 2}, stride = 1, padding = {0, 1}, dilation = {1, 2}}, expect = {{1, 9, 8, 3, 8}, {1, 0, 1, 1, 0}},
    only = {"expected"}},
  {name = "ceil_mode adds no window that starts beyond x", inputs = {gen.values {1, 1, 1, 3, values = {1, 2, 3}}},
    attrs = {kernel = 1, stride = {1, 3}, ceil_mode = true}, expect = {{1}, {0}}, only = {"expected"}},
  {name = "nor one that starts in the right padding", inputs = {gen.values {1, 1, 1, 3, values = {1, 2, 3}}},
    attrs = {kernel = {1, 2}, stride = {1, 4}, padding = {0, 1}, ceil_mode = true}, expect = {{1}, {1}}, only = {"expected"}},
  {name = "NaN wins", inputs = {gen.values {1, 1, 1, 4, values = {1, 0 / 0, 3, 2}}}, attrs = {kernel = {1, 2}},
    expect = {{0 / 0, 3}, {1, 0}}, only = {"expected", "against_ref"}},
  {name = "a window of -inf", inputs = {gen.values {1, 1, 1, 2, values = {-math.huge, -math.huge}}}, attrs = {kernel = {1, 2}},
    expect = {{-math.huge}, {0}}, only = {"expected"}},

  {op = "max_pool2d_grad", name = "gradients meet at a shared winner", attrs = {kernel = {1, 3}, stride = 1, size = {1, 5}},
    inputs = {gen.values {1, 1, 1, 3, values = {1, 10, 100}}, gen.values {1, 1, 1, 3, dtype = "u8", values = {2, 1, 0}}},
    expect = {{0, 0, 111, 0, 0}}, batch = {1, 2}},
  {op = "max_pool2d_grad", inputs = {{2, 3, 2, 3}, gen.int {2, 3, 2, 3, lo = 0, hi = 3, dtype = "u8"}}, batch = {1, 2},
    attrs = {kernel = 2, size = {5, 7}}},

  {inputs = {{2, 3, 5, 5}}, attrs = {kernel = 3, padding = 2}, fails = {"value", "padding 2 is more than half the kernel size 3"}},
  {inputs = {{1, 1, 3, 9}}, attrs = {kernel = 2, dilation = 4, padding = 2},
    fails = {"value", "dilation 4 is more than the 3 px of x: a window of padding alone"}},
  {inputs = {{2, 3, 5, 5}}, attrs = {kernel = {2, 3}, dilation = 5},
    fails = {"shape", "x is 5x5, the 6x11 pooling window (padding 0) does not fit"}},
  {inputs = {{2, 3, 5, 5}}, attrs = {kernel = 6}, fails = {"shape", "x is 5x5, the 6x6 pooling window (padding 0) does not fit"}},
  {inputs = {{1, 1, 16, 16}}, attrs = {kernel = 16},
    fails = {"value", "a 16x16 window has more than the 255 positions an index can name"}},
  {inputs = {{2, 5, 5}}, attrs = {kernel = 2}, fails = {"shape", "x must have 4 dims, it has 3"}},
  {op = "max_pool2d_grad", attrs = {kernel = 2, size = 2},
    inputs = {{1, 1, 1, 1}, gen.values {1, 1, 1, 1, dtype = "u8", values = {9}}},
    fails = {"value", "index 9 of output 1,1 lies outside its window", on = {"ref"}}},
}
