-- Cases of kind series, as tests/lua/kinds_spec.lua reads them.
-- SPDX-License-Identifier: Apache-2.0
local meta = {output = "series", series = {"high", "low"}, steps = 3, mean = {10, 0}, std = {2, 1}}

return {
  {"has the numbers of each step in their units", meta = meta, output = {{0, 1}, {1, 2}, {2, 3}},
    gives = {values = {10, 1, 12, 2, 14, 3}, per_row = 2}, columns = {"10", "1", "12", "2", "14", "3"},
    json = {series = {{high = 10, low = 1}, {high = 12, low = 2}, {high = 14, low = 3}}}},
  {"of another number of steps than the network's is refused", meta = meta, output = {{0, 1}, {1, 2}},
    fails = "the graph gives (N,2,2), meta.json describes 3 steps of 2 numbers: (N,3,2)"},
  {"with what is no number is an error", meta = meta, output = {{0, 1}, {1, 0 / 0}, {2, 3}}, wrong = "is not finite"},
}
