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
}
