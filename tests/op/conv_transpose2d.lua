--- conv_transpose2d.lua -- cases of transposed convolution.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local LARGE = {"against_ref", "twice_the_same", "any_layout", "meta_shapes"}

return {
  -- shapes: x (N,I,H,W), weight (I,O/groups,kh,kw), bias (O)
  {name = "stride 2 doubles the size", inputs = {{2, 3, 4, 5}, {3, 2, 2, 2}, {2}}, attrs = {stride = 2}},
  {name = "no bias, stride 1", inputs = {{1, 2, 3, 4}, {2, 3, 3, 3}}},
  {name = "padding takes the border away", inputs = {{2, 3, 4, 3}, {3, 5, 3, 3}, {5}}, attrs = {stride = 2, padding = 1}},
  {name = "output_padding below the stride", inputs = {{2, 3, 3, 4}, {3, 2, 3, 3}, {2}},
    attrs = {stride = {2, 3}, padding = 1, output_padding = {1, 2}}},
  {name = "different strides, paddings and kernel sides", inputs = {{1, 5, 3, 4}, {5, 3, 3, 2}, {3}},
    attrs = {stride = {3, 2}, padding = {0, 1}, output_padding = {2, 0}}},
  {name = "dilation", inputs = {{1, 2, 3, 4}, {2, 3, 2, 3}, {3}}, attrs = {stride = 2, padding = 1, dilation = {3, 2}}},
  {name = "output_padding below the dilation only", inputs = {{2, 2, 3, 3}, {2, 3, 2, 2}, {3}},
    attrs = {dilation = {4, 2}, output_padding = {3, 1}}},
  {name = "output_padding of a whole stride and more", inputs = {{1, 2, 3, 3}, {2, 2, 2, 3}, {2}},
    attrs = {stride = 2, dilation = 4, output_padding = {3, 2}}},
  {name = "stride above the kernel leaves gaps, which hold the bias", inputs = {{1, 2, 3, 3}, {2, 2, 1, 2}, {2}}, attrs = {stride = 3}},
  {name = "two groups", inputs = {{2, 4, 3, 3}, {4, 3, 3, 3}, {6}}, attrs = {groups = 2, stride = 2, padding = 1, output_padding = 1}},
  {name = "depthwise", inputs = {{2, 5, 3, 4}, {5, 1, 4, 4}, {5}}, attrs = {groups = 5, stride = 2, padding = 1}},
  {name = "one pixel", inputs = {{3, 4, 1, 1}, {4, 2, 3, 3}, {2}}},
  {name = "32 channels to 16", inputs = {{2, 32, 5, 7}, {32, 16, 4, 4}, {16}}, attrs = {stride = 2, padding = 1}, only = LARGE},
  {name = "depthwise over 40 channels, stride 2", inputs = {{2, 40, 5, 4}, {40, 1, 3, 3}, {40}},
    attrs = {groups = 40, stride = 2, padding = 1, output_padding = 1}, only = LARGE},

  {name = "every pixel paints the kernel",
    inputs = {gen.values {1, 1, 1, 2, values = {1, 10}}, gen.values {1, 1, 2, 2, values = {1, 2, 3, 4}}, gen.values {1, values = {0.5}}},
    attrs = {stride = 2},
    expect = {{1.5, 2.5, 10.5, 20.5, 3.5, 4.5, 30.5, 40.5}}, only = {"expected"}},

  {inputs = {{2, 3, 5, 5}, {4, 8, 3, 3}}, fails = {"shape", "weight expects 4 input channels, x has 3"}},
  {inputs = {{2, 3, 5, 5}, {3, 8, 3, 3}}, attrs = {groups = 2},
    fails = {"value", "weight has 3 input channels, groups = 2 does not divide them"}},
  {inputs = {{2, 4, 5, 5}, {4, 3, 3, 3}, {3}}, attrs = {groups = 2},
    fails = {"shape", "bias must be (6), one per output channel; it is (3)"}},
  {inputs = {{2, 3, 5, 5}, {3, 8, 3, 3}}, attrs = {stride = 2, output_padding = 2},
    fails = {"value", "output_padding 2 must be smaller than stride 2 or dilation 1"}},
  {inputs = {{1, 3, 1, 1}, {3, 8, 3, 3}}, attrs = {padding = 2},
    fails = {"shape", "x is 1x1, nothing is left of y with the 3x3 kernel and padding 2"}},
  {inputs = {{3, 5, 5}, {3, 8, 3, 3}}, fails = {"shape", "x must have 4 dims, it has 3"}},
  {inputs = {{1, 3, 5, 5}, gen.float {3, 8, 3, 3, dtype = "bf16"}}, fails = {"dtype", "x is f32, weight is bf16"}},
}
