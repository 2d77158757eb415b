--- adaptive_avg_pool2d.lua -- cases of average pooling to a given size, and of its gradient.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local LARGE = {"against_ref", "twice_the_same", "any_layout", "meta_shapes"}

return {
  covers = {"adaptive_avg_pool2d_grad"},

  {name = "the mean of each channel", inputs = {{2, 3, 3, 5}}, attrs = {output = 1}},
  {name = "sizes that divide", inputs = {{2, 1, 4, 6}}, attrs = {output = {2, 3}}},
  {name = "windows overlap", inputs = {{1, 5, 5, 7}}, attrs = {output = {3, 4}}},
  {name = "more outputs than inputs", inputs = {{1, 7, 2, 3}}, attrs = {output = {5, 4}}},
  {name = "the same size", inputs = {{1, 17, 3, 2}}, attrs = {output = {3, 2}}},
  {name = "vector code", inputs = {{3, 37, 9, 13}}, attrs = {output = {1, 1}}, only = LARGE},
  {name = "vector code, windows overlap", inputs = {{2, 32, 7, 9}}, attrs = {output = {4, 2}}, only = LARGE},
  {name = "a window of 360 positions", inputs = {{2, 19, 20, 18}}, attrs = {output = 1}, only = LARGE},
  {name = "worked out by hand", inputs = {gen.values {1, 1, 1, 5, values = {1, 2, 6, 4, 5}}}, attrs = {output = {1, 3}},
    expect = {{1.5, 4, 4.5}}, only = {"expected"}},

  {op = "adaptive_avg_pool2d_grad", inputs = {{2, 3, 2, 3}}, attrs = {size = {5, 4}}},
  {op = "adaptive_avg_pool2d_grad", inputs = {{2, 5, 1, 1}}, attrs = {size = {3, 7}}},

  {inputs = {{3, 4}}, attrs = {output = 1}, fails = {"shape", "x must have 4 dims, it has 2"}},
  {inputs = {{1, 2, 0, 3}}, attrs = {output = 1}, fails = {"shape", "x is 0x3, there is nothing to pool"}},
}
