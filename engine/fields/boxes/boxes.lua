-- boxes.lua: things in an image: the rectangle around each, its class and how sure the model is of it.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local named = require "fields.named"
local places = require "fields.places"
local symbols = require "fields.symbols"

local boxes = {name = "boxes", meter = "detection", metric = "map_50", is_share = true, field = "boxes",
  rows = named.by_class, moves = "boxes",
  tensor = {dims = 3, dtype = "f32", width = 5, what = "(N,B,5) f32: left, top, right, bottom in px, class"}}

boxes.options = {{"names", "table"}, {"threshold", "number"}, {"overlap", "number"}}

local MOST = 4096
local ROW = 6 -- left, top, right, bottom, class, confidence
local FAR = 1e4 -- a logit that is no class

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

--- How the sheet of samples shows them: the image with those that were read, and with those that were meant.
boxes.sheet = {together = 2}

function boxes.sheet.legend(meter)
  local out = {}
  for class, name in ipairs(meter.names) do out[class] = {name = name, class = class - 1} end
  return out
end

local function rows_of(list)
  local rows = {}
  for i, box in ipairs(list) do rows[i] = {box[1], box[2], box[3], box[4], box[5]} end
  return rows[1] and core.tensor(rows) or nil
end

function boxes.sheet.views(_, e, image)
  return {
    {image = image, boxes = rows_of(e.read), caption = ("read: %d missed, %d too many"):format(e.missed, e.extra)},
    {image = image, boxes = rows_of(e.truth), caption = "meant"},
  }
end

boxes.files = {{name = "boxes", value = "KEYS", list = true, absent = "boxes",
  doc = "boxes: columns \"left top right bottom class\", or a key of JSON"}}

boxes.read = places.reader("boxes", {[1] = true, [4] = true, [5] = true},
  '"left top right bottom" or "left top right bottom class"')

boxes.corners = 4

--- Whether a box of capl data lies in its image; nil: it is not there.
function boxes.inside(x, at, width, height)
  if x[at + 4] < 0 then return nil end
  return x[at] >= 0 and x[at + 1] >= 0 and x[at] <= x[at + 2] and x[at + 1] <= x[at + 3] and x[at + 2] <= width
    and x[at + 3] <= height
end

places.give(boxes)

--- How capl eval reads the truth: columns of a table, or boxes of JSON.
function boxes.truth(_, o) return {boxes = o.boxes or "boxes"} end

--- What capl preview draws over a sample.
function boxes.view(out, value) out.boxes = out.boxes or value end

function boxes.measures(given)
  return {names = given.names, threshold = given.threshold, overlap = given.overlap}
end

function boxes.counted(d) return {names = d.boxes, threshold = d.threshold, overlap = d.overlap} end

local LEAST = 20 -- true boxes that show anything
local TIMES = 5 -- boxes predicted for each true one

-- Of so many boxes.
local function fault_of(meant, found, right)
  if found == 0 then
    return {severity = "error", text = ("no box is predicted, and %d are meant"):format(meant),
      write = "a lower threshold of capl.model shows whether scores rise; check lr, and the weight of boxes in the loss"}
  end
  if right == 0 then
    return {severity = "error", text = ("%d boxes are predicted, and none overlaps one of the %d true ones by an IoU of "
      .. "0.5"):format(found, meant),
      write = "left, top, right, bottom are px of the network's input (capl predict --overlay draws them)"}
  end
  if found > TIMES * meant then
    return {severity = "warn", text = ("%d boxes are predicted where %d are meant"):format(found, meant),
      write = "a higher threshold or a lower overlap of capl.model; more images without boxes"}
  end
end

--- What is wrong with the readings of an evaluation, for capl doctor.
function boxes.faults(e, value)
  local meant, found, right, never = 0, nil, 0, {}
  for _, row in ipairs(value.table(e, "classes")) do
    local n, of_row = value.number(row, "n") or 0, value.number(row, "found")
    meant, found = meant + n, of_row and (found or 0) + of_row or found
    right = right + n * (value.number(row, "recall") or 0)
    if of_row == 0 and n > 0 then never[#never + 1] = ("%s (%d)"):format(value.text(row, "name"), n) end
  end
  if meant < LEAST or not found then return nil, "too few boxes" end
  local faults = {fault_of(meant, found, right)}
  if found > 0 and never[1] then
    faults[#faults + 1] = {severity = "warn", text = "boxes of these classes are never predicted: "
      .. symbols.shown(never, ", "), write = "more images with them, or a lower threshold of capl.model"}
  end
  return faults, ("%d boxes predicted, %d meant"):format(found, meant)
end

--- Numbers that a sample gives a model to learn, by an evaluation, for capl doctor: its boxes' corners and classes.
function boxes.says(e, value)
  local meant = 0
  for _, row in ipairs(value.table(e, "classes")) do meant = meant + (value.number(row, "n") or 0) end
  return 5 * meant / math.max(1, value.number(e, "n") or 1)
end

--- What a DetectionMeter takes, (N,B,4+K), of the outputs of several images: a logit of the class of each box. Rows
-- that are no box of the image have none that counts.
function boxes.measured(outs, d)
  local K, most, rows = #d.boxes, 1, {}
  for _, out in ipairs(outs) do most = math.max(most, #out.values / ROW) end
  for i, out in ipairs(outs) do
    rows[i] = {}
    each(out, function(box, class, confidence)
      for k = 1, K do box[4 + k] = k == class + 1 and math.log(confidence / (1 - confidence)) or -FAR end
      table.insert(rows[i], box)
    end)
    for b = #rows[i] + 1, most do
      rows[i][b] = {0, 0, 0, 0}
      for k = 1, K do rows[i][b][4 + k] = -FAR end
    end
  end
  return core.tensor(rows)
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
