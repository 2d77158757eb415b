-- Cases of kind classes, as tests/lua/kinds_spec.lua reads them.
-- SPDX-License-Identifier: Apache-2.0
local meta = {output = "classes", classes = {"hat", "scarf", "coat"}}

return {
  {"gives all whose sigmoid is at least the threshold, best first", meta = meta, output = {1, -2, 3},
    gives = {text = "coat, hat", confidence = 0.731059 * 0.880797 * 0.952574,
      top = {{name = "coat", probability = 0.952574}, {name = "hat", probability = 0.731059}},
      values = {0.731059, 0.119203, 0.952574}},
    columns = {"coat", "0.9526", "hat", "0.7311"}, json = {classes = {{class = "coat"}, {class = "hat"}}}},
  {"takes the threshold of the file", meta = {output = "classes", classes = {"a", "b"}, threshold = 0.9},
    output = {1, 3}, gives = {text = "b"}},
  {"gives none where none reaches it", meta = meta, output = {-1, -2, -3}, gives = {text = "", top = {}}, columns = {}},
  {"refuses another number of classes than the network's", meta = meta, output = {1, 2}, fails = "any of 3 classes: (N,3)"},
  {"says that a logit is not finite", meta = meta, output = {0, 0 / 0, 0}, wrong = "is not finite"},
  {"that are never predicted are a fault of a run", evaluation = {n = 100, classes = {{name = "hat", n = 30, found = 0},
    {name = "coat", n = 10, found = 0}}}, finds = {"error", "no class is predicted for any of 100 samples; 40 are meant"}},
  {"so is one that always is", evaluation = {n = 100, classes = {{name = "hat", n = 30, found = 95}}},
    finds = {"error", "'hat' is predicted for 95 % of the samples and meant for 30 %"}},
  {"or of which one never is", evaluation = {n = 100, classes = {{name = "hat", n = 30, found = 20},
    {name = "coat", n = 10, found = 0}}}, finds = {"warn", "1 of 2 classes are never predicted: coat (10)"}},
  {"may be many where many are meant", evaluation = {n = 100, classes = {{name = "hat", n = 95, found = 99}}}},
  {"are not checked in few samples", evaluation = {n = 10, classes = {{name = "hat", n = 5, found = 0}}},
    finds = {"skip", "too few samples"}},
}
