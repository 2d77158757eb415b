--- gru.lua -- cases of gated recurrent units along time and of their gradients.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local LARGE = {"against_ref", "twice_the_same", "meta_shapes"}

-- x (T,N,D*3H), w_hh (D*3H,H), and what more a case wants.
local function case(name, T, N, H, o)
  o = o or {}
  local D, reach, seq = o.models or o.both and 2 or 1, o.reach or 1, o.batch_first and {N, T} or {T, N}
  local lengths = o.lengths and gen.values {N, dtype = o.int or "i32", values = o.lengths}
  return {name = name, inputs = {{seq[1], seq[2], D * 3 * H}, gen.float {D * 3 * H, H, lo = -reach, hi = reach}, o.bias and gen.float {D * 3 * H},
    o.h0 and gen.float {D, N, H}, lengths}, attrs = {batch_first = o.batch_first, models = o.models and true}, batch = o.batch, only = o.only}
end

local function sigmoid(x) return 1 / (1 + math.exp(-x)) end

-- One unit, one step: h0 = 2, w_hh = (1, 0, 0.5), b_hh = (0, 0, 0.25).
local function by_hand()
  local r, z = sigmoid(0.5 + 2), sigmoid(-1)
  local n = math.tanh(0.75 + r * (0.5 * 2 + 0.25))
  local h = (1 - z) * n + z * 2
  return {name = "worked out by hand", only = {"expected"}, expect = {{h}, {h}}, inputs = {gen.values {1, 1, 3, values = {0.5, -1, 0.75}},
    gen.values {3, 1, values = {1, 0, 0.5}}, gen.values {3, values = {0, 0, 0.25}}, gen.values {1, 1, 1, values = {2}}}}
end

return {
  covers = {"gru_grad"},

  case("one direction", 3, 2, 3, {bias = true}),
  case("three models", 3, 2, 2, {models = 3, bias = true, h0 = true, lengths = {3, 1}, batch = false}),
  case("one step, one sequence, one unit", 1, 1, 1),
  case("both directions, state, lengths", 4, 3, 2, {both = true, bias = true, h0 = true, lengths = {3, 1, 0}, batch = false}),
  case("batch first", 3, 2, 2, {batch_first = true, both = true, bias = true}),
  case("batch first with i64 lengths", 4, 2, 3, {batch_first = true, both = true, h0 = true, lengths = {4, 2}, int = "i64", batch = false}),
  case("vector code", 5, 13, 24, {both = true, bias = true, reach = 0.3, only = LARGE}),
  case("vector code with a rest", 4, 7, 19, {both = true, bias = true, h0 = true, batch_first = true, lengths = {4, 3, 0, 4, 1, 2, 4}, reach = 0.3, only = LARGE}),
  by_hand(),

  {inputs = {{2, 3, 8}, {8, 3}}, fails = {"shape", "w_hh must be (3*H,H) for one direction or (6*H,H) for two, with H the hidden size; it is (8,3)"}},
  {inputs = {{2, 3, 8}, {6, 2}}, fails = {"shape", "x has 8 values per time step, w_hh has 6 rows: they must be equal"}},
  {inputs = {{2, 3, 6}, {6, 2}, {2}}, fails = {"shape", "b_hh must be (6), one per row of w_hh; it is (2)"}},
  {inputs = {{2, 3, 6}, {6, 2}, false, {2, 3, 2}}, fails = {"shape", "h0 must be (1,3,2): directions, sequences, hidden size; it is (2,3,2)"}},
  {inputs = {{2, 2, 6}, {6, 2}, false, false, gen.values {2, dtype = "i32", values = {-1, 2}}},
    fails = {"value", "lengths[0] is -1, x has 2 time steps", on = {"ref", "cpu"}}},
}
