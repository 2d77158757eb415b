-- augment: how training images are changed, and when.
--
-- An augmentation is a table of ops, for data.loader{augment = …} and the stages of a schedule:
--
--     rotate, shear     degrees            translate_x, translate_y  shares of width and height
--     scale             factor             crop          share of the area that is kept, aspect = {3/4, 4/3}
--     flip, flip_vertical, invert          probabilities
--     perspective       how far corners move inwards, share of half the size     elastic   px
--     brightness, contrast, saturation, gamma  factors     hue   share of a full turn
--     noise             deviation in levels of 255         blur  deviation in px, size = 3 | 5 | 7
--     erase             share of the area, value = 0       mixup, cutmix = {alpha =, p =}
--     fill = level      outside the image (else its nearest edge); mask_fill = class there
--     flip_swaps = {{4, 5}}, flip_points = {{0, 1}}: classes and points that a flip exchanges (those that the source
--                       declares, as data.faces does, need not be said again; a flip without any is refused); flip_text
--                       = true
--
-- Ranges are {lo, hi}, with p = probability and coin = 1 … 15 (ops with the same coin are applied together). One number
-- m is
-- -m … m for what is added, 1-m … 1+m for factors, 0 … m for noise, m … 1 for crop, m itself for perspective, elastic,
-- blur and erase. Everything is drawn per sample, from streams of (seed, epoch, sample). Order: gamma, blur; geometry;
-- colours; noise; mixing; erase. engine/data/augment.h says what they do to the bit.
-- SPDX-License-Identifier: Apache-2.0
local presets = require "augment.presets"

local augment = {}

--- augment.schedule{{…}, {from = {epoch = 3}, …}}: stages of a run. See lua/capl/augment/schedule.lua.
augment.schedule = require("augment.schedule").new
--- augment.preset(name[, changes]) -> a table of ops: "minimal", "default", "strong", "ultra", "ultra_cpu", "cutmix",
-- "captcha", "captcha_strong".
augment.preset = presets.preset
--- augment.presets: their names
augment.presets = presets.names
--- augment.mixed(loss, batch) -> the loss of a batch whose samples may be mixed: mix * loss(target) + (1 - mix) *
-- loss(target2).
augment.mixed = presets.mixed

return require("missing").watch("augment", augment)
