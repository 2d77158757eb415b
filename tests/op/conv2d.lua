--- conv2d.lua -- cases of convolution and of its gradients.
-- The larger ones reach the vector code of fast backends; only those checks run on them.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local LARGE = {"against_ref", "twice_the_same", "any_layout", "meta_shapes"}

-- Winograd rounds what it multiplies, sums of up to 16 pixels, to bf16 again.
local function winograd(case)
  case.tolerance, case.because, case.only = {bf16 = 0.032}, "Winograd's transforms are rounded to bf16", LARGE
  return case
end

-- A bias that decides about relu: no output is so near 0 that rounding decides.
local far_from_zero = {}
for i = 1, 32 do far_from_zero[i] = i % 2 == 0 and 40 or -40 end

return {
  covers = {"conv2d_act", "conv2d_grad_x", "conv2d_grad_w"},

  -- shapes: x (N,C,H,W), weight (O,C/groups,kh,kw), bias (O)
  {name = "one channel, padding", inputs = {{2, 1, 5, 3}, {3, 1, 3, 3}, {3}}, attrs = {padding = 1}},
  {name = "no bias, 1x1", inputs = {{2, 7, 3, 5}, {3, 7, 1, 1}}},
  {name = "3 channels, 5x5 kernel as large as x", inputs = {{1, 3, 5, 5}, {5, 3, 5, 5}, {5}}},
  {name = "5 channels, different strides and paddings", inputs = {{2, 5, 7, 8}, {3, 5, 3, 2}, {3}},
    attrs = {stride = {2, 3}, padding = {1, 0}}},
  {name = "17 channels, odd sizes", inputs = {{1, 17, 5, 7}, {7, 17, 3, 3}, {7}}, attrs = {padding = 1}},
  {name = "stride above the kernel skips inputs", inputs = {{1, 2, 9, 8}, {2, 2, 2, 1}, {2}}, attrs = {stride = 3}},
  {name = "padding above the kernel's half", inputs = {{1, 2, 3, 4}, {2, 2, 3, 3}, {2}}, attrs = {padding = {2, 3}}},
  {name = "dilation", inputs = {{2, 3, 7, 5}, {2, 3, 3, 3}, {2}}, attrs = {dilation = {3, 2}, padding = {2, 2}}},
  {name = "dilation and stride", inputs = {{1, 2, 9, 9}, {3, 2, 2, 3}, {3}},
    attrs = {dilation = 2, stride = 2, padding = 1}},
  {name = "two groups", inputs = {{2, 6, 4, 3}, {4, 3, 3, 3}, {4}}, attrs = {groups = 2, padding = 1}},
  {name = "depthwise", inputs = {{2, 5, 5, 4}, {5, 1, 3, 3}, {5}}, attrs = {groups = 5, padding = 1}},
  {name = "depthwise with two outputs per channel, stride 2", inputs = {{1, 3, 7, 5}, {6, 1, 3, 3}, {6}},
    attrs = {groups = 3, stride = 2, padding = 1}},
  {name = "depthwise 5x5 with dilation", inputs = {{1, 7, 9, 9}, {7, 1, 5, 5}}, attrs = {groups = 7, dilation = 2, padding = 4}},
  {name = "one pixel", inputs = {{3, 4, 1, 1}, {2, 4, 1, 1}, {2}}},

  {name = "32 outputs of one channel", inputs = {{3, 1, 13, 17}, {32, 1, 3, 3}, {32}}, attrs = {padding = 1}, only = LARGE},
  {name = "16 outputs of 3 channels, 5x5, stride 2", inputs = {{2, 3, 15, 11}, {16, 3, 5, 5}, {16}},
    attrs = {padding = 2, stride = 2}, only = LARGE},
  {name = "4 channels to 8, 1x1, stride 2: fewer channels than a vector", inputs = {{16, 4, 16, 16}, {8, 4, 1, 1}, {8}},
    attrs = {stride = 2}, only = LARGE},
  winograd {name = "32 channels to 32, 3x3", inputs = {{2, 32, 7, 9}, {32, 32, 3, 3}, {32}}, attrs = {padding = 1}},
  winograd {name = "16 channels to 48, no padding", inputs = {{1, 16, 8, 7}, {48, 16, 3, 3}, {48}}},
  winograd {name = "24 channels to 56, vectors that are not whole", inputs = {{2, 24, 7, 9}, {56, 24, 3, 3}, {56}},
    attrs = {padding = 1}},
  winograd {name = "12 channels to 28, likewise with 8 lanes", inputs = {{2, 12, 7, 9}, {28, 12, 3, 3}, {28}}},
  {name = "depthwise over 40 channels", inputs = {{2, 40, 9, 7}, {40, 1, 3, 3}, {40}}, attrs = {groups = 40, padding = 1},
    only = LARGE},

  {name = "depthwise over 24 channels, different strides, dilation", inputs = {{1, 24, 9, 11}, {24, 1, 3, 3}, {24}},
    attrs = {groups = 24, stride = {3, 2}, padding = 2, dilation = {1, 2}}, only = LARGE},
  {name = "depthwise with two outputs for each of 20 channels", inputs = {{3, 20, 7, 9}, {40, 1, 5, 3}, {40}},
    attrs = {groups = 20, stride = {2, 1}, padding = {2, 1}}, only = LARGE},
  {name = "depthwise 7x7 over an image below the kernel", inputs = {{3, 17, 2, 19}, {17, 1, 7, 7}, {17}},
    attrs = {groups = 17, padding = 3}, only = LARGE},
  {name = "depthwise with a stride above the kernel", inputs = {{2, 16, 9, 8}, {16, 1, 2, 1}}, attrs = {groups = 16, stride = 3},
    only = LARGE},

  {name = "the kernel is not flipped",
    inputs = {gen.values {1, 1, 3, 3, values = {1, 2, 3, 4, 5, 6, 7, 8, 9}}, gen.values {1, 1, 2, 2, values = {1, 10, 100, 1000}},
      gen.values {1, values = {0.5}}},
    expect = {{5421.5, 6532.5, 8754.5, 9865.5}}, only = {"expected"}},

  -- with an activation
  {op = "conv2d_act", name = "and relu", inputs = {{2, 3, 5, 4}, {4, 3, 3, 3}, {4}}, attrs = {padding = 1}},
  {op = "conv2d_act", name = "and relu, no bias, stride", inputs = {{2, 3, 7, 8}, {5, 3, 3, 2}}, attrs = {stride = {2, 3}, padding = {1, 0}}},
  {op = "conv2d_act", name = "and silu", inputs = {{2, 4, 5, 4}, {4, 2, 3, 3}, {4}}, attrs = {padding = 1, groups = 2, act = "silu"}},
  winograd {op = "conv2d_act", name = "32 channels and relu", attrs = {padding = 1},
    inputs = {{2, 32, 7, 9}, {32, 32, 3, 3}, gen.values {32, values = far_from_zero}}},
  winograd {op = "conv2d_act", name = "32 channels and silu", inputs = {{2, 32, 7, 9}, {32, 32, 3, 3}, {32}},
    attrs = {padding = 1, act = "silu"}},
  {op = "conv2d_act", name = "64 channels, stride 2 along columns, and relu", inputs = {{2, 64, 8, 20}, {32, 64, 3, 3}, {32}},
    attrs = {padding = 1, stride = {2, 1}}, only = LARGE},
  {op = "conv2d_act", name = "depthwise over 40 channels and relu", inputs = {{2, 40, 9, 7}, {40, 1, 3, 3}, {40}},
    attrs = {groups = 40, padding = 1}, only = LARGE},
  {op = "conv2d_act", name = "depthwise over 40 channels and silu", inputs = {{2, 40, 9, 7}, {40, 1, 3, 3}, {40}},
    attrs = {groups = 40, padding = 1, act = "silu"}, only = LARGE},

  -- the gradient ops, called directly
  {op = "conv2d_grad_x", name = "rows that no window reads get 0", inputs = {{2, 3, 2, 3}, {3, 2, 3, 3}},
    attrs = {size = {6, 7}, stride = {3, 2}}},
  {op = "conv2d_grad_x", name = "groups, dilation", inputs = {{1, 4, 5, 5}, {4, 3, 3, 3}},
    attrs = {size = {5, 7}, groups = 2, padding = 2, dilation = {2, 3}}},
  {op = "conv2d_grad_w", name = "stride leaves a rest", inputs = {{3, 5, 8, 7}, {3, 4, 3, 3}}, batch = {1, 2},
    attrs = {kernel = 3, stride = 2, padding = {0, 0}}, low = {1}},
  {op = "conv2d_grad_w", name = "depthwise", inputs = {{2, 3, 5, 5}, {2, 3, 5, 5}}, batch = {1, 2},
    attrs = {kernel = 3, groups = 3, padding = 1}, low = {1}},
  {op = "conv2d_grad_w", name = "no bias", inputs = {{2, 3, 5, 5}, {2, 8, 5, 5}}, batch = {1, 2},
    attrs = {kernel = 3, padding = 1, no_bias = true}, low = {1}},

  {inputs = {{2, 3, 5, 5}, {8, 1, 3, 3}}, fails = {"shape", "weight expects 1 input channel, x has 3"}},
  {inputs = {{2, 3, 5, 5}, {8, 3, 7, 7}},
    fails = {"shape", "x is 5x5, the 7x7 kernel (padding 0, dilation 1) does not fit"}},
  {inputs = {{2, 3, 5, 5}, {8, 1, 3, 3}}, attrs = {groups = 3},
    fails = {"value", "weight has 8 output channels, groups = 3 does not divide them"}},
  {inputs = {{2, 3, 5, 5}, {8, 1, 3, 3}}, attrs = {groups = 2},
    fails = {"value", "x has 3 input channels, groups = 2 does not divide them"}},
  {inputs = {{2, 3, 5, 5}, {8, 3, 3, 3}, {7}}, fails = {"shape", "bias must be (8), one per output channel; it is (7)"}},
  {inputs = {{3, 5, 5}, {8, 3, 3, 3}}, fails = {"shape", "x must have 4 dims, it has 3"}},
  {inputs = {{1, 3, 5, 5}, gen.float {8, 3, 3, 3, dtype = "bf16"}}, fails = {"dtype", "x is f32, weight is bf16"}},
  {op = "conv2d_grad_x", inputs = {{2, 3, 5, 5}, {3, 3, 3, 3}}, attrs = {size = 4},
    fails = {"shape", "dy is (2,3,5,5), weight and size give an output of (2,3,2,2)"}},
  {op = "conv2d_grad_w", inputs = {{2, 3, 5, 5}, {2, 3, 5, 5}}, attrs = {kernel = 3},
    fails = {"shape", "dy is (2,3,5,5), x and kernel give an output of (2,3,3,3)"}},
}
