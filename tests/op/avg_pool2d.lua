--- avg_pool2d.lua -- cases of average pooling and of its gradient.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local LARGE = {"against_ref", "twice_the_same", "any_layout", "meta_shapes"}

return {
  covers = {"avg_pool2d_grad"},

  {name = "2x2", inputs = {{2, 3, 4, 6}}, attrs = {kernel = 2}},
  {name = "2x2, odd image", inputs = {{2, 5, 5, 7}}, attrs = {kernel = 2}},
  {name = "one channel, ceil_mode", inputs = {{2, 1, 5, 7}}, attrs = {kernel = 2, ceil_mode = true}},
  {name = "overlapping windows", inputs = {{1, 3, 6, 5}}, attrs = {kernel = 3, stride = 1}},
  {name = "padding counts", inputs = {{1, 3, 7, 5}}, attrs = {kernel = 3, stride = 2, padding = 1}},
  {name = "padding does not count", inputs = {{1, 3, 7, 5}},
    attrs = {kernel = 3, stride = 2, padding = 1, count_include_pad = false}},
  {name = "padding counts, ceil_mode", inputs = {{1, 7, 6, 8}}, attrs = {kernel = 3, stride = 2, padding = 1, ceil_mode = true}},
  {name = "padding does not count, ceil_mode", inputs = {{1, 7, 6, 8}},
    attrs = {kernel = 3, stride = 2, padding = 1, ceil_mode = true, count_include_pad = false}},
  {name = "different kernels, strides and paddings", inputs = {{1, 17, 4, 7}},
    attrs = {kernel = {3, 2}, stride = {1, 3}, padding = {1, 0}}},
  {name = "stride above the kernel", inputs = {{1, 2, 7, 8}}, attrs = {kernel = 2, stride = 3}},
  {name = "vector code", inputs = {{3, 32, 9, 13}}, attrs = {kernel = 2}, only = LARGE},
  {name = "vector code with a rest", inputs = {{2, 53, 7, 9}}, attrs = {kernel = 3, stride = 2, padding = 1}, only = LARGE},

  -- windows of 3 with step 2 from -1: (pad,1,2) (2,3,4) (4,pad,nothing)
  {name = "what ceil_mode adds never counts", inputs = {gen.values {1, 1, 1, 4, values = {1, 2, 3, 4}}}, only = {"expected"},
    attrs = {kernel = {1, 3}, stride = {1, 2}, padding = {0, 1}, ceil_mode = true}, expect = {{1, 3, 2}}},
  {name = "nor does padding when told so", inputs = {gen.values {1, 1, 1, 4, values = {1, 2, 3, 4}}}, only = {"expected"},
    attrs = {kernel = {1, 3}, stride = {1, 2}, padding = {0, 1}, ceil_mode = true, count_include_pad = false},
    expect = {{1.5, 3, 4}}},

  {op = "avg_pool2d_grad", inputs = {{2, 3, 2, 3}}, attrs = {kernel = 2, size = {5, 7}}},
  {op = "avg_pool2d_grad", inputs = {{1, 5, 4, 3}}, attrs = {kernel = 3, stride = 2, padding = 1, size = {7, 5}}},

  {inputs = {{2, 3, 5, 5}}, attrs = {kernel = 3, padding = 2}, fails = {"value", "padding 2 is more than half the kernel size 3"}},
  {inputs = {{2, 3, 5, 5}}, attrs = {kernel = 6}, fails = {"shape", "x is 5x5, the 6x6 pooling window (padding 0) does not fit"}},
  {op = "avg_pool2d_grad", inputs = {{1, 1, 2, 2}}, attrs = {kernel = 2, size = 7},
    fails = {"shape", "dy is (1,1,2,2), kernel and size give an output of (1,1,3,3)"}},
}
