-- Cases of kind points, as tests/lua/kinds_spec.lua reads them.
-- SPDX-License-Identifier: Apache-2.0
local two = {output = "points", points = {"gap", "piece"}}
local heat = {output = "points", points = {"nose"}, decoding = "heatmap"}
-- 2 x 4 cells of an image of 16 x 8: the greatest is at the right of the second row
local map = {{0, 0, 0, 0}, {0, 0, 0, 2}}

return {
  {"are px of the image that is given", meta = two, output = {{4, 2}, {8, 6}}, width = 32, height = 4,
    gives = {values = {8, 1, 1, 16, 3, 1}, per_row = 3}, columns = {"8.00", "1.00", "16.00", "3.00"},
    json = {points = {gap = {8, 1}, piece = {16, 3}}}},
  {"are within the letterbox", meta = {output = "points", points = {"gap", "piece"}, resize = {mode = "letterbox",
    position = "center", fill = {9}}}, output = {{6, 2}, {8, 6}}, width = 8, height = 16,
    gives = {values = {0, 4, 1, 4, 12, 1}}},
  {"are within the letterbox at the top left", meta = {output = "points", points = {"gap", "piece"}, resize = {
    mode = "letterbox", position = "top-left", fill = {9}}}, output = {{6, 2}, {8, 6}}, width = 32, height = 8,
    gives = {values = {12, 4, 1, 16, 12, 1}}},
  {"may stand in one row", meta = two, output = {4, 2, 8, 6}, gives = {values = {4, 2, 1, 8, 6, 1}}},
  {"say whether they are visible", meta = two, output = {{4, 2, 0}, {8, 6, 2}},
    gives = {values = {4, 2, 0.5, 8, 6, 0.880797}}, json = {visible = {gap = 0.5, piece = 0.880797}}},
  {"are the middle of the best cell of a heat map", meta = heat, output = {map},
    gives = {values = {14, 6, 0.880797}}},
  {"are where the offsets of the cell say", meta = heat,
    output = {map, {{0, 0, 0, 0}, {0, 0, 0, 0.25}}, {{0, 0, 0, 0}, {0, 0, 0, 1}}},
    gives = {values = {13, 8, 0.880797}}},
  {"of a network that gives another number are refused", meta = two, output = {{4, 2}},
    fails = "the graph gives (N,1,2), meta.json describes 2 points: (N,2,2), or (N,2,3) with the logit of being"},
  {"that are no numbers are an error", meta = two, output = {{4, 2}, {0 / 0, 6}}, wrong = "is not finite"},
  {"that are always in the middle are a fault of a run", evaluation = {by_point = {{name = "gap", n = 90, rmse = 39,
    spread = 40}, {name = "piece", n = 90, rmse = 2, spread = 40}}},
    finds = {"error", "gap is predicted no better than by its mean place: RMSE 39.0 px, and its places are 40.0 px around"}},
  {"may be far off", evaluation = {by_point = {{name = "gap", n = 90, rmse = 30, spread = 40}}}},
  {"are not checked in few images", evaluation = {by_point = {{name = "gap", n = 9, rmse = 39, spread = 40}}},
    finds = {"skip", "too few points"}},
}
