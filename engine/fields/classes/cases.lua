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
}
