--- bn_act_pool.lua -- cases of fused batch norm + relu + 2x2 max pooling and of its gradient.
-- ref has no kernel for it and runs the expansion, so "agrees with ref" is "fused equals expanded".
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local LARGE = {"against_ref", "twice_the_same", "any_layout", "meta_shapes"}

local function case(name, x, is_training, more)
  local c = x.size[2]
  local made = {name = name .. (is_training and ", training" or ", eval"), attrs = {training = is_training},
    inputs = {x, gen.float {c, dtype = "f32"}, gen.float {c, dtype = "f32"}, gen.float {c, dtype = "f32", diff = false},
      gen.float {c, dtype = "f32", lo = 0.5, hi = 1.5, diff = false}},
    writes = is_training and {4, 5} or nil, batch = not is_training and {1}, reserve = {4}}
  for key, value in pairs(more or {}) do made[key] = value end
  return made
end

-- 17 levels in a fixed order: many ties, and no two levels that bf16 would merge.
local function levels(size)
  local values = {}
  for i = 1, gen.count(size) do values[i] = (i * 37 + math.floor(i / 13)) % 17 - 8 end
  size.values = values
  return gen.values(size)
end

-- x, dy, weight, bias, mean, invstd, reserve: places
local function gradient(size, is_training)
  local n, c, h, w = unpack(size)
  local pooled = {n, c, math.floor(h / 2), math.floor(w / 2)}
  return {op = "bn_act_pool_grad", inputs = {gen.distinct {unpack(size)}, gen.float {unpack(pooled)}, gen.float {c, dtype = "f32"},
    gen.float {c, dtype = "f32"}, gen.float {c, dtype = "f32"}, gen.float {c, dtype = "f32", lo = 0.5, hi = 2},
    gen.int {lo = 0, hi = 3, dtype = "u8", unpack(pooled)}}, attrs = {training = is_training},
    batch = not is_training and {1, 2, 7}}
end

local function refused(dtype, fails)
  local one, reserve = gen.float {1, dtype = "f32"}, {1, 1, 1, 2, dtype = dtype, values = {0, 3}}
  return {op = "bn_act_pool_grad", inputs = {{1, 1, 2, 4}, {1, 1, 1, 2}, one, one, one, one, gen.values(reserve)}, fails = fails}
end

return {
  covers = {"bn_act_pool_grad"},

  case("one window", gen.distinct {2, 1, 2, 2}, true),
  case("odd image: the last row and column only count in the statistics", gen.distinct {2, 3, 5, 7}, true),
  case("5 channels", gen.distinct {1, 5, 4, 6}, true),
  case("17 channels", gen.distinct {1, 17, 3, 2}, true),
  case("one channel", gen.distinct {1, 1, 4, 2}, false),
  case("7 channels, odd image", gen.distinct {2, 7, 5, 3}, false),
  case("vector code with ties", levels {4, 32, 9, 13}, true, {only = LARGE}),
  case("vector code with ties and a rest", levels {3, 53, 6, 5}, true, {only = LARGE}),
  case("vector code with ties", levels {3, 48, 8, 7}, false, {only = LARGE}),

  {name = "a dead window is place 0", attrs = {eps = 0.25}, only = {"expected"},
    inputs = {gen.values {1, 1, 2, 4, values = {-1, -2, 3, -4, -5, -6, -7, 8}}, gen.values {1, values = {1}},
      gen.values {1, values = {0}}, gen.values {1, values = {0}}, gen.values {1, values = {0.75}}},
    expect = {{0, 8}, {0}, {1}, {0, 3}, on = {"ref", "cpu"}}},
  {op = "bn_act_pool_grad", name = "a dead window passes no gradient", attrs = {}, only = {"expected"},
    inputs = {gen.values {1, 1, 2, 4, values = {-1, -2, 3, -4, -5, -6, -7, 8}}, gen.values {1, 1, 1, 2, values = {10, 20}},
      gen.values {1, values = {1}}, gen.values {1, values = {0}}, gen.values {1, values = {0}}, gen.values {1, values = {1}},
      gen.values {1, 1, 1, 2, dtype = "u8", values = {0, 3}}},
    expect = {{0, 0, 0, 0, 0, 0, 0, 20}, {160}, {20}}},

  gradient({2, 3, 5, 7}, true),
  gradient({1, 5, 4, 6}, false),
  gradient({2, 1, 2, 3}, true),

  refused("i32", {"dtype", "reserve must be u8, it is i32"}),
  refused("f32", {"dtype", "reserve is f32: bn_act_pool on another device made it", on = {"ref", "cpu"}}),
  {inputs = {{2, 3, 1, 5}, {3}, {3}}, attrs = {training = true},
    fails = {"shape", "x is 1x5, the 2x2 pooling window does not fit"}},
  {inputs = {{2, 3}, {3}, {3}}, attrs = {training = true}, fails = {"shape", "x must have 4 dims, it has 2"}},
}
