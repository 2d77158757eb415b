-- boxes.lua: things in an image: the rectangle around each, its class and how sure the model is of it.
-- SPDX-License-Identifier: Apache-2.0
local named = require "fields.named"
local symbols = require "fields.symbols"

local boxes = {name = "boxes"}

boxes.options = {{"names", "table"}, {"threshold", "number"}, {"overlap", "number"}}

local MOST = 4096
local ROW = 6 -- left, top, right, bottom, class, confidence

function boxes.check(op, given)
  named.check(op, given, "boxes", "classes of its boxes", MOST)
  named.check_share(op, given, "threshold")
  named.check_share(op, given, "overlap")
end

function boxes.facts(given) return {boxes = given.names, threshold = given.threshold, overlap = given.overlap} end

function boxes.reads(d) return ("boxes of %d classes: %s"):format(#d.boxes, symbols.shown(d.boxes, ", ")) end

-- fn({left, top, right, bottom}, class from 0, confidence) of each box.
local function each(out, fn)
  local v = out.values
  for i = 1, #v, ROW do fn({v[i], v[i + 1], v[i + 2], v[i + 3]}, v[i + 4], v[i + 5]) end
end

function boxes.columns(out, _, d)
  local list = {}
  each(out, function(box, class, confidence)
    list[#list + 1] = d.boxes[class + 1]
    for _, px in ipairs(box) do list[#list + 1] = ("%.1f"):format(px) end
    list[#list + 1] = ("%.4f"):format(confidence)
  end)
  return list
end

function boxes.json(out, _, d)
  local list = {}
  each(out, function(box, class, confidence)
    list[#list + 1] = {class = d.boxes[class + 1], box = box, confidence = confidence}
  end)
  return {boxes = list}
end

function boxes.draw(overlay, picture, out, d)
  local list = {}
  each(out, function(box, class)
    box.name, box.class = d.boxes[class + 1], class
    list[#list + 1] = box
  end)
  return overlay.boxes(picture, list)
end

return boxes
