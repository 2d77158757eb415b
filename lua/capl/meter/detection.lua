-- detection.lua: how well a model finds the boxes of things: average precision at an IoU of 0.5, precision and recall.
--
-- A box is right where a true box of its class, which no surer one has taken, overlaps it by an IoU of 0.5 or more.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local kept = require "meter.kept"
local meters = require "meter"
local pending = require "meter.pending"

local OP = "DetectionMeter"
local WORST = 24
local LEAST = 0.5 -- IoU
local TRUE_ROW = 5 -- left, top, right, bottom, class

local Detection = {
  kind = "detection", main = "map_50", better = "max", ways = {precision = "max", recall = "max", iou = "max"},
}
Detection.__index = Detection

local spec = {{"names", "table"}, {"threshold", "number", default = 0.5}, {"overlap", "number", default = 0.5},
  {"loader", "table"}, {"merge", "table"}, {"worst", "whole", default = WORST}}

local function worse(a, b)
  if a.wrong ~= b.wrong then return a.wrong > b.wrong end
  return a.id < b.id
end

--- train.DetectionMeter{…}: a meter for boxes.
-- opts names = of the classes; threshold = 0.5: confidence from which a box counts; overlap = 0.5: of two boxes of a
--      class with a greater IoU the less sure one is left out, as predict does; loader = names its samples; worst = 24
--      images to keep
-- errs value: unknown option, a threshold or overlap beyond 0 to 1
-- eg   capl.train.DetectionMeter{names = {"car", "bus"}}:result().n  --> 0
local function new(opts)
  local o = check.options(OP, spec, opts)
  if o.merge then check.fail(OP, "merge is for texts") end
  for _, key in ipairs{"threshold", "overlap"} do
    if o[key] < 0 or o[key] > 1 then check.fail(OP, ("%s is a number from 0 to 1, got %g"):format(key, o[key])) end
  end
  local self = setmetatable({
    names = o.names or {}, threshold = o.threshold, overlap = o.overlap, loader = o.loader, n = 0, rows = {},
    iou = 0, kept = kept.ends(o.worst, worse),
  }, Detection)
  self.waiting = pending.new(function(columns, ids, notes) self:read_columns(columns, ids, notes) end)
  return self
end

-- ---- boxes ----

local function area(left, top, right, bottom)
  return right > left and bottom > top and (right - left) * (bottom - top) or 0
end

local function iou_of(a, b)
  local both = area(math.max(a[1], b[1]), math.max(a[2], b[2]), math.min(a[3], b[3]), math.min(a[4], b[4]))
  local all = area(a[1], a[2], a[3], a[4]) + area(b[1], b[2], b[3], b[4]) - both
  return all > 0 and both / all or 0
end

-- Of logits: as engine/fields/boxes/boxes.c reads them.
local function best_of(numbers, at, K)
  local best = 1
  for k = 2, K do
    if numbers[at + 4 + k] > numbers[at + 4 + best] then best = k end
  end
  return best - 1, 1 / (1 + math.exp(-numbers[at + 4 + best]))
end

local function surer(a, b)
  if a[6] ~= b[6] then return a[6] > b[6] end
  return a[1] < b[1]
end

