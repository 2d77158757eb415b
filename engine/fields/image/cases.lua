-- Cases of kind image, as tests/lua/kinds_spec.lua reads them.
-- SPDX-License-Identifier: Apache-2.0
return {
  {"has levels of its 0 to 1, cut beyond", meta = {output = "image", image = 1}, output = {{{0, 0.5}, {1, 1.5}}},
    gives = {levels = {{0, 128}, {255, 255}}}, columns = {"2", "2"}, json = {image = {width = 2, height = 2}}},
  {"takes mean and std back", meta = {output = "image", image = 1, mean = {0.5}, std = {0.25}},
    output = {{{-2, 0, 2}}}, gives = {levels = {{0, 128, 255}}}},
  {"has three channels", meta = {output = "image", image = 3}, output = {{{1}}, {{0}}, {{0.2}}},
    gives = {levels = {{{255, 0, 51}}}}},
  {"of another number of channels than the network's is refused", meta = {output = "image", image = 3},
    output = {{{1}}}, fails = "the graph gives (N,1,1,1), meta.json describes an image of 3 channels: (N,3,H,W)"},
  {"with what is no number is an error", meta = {output = "image", image = 1}, output = {{{0 / 0}}},
    wrong = "is not finite"},
}
