--- linear.lua -- cases of the fully connected layer and of its gradients.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local LARGE = {"against_ref", "twice_the_same", "any_layout", "meta_shapes"}

return {
  covers = {"linear_grad_x", "linear_grad_w"},

  -- shapes: x (...,I), weight (O,I), bias (O)
  {name = "odd sizes", inputs = {{5, 7}, {3, 7}, {3}}},
  {name = "no bias", inputs = {{2, 17}, {5, 17}}},
  {name = "one row", inputs = {{1, 3}, {4, 3}, {4}}},
  {name = "x is a vector", inputs = {{6}, {3, 6}, {3}}, batch = false},
  {name = "one feature, one output", inputs = {{4, 1}, {1, 1}, {1}}},
  {name = "x with two leading dims", inputs = {{2, 3, 5}, {4, 5}, {4}}},
  {name = "x with three leading dims", inputs = {{2, 1, 3, 5}, {4, 5}, {4}}},
  {name = "vector code", inputs = {{9, 67}, {35, 67}, {35}}, only = LARGE},
  {name = "more outputs than inputs", inputs = {{3, 16}, {144, 16}, {144}}, only = LARGE},
  {name = "worked out by hand", inputs = {gen.values {1, 2, values = {1, 2}}, gen.values {3, 2, values = {1, 10, 100, 1000, 0, -1}},
    gen.values {3, values = {0.5, 0, 0}}}, expect = {{21.5, 2100, -2}}, only = {"expected"}},

  {op = "linear_grad_x", inputs = {{5, 3}, {3, 7}}},
  {op = "linear_grad_w", inputs = {{5, 7}, {5, 3}}, batch = {1, 2}},
  {op = "linear_grad_w", inputs = {{2, 3, 7}, {2, 3, 5}}, batch = {1, 2}},

  {op = "linear_act", name = "and relu", inputs = {{5, 7}, {3, 7}, {3}}},
  {op = "linear_act", name = "and relu, no bias", inputs = {{2, 3, 17}, {5, 17}}},
  {op = "linear_act", name = "and relu, worked out by hand", inputs = {gen.values {1, 2, values = {1, 2}},
    gen.values {2, 2, values = {1, 10, -100, 10}}, gen.values {2, values = {0.5, 0}}}, expect = {{21.5, 0}}, only = {"expected"}},

  {inputs = {{2, 3}, {4, 5}}, fails = {"shape", "weight expects 5 input features, x has 3"}},
  {inputs = {{2, 3}, {4, 3}, {3}}, fails = {"shape", "bias must be (4), one per output feature; it is (3)"}},
  {inputs = {{2, 3}, {4, 3, 1}}, fails = {"shape", "weight must have 2 dims, it has 3"}},
  {inputs = {{}, {4, 3}}, fails = {"shape", "x is a scalar, at least one dim is needed"}},
  {op = "linear_grad_x", inputs = {{2, 3}, {4, 5}}, fails = {"shape", "weight gives 4 output features, dy has 3"}},
  {op = "linear_grad_w", inputs = {{2, 3}, {3, 5}}, fails = {"shape", "dy is (3,5), the rows of x call for (2,5)"}},
}