-- The surest of those of a class that cover each other.
local function suppressed(list, overlap)
  local out = {}
  table.sort(list, surer)
  for _, box in ipairs(list) do
    local stays = true
    for _, other in ipairs(out) do stays = stays and (other[5] ~= box[5] or iou_of(other, box) <= overlap) end
    if stays then out[#out + 1] = box end
  end
  return out
end

-- Boxes of B rows of 4 + K numbers from place `at` on, the surest first.
local function decoded(self, numbers, at, B, K)
  local list = {}
  for b = 0, B - 1 do
    local first = at + b * (4 + K)
    for k = 1, 4 + K do
      if numbers[first + k] - numbers[first + k] ~= 0 then return nil end
    end
    local class, confidence = best_of(numbers, first, K)
    if confidence >= self.threshold then
      list[#list + 1] = {numbers[first + 1], numbers[first + 2], numbers[first + 3], numbers[first + 4], class,
        confidence}
    end
  end
  return suppressed(list, self.overlap)
end

-- True boxes of so many rows from place `at` on; class -1 is none.
local function meant(numbers, at, rows)
  local out = {}
  for b = 0, rows - 1 do
    local box = {}
    for k = 1, TRUE_ROW do box[k] = numbers[at + b * TRUE_ROW + k] end
    if box[5] >= 0 then out[#out + 1] = box end
  end
  return out
end

-- ---- counting ----

local function add(self, output, batch)
  local truth = meters.field(OP, batch, "boxes")
  local N = truth:size(1)
  if output.ndim ~= 3 or output:size(1) ~= N or output:size(3) < 5 then
    check.fail("train.evaluate", ("the model's output is (%s); it should be (%d,B,4+K): sides in px and a logit of each "
      .. "class"):format(table.concat(output:size(), ","), N))
  end
  local note = {n = N, rows = truth:size(2), B = output:size(2), width = output:size(3)}
  self.waiting:add({output:to("f32"), truth:to("f32")}, batch.ids or N, note)
end

--- Counts a batch; nothing is read from the device before the metrics are asked for.
-- in   output (N,B,4+K): left, top, right, bottom in px and a logit of each class; batch with boxes (N,M,5), class -1 =
--      none
-- errs value: other sizes
function Detection:add(output, batch) return core.no_grad(add, self, output, batch) end

--- The name of a class, from 0.
function Detection:name(class) return self.names[class + 1] or tostring(class) end

local function row_of(self, class)
  self.rows[class] = self.rows[class] or {n = 0, found = {}, right = 0}
  return self.rows[class]
end

-- The free true box of the class that overlaps a box most, and its IoU.
local function match(box, truth, taken)
  local best, most = nil, LEAST
  for i, other in ipairs(truth) do
    local iou = not taken[i] and other[5] == box[5] and iou_of(other, box) or 0
    if iou >= most then best, most = i, iou end
  end
  return best, most
end

--- Counts one image.
-- in   boxes: list of {left, top, right, bottom, class, confidence}, the surest first; truth: list of {left, top,
--      right, bottom, class}; id: of the sample in its source
function Detection:count(boxes, truth, id)
  local taken, right = {}, 0
  for _, box in ipairs(boxes) do
    local i, iou = match(box, truth, taken)
    local row = row_of(self, box[5])
    table.insert(row.found, {confidence = box[6], right = i ~= nil})
    if i then taken[i], right, row.right, self.iou = true, right + 1, row.right + 1, self.iou + iou end
  end
  for _, box in ipairs(truth) do row_of(self, box[5]).n = row_of(self, box[5]).n + 1 end
  self.n = self.n + 1
  self.kept:add{id = id, missed = #truth - right, extra = #boxes - right, wrong = #truth + #boxes - 2 * right,
    read = boxes, truth = truth}
end

function Detection:read_columns(columns, ids, notes)
  local place, at, true_at, note = 0, 0, 0, nil
  local left = 0
  for _, id in ipairs(ids) do
    while left == 0 do
      place = place + 1
      note, left = notes[place], notes[place].n
    end
    local boxes = decoded(self, columns[1], at, note.B, note.width - 4)
    if not boxes then
      core.error{code = "value", op = OP, path = false,
        message = ("the model's output for sample %d is not finite"):format(id)}
    end
    self:count(boxes, meant(columns[2], true_at, note.rows), id)
    at, true_at, left = at + note.B * note.width, true_at + note.rows * TRUE_ROW, left - 1
  end
end

-- ---- metrics ----

-- Area below precision over recall, each precision being the greatest at that recall or a greater one.
local function average_precision(row)
  if row.n == 0 then return nil end
  table.sort(row.found, function(a, b) return a.confidence > b.confidence end)
  local precision, right = {}, 0
  for i, one in ipairs(row.found) do
    right = right + (one.right and 1 or 0)
    precision[i] = right / i
  end
  local sum, most = 0, 0
  for i = #row.found, 1, -1 do
    most = math.max(most, precision[i])
    if row.found[i].right then sum = sum + most / row.n end
  end
  return sum
end

local function share(x, n) return n > 0 and x / n or 0 end

-- List of {class, name, n, found, ap, recall, precision} of the classes that are in truth or reading.
local function by_class(self)
  local out, classes = {}, {}
  for class in pairs(self.rows) do classes[#classes + 1] = class end
  table.sort(classes)
  for i, class in ipairs(classes) do
    local row = self.rows[class]
    out[i] = {class = class, name = self:name(class), n = row.n, found = #row.found, ap = average_precision(row),
      recall = row.n > 0 and row.right / row.n or nil, precision = #row.found > 0 and row.right / #row.found or nil}
  end
  return out
end

--- The metrics.
-- out  role; n: images; boxes: true ones; map_50: mean over the classes of the average precision at an IoU of 0.5, of
--      the boxes from the threshold on; precision, recall: of all of these; iou: mean IoU of those that are right
function Detection:result()
  self.waiting:flush()
  local sum, classes, n, found, right = 0, 0, 0, 0, 0
  for _, row in ipairs(by_class(self)) do
    if row.ap then sum, classes = sum + row.ap, classes + 1 end
  end
  for _, row in pairs(self.rows) do n, found, right = n + row.n, found + #row.found, right + row.right end
  return {role = self.role, n = self.n, boxes = n, map_50 = share(sum, classes), precision = share(right, found),
    recall = share(right, n), iou = share(self.iou, right)}
end

--- "mAP50 71.20 %, precision 80.10 %, recall 75.00 %, IoU 82.30 %, n 100"
function Detection:line()
  local r = self:result()
  return ("mAP50 %.2f %%, precision %.2f %%, recall %.2f %%, IoU %.2f %%, n %d"):format(100 * r.map_50,
    100 * r.precision, 100 * r.recall, 100 * r.iou, r.n)
end

--- List of {name, text}: the metrics, then the average precision of each class.
function Detection:lines()
  local parts, line = {}, self:line()
  for i, row in ipairs(by_class(self)) do parts[i] = ("%s %.1f"):format(row.name, 100 * (row.ap or 0)) end
  return {{"", line}, {"AP50 by class", parts[1] and table.concat(parts, ", ") .. " %" or "none"}}
end

--- {wrong = images with the most boxes missed or in excess: {id, missed, extra, read, truth}, right = those with the
-- fewest}
function Detection:samples()
  self.waiting:flush()
  return self.kept:samples(function(e) return e.wrong == 0 end)
end

--- result() and classes: list of {class, name, n, found, ap, recall, precision}
function Detection:write()
  local out = self:result()
  out.classes = by_class(self)
  return out
end

return {new = new}
