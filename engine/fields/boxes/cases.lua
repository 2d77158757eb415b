-- Cases of kind boxes, as tests/lua/kinds_spec.lua reads them.
-- SPDX-License-Identifier: Apache-2.0
local meta = {output = "boxes", boxes = {"car", "bus"}}

return {
  {"above the threshold come best first, in px of the image that is given", meta = meta,
    output = {{0, 0, 4, 4, 1, 0}, {8, 2, 12, 6, -5, 2}, {0, 0, 16, 8, -1, -2}}, width = 32, height = 8,
    gives = {values = {16, 2, 24, 6, 1, 0.880797, 0, 0, 8, 4, 0, 0.731059}, per_row = 6},
    columns = {"bus", "16.0", "2.0", "24.0", "6.0", "0.8808", "car", "0.0", "0.0", "8.0", "4.0", "0.7311"},
    json = {boxes = {{class = "bus", box = {16, 2, 24, 6}}, {class = "car"}}}},
  {"are within the letterbox", meta = {output = "boxes", boxes = {"car"}, resize = {mode = "letterbox",
    position = "center", fill = {0}}}, output = {{4, 2, 12, 8, 2}}, width = 16, height = 4,
    gives = {values = {4, 0, 12, 6, 0, 0.880797}}},
  {"of one class that cover each other are one: the surer", meta = meta,
    output = {{0, 0, 4, 4, 1, 0}, {0, 0, 4, 3, 2, 0}, {0, 0, 4, 4, 0, 1}},
    gives = {values = {0, 0, 4, 3, 0, 0.880797, 0, 0, 4, 4, 1, 0.731059}}},
  {"stay where overlap allows it", meta = {output = "boxes", boxes = {"car"}, overlap = 0.8},
    output = {{0, 0, 4, 4, 1}, {0, 0, 4, 3, 2}}, gives = {values = {0, 0, 4, 3, 0, 0.880797, 0, 0, 4, 4, 0, 0.731059}}},
  {"may be none", meta = meta, output = {{0, 0, 1, 1, -1, -1}}, gives = {values = {}}, columns = {}},
  {"of a network with another number of classes are refused", meta = meta, output = {{0, 0, 1, 1, 1}},
    fails = "meta.json describes boxes of 2 classes: (N,B,6)"},
  {"that are no numbers are an error", meta = meta, output = {{0, 0, 0 / 0, 1, 1, 1}}, wrong = "is not finite"},
}
