-- mask.lua: a class for each pixel of an image.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local named = require "fields.named"
local symbols = require "fields.symbols"

local mask = {name = "mask", meter = "segmentation", metric = "miou", is_share = true, field = "mask",
  confused = {"class", "pixels"}}

mask.options = {{"names", "table"}}

local MOST = 256

function mask.check(op, given)
  if given.names == nil then return end -- the source's
  named.check(op, given, "mask", "classes of a mask", MOST)
end

function mask.facts(given, loader)
  local names = given.names or loader.source and loader.source.mask_classes
  return type(names) == "table" and {classes = names} or nil
end

function mask.reads(d) return ("a mask of %d classes: %s"):format(#d.classes, symbols.shown(d.classes, ", ")) end

function mask.columns(out) return named.formatted(out.values, "%.4f") end

function mask.json(out, _, d)
  local shares = {}
  for i, name in ipairs(d.classes) do shares[name] = out.values[i] end
  return {mask = shares}
end

--- The mask as an image file has it: u8 (1,H,W), the class of each pixel.
function mask.picture(out) return out.levels:unsqueeze(1) end

function mask.draw(overlay, picture, out) return overlay.mask(picture, out.levels) end

mask.files = {{name = "mask", value = "ENDING",
  doc = "masks: ending of the files beside the images (_mask.png), or the column of a list"}}

--- How capl eval reads the truth: masks beside the images.
function mask.truth(d, o) return {mask = o.mask or {file = "_mask.png", classes = d.classes}} end

function mask.counted(d) return {classes = d.classes} end

--- What a SegmentationMeter takes, (N,K,H,W), of the outputs of several images: 1 for the class of each pixel.
function mask.measured(outs, d)
  local images, classes = {}, {}
  for i, out in ipairs(outs) do images[i] = out.levels:unsqueeze(1) end
  local levels = core.op.concat(images, {dim = 1}):unsqueeze(2):to("f32")
  for k = 1, #d.classes do classes[k] = levels:eq(k - 1):to("f32") end
  return core.op.concat(classes, {dim = 2})
end

return mask
