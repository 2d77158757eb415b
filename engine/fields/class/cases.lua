-- Cases of kind class, as tests/lua/kinds_spec.lua reads them.
-- SPDX-License-Identifier: Apache-2.0
local meta = {output = "class", classes = {"cat", "两 dogs", "é"}}

return {
  {"gives the most probable ones, best first", meta = meta, output = {0, 2, 1},
    gives = {text = "两 dogs", confidence = 0.66524, top = {{class = 1, name = "两 dogs", probability = 0.66524},
      {class = 2}, {class = 0}}}, columns = {"两 dogs", "0.6652"}, json = {class = "两 dogs"}},
  {"takes the first of equal scores", meta = meta, output = {1, 1, 1}, gives = {text = "cat", confidence = 1 / 3}},
  {"refuses another number of classes than the network's", meta = meta, output = {1, 2},
    fails = "the graph gives (N,2), meta.json describes one of 3 classes: (N,3)"},
  {"says that a score is not finite", meta = meta, output = {0, 1 / 0, 0}, wrong = "is not finite"},
}
