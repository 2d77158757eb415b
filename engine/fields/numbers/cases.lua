-- Cases of kind numbers, as tests/lua/kinds_spec.lua reads them.
-- SPDX-License-Identifier: Apache-2.0
local meta = {output = "numbers", numbers = {"pm25", "temp"}, mean = {10, 0}, std = {2, 1}}

return {
  {"come in their units", meta = meta, output = {1.5, -3}, gives = {values = {13, -3}}, columns = {"13", "-3"},
    json = {numbers = {pm25 = 13, temp = -3}}},
  {"are as the network says them without a scale", meta = {output = "numbers", numbers = {"a"}}, output = {7},
    gives = {values = {7}}},
  {"of a network that gives another number are refused", meta = meta, output = {1},
    fails = "the graph gives (N,1), meta.json describes 2 numbers: (N,2)"},
  {"that are none are an error", meta = meta, output = {1, 0 / 0}, wrong = "is not finite"},
  {"that are always the mean are a fault of a run", evaluation = {n = 100, by_number = {{name = "a", r2 = 0.01}, {name = "b",
    r2 = 0.9}}}, finds = {"error", "a is predicted no better than by its mean: R2 0.01"}},
  {"so are those of another scale", evaluation = {n = 100, r2 = -7.5},
    finds = {"error", "the number is predicted worse than by its mean: R2 -7.50"}},
  {"may say little", evaluation = {n = 100, r2 = 0.4}},
  {"are not checked in few samples", evaluation = {n = 10, r2 = 0}, finds = {"skip", "too few numbers"}},
}
