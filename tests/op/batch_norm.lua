--- batch_norm.lua -- cases of batch normalization and of its gradient.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local LARGE = {"against_ref", "twice_the_same", "any_layout", "meta_shapes"}

-- weight, bias, running mean and variance for C channels, after x.
local function inputs(x, c)
  return {x, gen.float {c, dtype = "f32"}, gen.float {c, dtype = "f32"}, gen.float {c, dtype = "f32", diff = false},
    gen.float {c, dtype = "f32", lo = 0.5, hi = 1.5, diff = false}}
end

local function training(name, size, more)
  local case = {name = name .. ", training", inputs = inputs(size, size[2]), attrs = {training = true}, writes = {4, 5},
    batch = false}
  for key, value in pairs(more or {}) do case[key] = value end
  return case
end

local function evaluation(name, size, more)
  local case = {name = name .. ", eval", inputs = inputs(size, size[2])}
  for key, value in pairs(more or {}) do case[key] = value end
  return case
end

-- x, dy, weight, mean, invstd
local function gradient(size, is_training)
  local c = size[2]
  return {op = "batch_norm_grad", inputs = {gen.float(size), gen.float {unpack(size)}, gen.float {c, dtype = "f32"},
    gen.float {c, dtype = "f32"}, gen.float {c, dtype = "f32", lo = 0.5, hi = 2}}, attrs = {training = is_training},
    batch = not is_training and {1, 2}}
end

return {
  covers = {"batch_norm_grad"},

  training("(N,C)", {7, 3}),
  training("one channel", {2, 1, 3, 5}),
  training("3 channels, odd image", {3, 3, 5, 7}),
  training("5 channels, eps and momentum", {2, 5, 3, 1}, {attrs = {training = true, eps = 0.01, momentum = 0.3}}),
  training("17 channels", {2, 17, 3, 3}),
  training("two values per channel", {2, 3, 1, 1}, {attrs = {training = true, eps = 0.1}}),
  evaluation("(N,C)", {4, 7}),
  evaluation("one channel", {1, 1, 3, 5}),
  evaluation("odd image", {2, 3, 5, 7}, {attrs = {eps = 0.01}}),
  evaluation("one value per channel", {1, 5, 1, 1}),
  {name = "no running statistics", inputs = {{3, 3, 2, 2}, gen.float {3, dtype = "f32"}, gen.float {3, dtype = "f32"}},
    attrs = {training = true}, batch = false},
  training("vector code", {4, 32, 9, 13}, {only = LARGE}),
  training("vector code with a rest", {3, 53, 7, 5}, {only = LARGE}),
  evaluation("vector code", {4, 48, 9, 13}, {only = LARGE}),
  training("pixels side by side in a vector, one left", {3, 8, 9, 13}, {only = LARGE}),

  {name = "worked out by hand", inputs = {gen.values {4, 1, values = {1, 2, 3, 6}}, gen.values {1, values = {2}},
    gen.values {1, values = {-1}}, gen.values {1, values = {10}}, gen.values {1, values = {1}}},
    attrs = {training = true, eps = 0.5, momentum = 0.25}, writes = {4, 5}, only = {"expected"},
    expect = {{-3, -2, -1, 2}, {3}, {0.5}, after = {[4] = {8.25}, [5] = {0.75 + 3.5 / 3}}}}, -- variance 3.5, unbiased 14/3

  {name = "eval worked out by hand", inputs = {gen.values {1, 2, values = {1, 2}}, gen.values {2, values = {1, 3}},
    gen.values {2, values = {0, 1}}, gen.values {2, values = {0, 1}}, gen.values {2, values = {4, 0}}},
    attrs = {eps = 0.25}, only = {"expected"},
    expect = {{1 / math.sqrt(4.25), 7}, {0, 1}, {1 / math.sqrt(4.25), 2}, after = {[4] = {0, 1}, [5] = {4, 0}}}},

  gradient({5, 3}, true),
  gradient({2, 5, 3, 7}, true),
  gradient({2, 5, 3, 7}, false),
  gradient({3, 8, 9, 13}, true),

  {inputs = {{1, 3}, {3}, {3}}, attrs = {training = true},
    fails = {"value", "training needs more than 1 value per channel, x (1,3) has 1"}},
  {inputs = {{2, 3}, {3}, {3}}, fails = {"value", "training = false uses running_mean and running_var, which are not given"}},
  {inputs = {{2, 3}, {3}, {3}, {3}}, attrs = {training = true}, fails = {"value", "running_mean is given without running_var"}},
  {inputs = {{2, 3, 4}, {3}, {3}}, attrs = {training = true}, fails = {"shape", "x is (2,3,4), (N,C) or (N,C,H,W) is needed"}},
  {inputs = {{2, 3}, {4}, {3}}, attrs = {training = true}, fails = {"shape", "weight must be (3), one per channel of x; it is (4)"}},
  {inputs = {{2, 3}, gen.float {3, dtype = "bf16"}, {3}}, attrs = {training = true}, fails = {"dtype", "weight must be f32, it is bf16"}},
}
