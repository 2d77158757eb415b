--- lstm.lua -- cases of long short-term memory along time and of its gradients.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local LARGE = {"against_ref", "twice_the_same", "meta_shapes"}

-- x (T,N,D*4H), w_hh (D*4H,H), and what more a case wants.
local function case(name, T, N, H, o)
  o = o or {}
  local D, reach, seq = o.models or o.both and 2 or 1, o.reach or 1, o.batch_first and {N, T} or {T, N}
  local state = {D, N, H}
  local lengths = o.lengths and gen.values {N, dtype = o.int or "i32", values = o.lengths}
  return {name = name, inputs = {{seq[1], seq[2], D * 4 * H}, gen.float {D * 4 * H, H, lo = -reach, hi = reach}, o.h0 and gen.float {unpack(state)},
    o.c0 and gen.float {unpack(state)}, lengths}, attrs = {batch_first = o.batch_first, models = o.models and true}, batch = o.batch, only = o.only,
    tolerance = o.tolerance, because = o.because}
end

local BOTH = {both = true, h0 = true, c0 = true, lengths = {3, 1, 0}, batch = false}

local function sigmoid(x) return 1 / (1 + math.exp(-x)) end

-- One unit, weights 0: the gates follow from x alone. Two steps.
local function by_hand()
  local c1 = sigmoid(0.5) * math.tanh(2)
  local c2 = sigmoid(-1) * c1 + sigmoid(1) * math.tanh(-0.5)
  local h1, h2 = sigmoid(3) * math.tanh(c1), sigmoid(0) * math.tanh(c2)
  return {inputs = {gen.values {2, 1, 4, values = {0.5, 7, 2, 3, 1, -1, -0.5, 0}}, gen.values {4, 1, values = {0, 0, 0, 0}}},
    expect = {{h1, h2}, {h2}, {c2}}}
end

local hand = by_hand()
hand.name, hand.only = "worked out by hand", {"expected"}

return {
  covers = {"lstm_grad"},

  case("one direction", 3, 2, 3),
  case("one step, one sequence, one unit", 1, 1, 1),
  case("both directions, states, lengths", 4, 3, 2, BOTH),
  case("batch first", 3, 2, 2, {batch_first = true, both = true}),
  case("batch first with i64 lengths", 4, 2, 3, {batch_first = true, both = true, lengths = {4, 2}, int = "i64", batch = false}),
  case("three models", 3, 2, 2, {models = 3, h0 = true, c0 = true, lengths = {3, 1}, batch = false}),
  case("h0 without c0", 2, 2, 3, {h0 = true}),
  case("c0 without h0", 2, 3, 1, {c0 = true, lengths = {2, 1, 1}}),
  case("vector code", 5, 13, 24, {both = true, reach = 0.3, only = LARGE}),
  case("vector code with a rest", 4, 7, 19, {both = true, h0 = true, c0 = true, batch_first = true, lengths = {4, 3, 0, 4, 1, 2, 4}, reach = 0.3, only = LARGE}),
  case("vector code, models", 4, 13, 19, {models = 5, batch_first = true, reach = 0.3, only = LARGE}),
  hand,

  {inputs = {{2, 3, 8}, {8, 3}}, fails = {"shape", "w_hh must be (4*H,H) for one direction or (8*H,H) for two, with H the hidden size; it is (8,3)"}},
  {inputs = {{2, 3, 18}, {18, 2}}, attrs = {models = true}, fails = {"shape", "w_hh must be (M*4*H,H) for M models, with H the hidden size; it is (18,2)"}},
  {inputs = {{2, 3, 8}, {4, 1}}, fails = {"shape", "x has 8 values per time step, w_hh has 4 rows: they must be equal"}},
  {inputs = {{3, 8}, {8, 2}}, fails = {"shape", "x must have 3 dims, it has 2"}},
  {inputs = {{2, 3, 8}, {8, 2}, {1, 2, 3}}, fails = {"shape", "h0 must be (1,3,2): directions, sequences, hidden size; it is (1,2,3)"}},
  {inputs = {{2, 3, 8}, {8, 2}, false, {2, 3, 2}}, fails = {"shape", "c0 must be (1,3,2)"}},
  {inputs = {{2, 3, 8}, {8, 2}, false, false, gen.int {2}}, fails = {"shape", "lengths must be (3), one per sequence; it is (2)"}},
  {inputs = {{2, 3, 8}, {8, 2}, false, false, {3}}, fails = {"dtype", "lengths must be i32 or i64, it is f32"}},
  {inputs = {{2, 2, 8}, {8, 2}, false, false, gen.values {2, dtype = "i32", values = {2, 3}}},
    fails = {"value", "lengths[1] is 3, x has 2 time steps", on = {"ref", "cpu"}}},
  {inputs = {gen.int {2, 3, 8}, {8, 2}}, fails = {"dtype", "x must be floating point"}},
}
