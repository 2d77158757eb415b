--- bn_act.lua -- cases of fused batch norm + relu or silu and of its gradient.
-- ref has no kernel for it and runs the expansion, so "agrees with ref" is "fused equals expanded".
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local LARGE = {"against_ref", "twice_the_same", "any_layout", "meta_shapes"}

local function case(name, size, is_training, more, act)
  local c = size[2]
  local made = {name = name .. (act and ", " .. act or "") .. (is_training and ", training" or ", eval"),
    attrs = {training = is_training, act = act},
    inputs = {gen.distinct(size), gen.float {c, dtype = "f32"}, gen.float {c, dtype = "f32"},
      gen.float {c, dtype = "f32", diff = false}, gen.float {c, dtype = "f32", lo = 0.5, hi = 1.5, diff = false}},
    writes = is_training and {4, 5} or nil, batch = not is_training and {1}}
  for key, value in pairs(more or {}) do made[key] = value end
  return made
end

-- x, dy, weight, bias, mean, invstd
local function gradient(size, is_training, act, only)
  local c = size[2]
  return {op = "bn_act_grad", only = only, inputs = {gen.distinct {unpack(size)}, gen.float {unpack(size)}, gen.float {c, dtype = "f32"},
    gen.float {c, dtype = "f32"}, gen.float {c, dtype = "f32"}, gen.float {c, dtype = "f32", lo = 0.5, hi = 2}},
    attrs = {training = is_training, act = act}, batch = not is_training and {1, 2}}
end

return {
  covers = {"bn_act_grad"},

  case("(N,C)", {7, 3}, true),
  case("one channel", {2, 1, 3, 5}, true),
  case("3 channels, odd image", {2, 3, 5, 7}, true),
  case("17 channels", {2, 17, 3, 3}, true),
  case("(N,C)", {4, 5}, false),
  case("7 channels", {2, 7, 3, 5}, false),
  case("vector code", {4, 32, 9, 13}, true, {only = LARGE}),
  case("vector code with a rest", {3, 53, 7, 5}, true, {only = LARGE}),
  case("vector code", {3, 48, 9, 5}, false, {only = LARGE}),
  case("3 channels, odd image", {2, 3, 5, 7}, true, nil, "silu"),
  case("7 channels", {2, 7, 3, 5}, false, nil, "silu"),
  case("vector code with a rest", {3, 53, 7, 5}, true, {only = LARGE}, "silu"),
  case("pixels side by side in a vector, one left", {3, 8, 9, 13}, true, {only = LARGE}),
  case("pixels side by side in a vector, one left", {5, 12, 9, 13}, false, {only = LARGE}, "silu"),
  case("pixels side by side in a vector, four left", {4, 3, 9, 13}, false, {only = LARGE}),

  {name = "negative and zero become zero", inputs = {gen.values {3, 1, values = {-1, 0, 2}}, gen.values {1, values = {3}},
    gen.values {1, values = {0}}, gen.values {1, values = {0}}, gen.values {1, values = {0.75}}}, attrs = {eps = 0.25},
    expect = {{0, 0, 6}, {0}, {1}}, only = {"expected"}},
  {op = "bn_act_grad", name = "no gradient where the output was zero", attrs = {},
    inputs = {gen.values {3, 1, values = {-1, 0, 2}}, gen.values {3, 1, values = {10, 20, 30}}, gen.values {1, values = {3}},
      gen.values {1, values = {0}}, gen.values {1, values = {0}}, gen.values {1, values = {0.5}}},
    expect = {{0, 0, 45}, {30}, {30}}, only = {"expected"}},

  gradient({6, 3}, true),
  gradient({2, 5, 3, 7}, true),
  gradient({2, 5, 3, 7}, false),
  gradient({2, 5, 3, 7}, true, "silu"),
  gradient({2, 19, 3, 7}, false, "silu"),
  gradient({3, 8, 9, 13}, true, nil, LARGE),
  gradient({5, 12, 9, 13}, true, "silu", LARGE),
  gradient({4, 3, 9, 13}, false, "silu", LARGE),

  {inputs = {{1, 3}, {3}, {3}}, attrs = {training = true},
    fails = {"value", "training needs more than 1 value per channel, x (1,3) has 1"}},
}
