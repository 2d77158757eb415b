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
  {"that are never predicted are a fault of a run", evaluation = {classes = {{name = "car", n = 35, found = 0, recall = 0}}},
    finds = {"error", "no box is predicted, and 35 are meant"}},
  {"so are those that hit nothing", evaluation = {classes = {{name = "car", n = 30, found = 40, recall = 0}}},
    finds = {"error", "40 boxes are predicted, and none overlaps one of the 30 true ones"}},
  {"or that are far too many", evaluation = {classes = {{name = "car", n = 30, found = 400, recall = 0.9}}},
    finds = {"warn", "400 boxes are predicted where 30 are meant"}},
  {"or of which a class is missing", evaluation = {classes = {{name = "car", n = 30, found = 40, recall = 0.9},
    {name = "bus", n = 5, found = 0, recall = 0}}}, finds = {"warn", "these classes are never predicted: bus (5)"}},
  {"may be some too many", evaluation = {classes = {{name = "car", n = 30, found = 60, recall = 0.9}}}},
  {"of an older evaluation are not checked", evaluation = {classes = {{name = "car", n = 99}}}, finds = {"skip", "too few boxes"}},
}
