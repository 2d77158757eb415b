-- Cases of kind mask, as tests/lua/kinds_spec.lua reads them.
-- SPDX-License-Identifier: Apache-2.0
local meta = {output = "mask", classes = {"none", "left", "low"}}
-- 2 x 2 cells of an image of 16 x 8: none, none over left, low
local cells = {{{1, 1}, {0, 0}}, {{0, 0}, {1, 0}}, {{0, 0}, {0, 1}}}

return {
  {"gives each pixel the class of its cell", meta = meta, output = cells, width = 4, height = 2,
    gives = {levels = {{0, 0, 0, 0}, {1, 1, 2, 2}}, values = {0.5, 0.25, 0.25}},
    columns = {"0.5000", "0.2500", "0.2500"}, json = {mask = {none = 0.5, left = 0.25, low = 0.25}}},
  {"has the size of the image that is given", meta = meta, output = cells, width = 3, height = 3,
    gives = {levels = {{0, 0, 0}, {1, 2, 2}, {1, 2, 2}}}},
  {"is cut out of the letterbox", meta = {output = "mask", classes = {"none", "left", "low"}, resize = {
    mode = "letterbox", position = "center", fill = {0}}}, output = cells, width = 1, height = 4,
    gives = {levels = {{0}, {0}, {2}, {2}}, values = {0.5, 0, 0.5}}},
  {"reads one logit of two classes", meta = {output = "mask", classes = {"bg", "fg"}}, output = {{{-1, 2}}}, width = 2,
    height = 1, gives = {levels = {{0, 1}}, values = {0.5, 0.5}}},
  {"takes the first of equal scores", meta = meta, output = {{{0}}, {{0}}, {{0}}}, width = 1, height = 1,
    gives = {levels = {{0}}}},
  {"refuses another number of classes than the network's", meta = meta, output = {{{1}}, {{2}}},
    fails = "the graph gives (N,2,1,1), meta.json describes a mask of 3 classes: (N,3,H,W)"},
  {"says that a score is not finite", meta = meta, output = {{{0}}, {{0 / 0}}, {{0}}}, wrong = "is not finite"},
}
