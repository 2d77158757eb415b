--- Cases of scaled_dot_product_attention.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local op = "scaled_dot_product_attention"
local cases = {covers = {op .. "_grad"}}
local BECAUSE = "weights and y are rounded to 16 bits before the gradients take their differences"
local function case(c) cases[#cases + 1] = c end
local function add(c)
  c.tolerance, c.because = {bf16 = 6e-2}, BECAUSE
  case(c)
end

local function mask(...) return gen.float {lo = -2, hi = 2, dtype = "f32", diff = false, ...} end
-- Three inputs of batch dims, L, S, E, Ev.
local function qkv(batch, L, S, E, Ev, fourth)
  local function t(rows, columns)
    local spec = {lo = -1.5, hi = 1.5, unpack(batch)}
    spec[#batch + 1], spec[#batch + 2] = rows, columns
    return gen.float(spec)
  end
  return {t(L, E), t(S, E), t(S, Ev or E), fourth}
end

add {inputs = qkv({2, 3}, 4, 5, 6), batch = {1, 2, 3}}
add {name = "one matrix", inputs = qkv({}, 3, 4, 2), batch = false}
add {name = "causal", inputs = qkv({2}, 5, 5, 4), attrs = {is_causal = true}, batch = {1, 2, 3}}
add {name = "causal, fewer keys", inputs = qkv({2}, 6, 3, 4), attrs = {is_causal = true}, batch = {1, 2, 3}}
add {name = "causal, more keys", inputs = qkv({2}, 3, 7, 4), attrs = {is_causal = true}, batch = {1, 2, 3}}
add {name = "a bool mask", inputs = qkv({2, 2}, 3, 4, 3, 3, gen.bool {2, 1, 3, 4}), batch = false}
add {name = "a bool mask of keys", inputs = qkv({2, 2}, 3, 4, 3, 3, gen.bool {2, 1, 1, 4}), batch = false}
add {name = "a floating mask", inputs = qkv({2}, 3, 4, 3, 5, mask(3, 4)), batch = {1, 2, 3}}
add {name = "a floating mask of keys", inputs = qkv({2}, 3, 4, 3, 2, mask(4)), batch = {1, 2, 3}}
add {name = "another scale and size of values", inputs = qkv({2}, 3, 4, 3, 7), attrs = {scale = 0.7}, batch = {1, 2, 3}}
add {name = "dropout", inputs = qkv({2, 2}, 5, 6, 4), attrs = {dropout_p = 0.4, seed = 5000000007, offset = 6000000001},
  batch = {1, 2, 3}}
add {name = "dropout behind a mask", inputs = qkv({2}, 5, 6, 4, 4, gen.bool {2, 5, 6}), attrs = {dropout_p = 0.3, seed = 4},
  batch = false}
add {name = "one key", inputs = qkv({2}, 3, 1, 2), only = {"finite_differences", "meta_shapes"}} -- gradients of q and k are 0, but for rounding
for _, s in ipairs {{1, 40, 70, 32, 32}, {1, 33, 50, 16, 48}, {2, 100, 17, 20, 9}, {1, 5, 600, 8, 8}, {1, 30, 20, 64, 70}} do
  local name = ("%dx%d, %d and %d features"):format(s[2], s[3], s[4], s[5])
  add {name = name, inputs = qkv({s[1]}, s[2], s[3], s[4], s[5]), only = {"against_ref", "twice_the_same"}}
  add {name = name .. ", causal", inputs = qkv({s[1]}, s[2], s[3], s[4], s[5]), attrs = {is_causal = true, dropout_p = 0.1, seed = 3},
    only = {"against_ref"}}
  add {name = name .. ", masked", inputs = qkv({s[1]}, s[2], s[3], s[4], s[5], gen.bool {s[1], 1, s[3]}), only = {"against_ref"}}
end

add {name = "heads of several layouts, by products", inputs = qkv({2, 3}, 40, 36, 16, 24), only = {"against_ref", "any_layout", "twice_the_same"}}

local nan_free = {{0.5, 0.5, 0, 0}}
case {name = "a query without keys gives 0", only = {"expected"},
  inputs = {gen.values {2, 2, values = {1, 1, 1, 1}}, gen.values {2, 2, values = {1, 1, 1, 1}}, gen.values {2, 2, values = {1, 1, 0, 0}},
    gen.values {2, 2, dtype = "bool", values = {1, 1, 0, 0}}}, expect = {nan_free[1], grads = {[3] = {0.5, 0.5, 0.5, 0.5}}}}
case {name = "large scores do not overflow", only = {"expected"},
  inputs = {gen.values {1, 1, values = {1000}}, gen.values {2, 1, values = {1000, -1000}}, gen.values {2, 1, values = {3, 7}}},
  attrs = {scale = 1}, expect = {{3}, {1e6}}}

case {name = "other features", inputs = {{2, 3, 4}, {2, 3, 5}, {2, 3, 4}},
  fails = {"shape", "q is (2,3,4), k is (2,3,5): the last dims must be the same"}}
case {name = "other rows", inputs = {{2, 3, 4}, {2, 5, 4}, {2, 6, 4}},
  fails = {"shape", "k is (2,5,4), v is (2,6,4): they must have equally many rows"}}
case {name = "other batch", inputs = {{2, 3, 4}, {1, 5, 4}, {1, 5, 4}},
  fails = {"shape", "q is (2,3,4), k is (1,5,4): all dims before the last two must be the same"}}
case {name = "a vector", inputs = {{4}, {4}, {4}}, fails = {"shape", "q is (4), (…,length,features) is needed"}}
case {name = "another dtype", inputs = {{3, 4}, gen.float {3, 4, dtype = "bf16"}, {3, 4}}, fails = {"dtype", "q is f32, k is bf16"}}
case {name = "a mask that does not fit", inputs = qkv({2}, 3, 4, 2, 2, gen.bool {3, 3}),
  fails = {"shape", "attn_mask is (3,3), the scores are (2,3,4): every dim must be equal or 1, from the last on"}}
case {name = "a mask of integers", inputs = qkv({2}, 3, 4, 2, 2, gen.int {3, 4}),
  fails = {"dtype", "attn_mask is i32: it is bool (true = takes part) or floating (added to the scores)"}}
case {name = "two masks", inputs = qkv({2}, 3, 4, 2, 2, gen.bool {3, 4}), attrs = {is_causal = true},
  fails = {"value", "is_causal and attn_mask are both given"}}

return cases
