--- adaptive_max_pool2d.lua -- cases of max pooling to a given size, and of its gradient.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

return {
  covers = {"adaptive_max_pool2d_grad"},

  {name = "the largest of each channel", inputs = {gen.distinct {2, 3, 3, 5}}, attrs = {output = 1}},
  {name = "sizes that divide", inputs = {gen.distinct {2, 1, 4, 6}}, attrs = {output = {2, 3}}},
  {name = "windows overlap", inputs = {gen.distinct {1, 5, 5, 7}}, attrs = {output = {3, 4}}},
  {name = "more outputs than inputs", inputs = {gen.distinct {1, 7, 2, 3}}, attrs = {output = {5, 4}}},
  {name = "the same size", inputs = {gen.distinct {1, 17, 3, 2}}, attrs = {output = {3, 2}}},
  {name = "vector code, windows overlap", inputs = {gen.distinct {2, 33, 7, 9}}, attrs = {output = {4, 2}},
    only = {"against_ref", "twice_the_same", "any_layout"}},
  {name = "a window of 360 positions", inputs = {gen.distinct {1, 5, 20, 18}}, attrs = {output = 1}, only = {"against_ref"},
    dtypes = {"f32"}},
  {name = "worked out by hand, the first of equal values", inputs = {gen.values {1, 1, 2, 3, values = {6, 2, 6, 4, 6, 5}}},
    attrs = {output = {2, 2}}, expect = {{6, 6, 6, 6}, {0, 2, 4, 4}}, only = {"expected"}},

  {op = "adaptive_max_pool2d_grad", name = "gradients meet at a shared winner", attrs = {size = {1, 3}}, batch = {1, 2},
    inputs = {gen.values {1, 1, 1, 2, values = {1, 10}}, gen.values {1, 1, 1, 2, dtype = "i32", values = {1, 1}}},
    expect = {{0, 11, 0}}},

  {inputs = {{1, 2, 0, 3}}, attrs = {output = 1}, fails = {"shape", "x is 0x3, there is nothing to pool"}},
  {op = "adaptive_max_pool2d_grad", attrs = {size = 2},
    inputs = {{1, 1, 1, 1}, gen.values {1, 1, 1, 1, dtype = "i32", values = {-1}}},
    fails = {"value", "index -1 of output 1,1 lies outside its window", on = {"ref"}}},
}
