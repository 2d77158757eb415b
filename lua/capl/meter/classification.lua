-- classification.lua: counts how often the right one of several classes has the greatest score.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local interval = require "meter.interval"
local kept = require "meter.kept"
local meters = require "meter"
local pending = require "meter.pending"

local OP = "ClassificationMeter"
local WORST = 24 -- samples that are kept, wrong ones and right ones
local SAMPLES = 4 -- of each pair of classes
local TOP = 5
local MATRIX = 128 -- classes that the confusion matrix has all of
local CONFUSED = 40 -- and the most confused ones of more, beside OTHER
local OTHER = "other"

local Classification = {
  kind = "classification", main = "accuracy", better = "max",
  ways = {top5 = "max", balanced_accuracy = "max"}, -- in which other metrics are better
}
Classification.__index = Classification

local spec = {{"classes", "whole", "table"}, {"loader", "table"}, {"merge", "table"},
  {"worst", "whole", default = WORST}}

-- How many classes there are, and their names.
local function classes_of(o)
  local given = o.classes or o.loader and o.loader.class_names
  if type(given) == "table" then return #given, given end
  return given, {}
end

-- Surer ones are worse.
local function worse(a, b)
  if a.confidence ~= b.confidence then return a.confidence > b.confidence end
  return a.id < b.id
end

--- train.ClassificationMeter{…}: a meter for one class of several.
-- opts classes = list of their names, or how many (those of the loader's labels, else as many as the output has);
--      loader = names its samples; worst = 24 samples to keep
-- errs value: unknown option
-- eg   capl.train.ClassificationMeter{classes = {"cat", "dog"}}:result().n  --> 0
local function new(opts)
  local o = check.options(OP, spec, opts)
  if o.merge then check.fail(OP, "merge is for texts") end
  local K, names = classes_of(o)
  local self = setmetatable({
    K = K, names = names, loader = o.loader, n = 0, right = 0, near = 0, confidence = 0,
    meant = {}, read = {}, hits = {}, pairs = {}, kept = kept.new(o.worst, worse),
  }, Classification)
  self.waiting = pending.new(function(columns, ids) self:read_columns(columns, ids) end)
  return self
end

--- Another meter for the same classes, which has counted nothing. worst: samples that it keeps
function Classification:fresh(worst)
  return new{classes = self.names[1] and self.names or self.K, worst = worst}
end

-- ---- counting ----

local function check_sizes(self, output, N)
  self.K = self.K or output:size(2)
  if output.ndim == 2 and output:size(1) == N and output:size(2) == self.K then return end
  check.fail("train.evaluate", ("the model's output is (%s); it should be (%d,%d): a score of each of %d classes"):format(
    table.concat(output:size(), ","), N, self.K, self.K))
end

local function add(self, output, batch)
  local target = meters.field(OP, batch, "target")
  local N = target:size(1)
  check_sizes(self, output, N)
  local scores = output:to("f32")
  local own = target:reshape(N, 1):to("i32")
  local probability, class = scores:softmax(-1):max(-1)
  local within = own:to("f32"):clamp(0, self.K - 1):to("i32") -- a label that is none is found out when it is read
  local before = scores:gt(scores:gather(2, within)):to("f32"):sum(2) -- classes with a greater score than the right one
  self.waiting:add({class, own, probability, before}, batch.ids or N)
end

--- Counts a batch; nothing is read from the device before the metrics are asked for.
-- in   output (N,K): scores of K classes; batch with target (N) or (N,1), from 0
-- errs value: other sizes
function Classification:add(output, batch) return core.no_grad(add, self, output, batch) end

--- The name of a class, from 0.
function Classification:name(class) return self.names[class + 1] or tostring(class) end

--- The number of the class of a name, from 0; nil: there is none.
function Classification:class_of(name)
  if not self.by_name then
    self.by_name = {}
    for i, one in ipairs(self.names) do self.by_name[one] = i - 1 end
  end
  return self.by_name[name]
end

local function name_of(self, id)
  local source = self.loader and self.loader.source
  return source and source.name and source:name(id) or ("sample %d"):format(id)
end

local function check_one(self, class, target, probability, id)
  if probability ~= probability then
    core.error{code = "value", op = OP, path = false,
      message = ("the model's output for %s is not finite"):format(name_of(self, id)),
      hint = "check the weights for a step with an infinite gradient, or use a lower lr"}
  end
  if target >= 0 and target < self.K then return end
  check.fail(OP, ("the label of %s is class %d; the model has %d classes, 0 to %d"):format(name_of(self, id), target,
    self.K, self.K - 1), "labels are counted from 0")
end

local function confuse(self, target, class, id)
  local key = target * self.K + class
  local pair = self.pairs[key] or {truth = self:name(target), read = self:name(class), count = 0, samples = {},
    classes = {target, class}}
  self.pairs[key], pair.count = pair, pair.count + 1
  if #pair.samples < SAMPLES then table.insert(pair.samples, {id = id}) end
end

local function count(list, key) list[key] = (list[key] or 0) + 1 end

--- Counts one sample.
-- in   class, target: numbers from 0; confidence: probability of class; id: of the sample in its source; before: how
--      many classes have a greater score than the right one
function Classification:count(class, target, confidence, id, before)
  check_one(self, class, target, confidence, id)
  local entry = {id = id, truth = self:name(target), read = self:name(class), confidence = confidence}
  self.n, self.confidence = self.n + 1, self.confidence + confidence
  count(self.meant, target)
  count(self.read, class)
  if before < TOP then self.near = self.near + 1 end
  if class ~= target then
    confuse(self, target, class, id)
    return self.kept:wrong(entry)
  end
  self.right = self.right + 1
  count(self.hits, target)
  self.kept:right(entry)
end

-- columns: class read, class meant, probability, classes before the right one
function Classification:read_columns(columns, ids)
  for i, id in ipairs(ids) do self:count(columns[1][i], columns[2][i], columns[3][i], id, columns[4][i]) end
end

-- ---- metrics ----

-- List of {class, name, n, recall, precision} of the classes that are in truth or reading.
local function by_class(self)
  local out = {}
  for class = 0, (self.K or 0) - 1 do
    local meant, read, hits = self.meant[class] or 0, self.read[class] or 0, self.hits[class] or 0
    if meant + read > 0 then
      out[#out + 1] = {class = class, name = self:name(class), n = meant, recall = meant > 0 and hits / meant or nil,
        precision = read > 0 and hits / read or nil}
    end
  end
  return out
end

-- Mean recall of the classes that there are: every class counts alike, however many samples it has.
local function balanced(rows)
  local sum, n = 0, 0
  for _, row in ipairs(rows) do
    if row.recall then sum, n = sum + row.recall, n + 1 end
  end
  return n > 0 and sum / n or 0
end

--- The most frequent confusions, at most `most`: list of {truth=, read=, count=}.
function Classification:confusions(most)
  self.waiting:flush()
  local all = {}
  for _, pair in pairs(self.pairs) do all[#all + 1] = pair end
  table.sort(all, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.truth .. "\0" .. a.read < b.truth .. "\0" .. b.read
  end)
  local out = {}
  for i = 1, math.min(most, #all) do out[i] = all[i] end
  return out
end

--- The metrics.
-- out  role; n: samples; accuracy, low, high: share whose greatest score is that of the right class, and its 95 %
--      interval; top5, top5_low, top5_high: share where it is among the five greatest (absent with five classes or
--      fewer); balanced_accuracy: mean recall of the classes; confidence: mean; confusions: the ten most frequent
function Classification:result()
  self.waiting:flush()
  local accuracy, low, high = interval.share(self.right, self.n)
  local top5, top5_low, top5_high
  if (self.K or 0) > TOP then top5, top5_low, top5_high = interval.share(self.near, self.n) end
  local confusions = {}
  for i, c in ipairs(self:confusions(10)) do confusions[i] = {truth = c.truth, read = c.read, count = c.count} end
  return {
    role = self.role, n = self.n, accuracy = accuracy, low = low, high = high,
    top5 = top5, top5_low = top5_low, top5_high = top5_high, balanced_accuracy = balanced(by_class(self)),
    confidence = self.n > 0 and self.confidence / self.n or nil, confusions = confusions,
  }
end

--- "accuracy 96.13 % [95.73, 96.49], top-5 99.20 % [99.01, 99.36], n 10000"
function Classification:line()
  local r = self:result()
  local top = r.top5
    and (", top-5 %.2f %% [%.2f, %.2f]"):format(100 * r.top5, 100 * r.top5_low, 100 * r.top5_high) or ""
  return ("accuracy %.2f %% [%.2f, %.2f]%s, n %d"):format(100 * r.accuracy, 100 * r.low, 100 * r.high, top, r.n)
end

-- The ten classes that are recalled worst: "cat 71.2, dog 80.0"
local function worst_line(rows)
  local known, parts = {}, {}
  for _, row in ipairs(rows) do
    if row.recall then known[#known + 1] = row end
  end
  table.sort(known, function(a, b)
    if a.recall ~= b.recall then return a.recall < b.recall end
    return a.class < b.class
  end)
  for i = 1, math.min(10, #known) do parts[i] = ("%s %.1f"):format(known[i].name, 100 * known[i].recall) end
  return parts[1] and table.concat(parts, ", ") .. " %" or "none"
end

local function confusion_line(list)
  local parts = {}
  for i, c in ipairs(list) do parts[i] = ("%s as %s %d"):format(c.truth, c.read, c.count) end
  return parts[1] and table.concat(parts, ", ") or "none"
end

--- List of {name, text}.
function Classification:lines()
  local r, rows = self:result(), by_class(self)
  return {
    {"", self:line()}, {"by class", ("mean recall %.2f %%"):format(100 * r.balanced_accuracy)},
    {"worst classes", worst_line(rows)}, {"mistakes", confusion_line(r.confusions)},
  }
end

-- ---- for files ----

--- Samples for a sheet: {wrong = worst first, right = from all over the set}, each {id, truth, read, confidence}.
function Classification:samples()
  self.waiting:flush()
  return self.kept:samples()
end

--- What stands below a sample's picture, and what should: names as they are.
function Classification.caption(entry) return entry.read, entry.truth end

--- Pairs of classes with a few samples of each, most frequent first: list of {truth, read, count, samples = {{id}, …}}.
function Classification:pairs_with_samples(most) return self:confusions(most) end

-- Class -> its row of the matrix, and the labels of the rows; all classes, or those of the most frequent confusions.
local function rows_of(self)
  local row, labels = {}, {}
  local function give_row(class)
    if row[class] or #labels == CONFUSED and self.K > MATRIX then return end
    labels[#labels + 1] = self:name(class)
    row[class] = #labels
  end
  if self.K <= MATRIX then
    for class = 0, self.K - 1 do give_row(class) end
    return row, labels
  end
  for _, pair in ipairs(self:confusions(CONFUSED)) do
    give_row(pair.classes[1])
    give_row(pair.classes[2])
  end
  labels[#labels + 1] = OTHER
  return row, labels
end

-- Rows: meant; columns: read. Of others, only what was read right is in their own cell.
local function matrix(self)
  local row, labels = rows_of(self)
  local counts = {}
  for i = 1, #labels do
    counts[i] = {}
    for k = 1, #labels do counts[i][k] = 0 end
  end
  for class, n in pairs(self.hits) do
    local i = row[class] or #labels
    counts[i][i] = counts[i][i] + n
  end
  for _, pair in pairs(self.pairs) do
    local i, k = row[pair.classes[1]] or #labels, row[pair.classes[2]] or #labels
    if i ~= k then counts[i][k] = counts[i][k] + pair.count end
  end
  return {labels = labels, counts = counts}
end

--- result(), classes: list of {class, name, n, recall, precision}, confusion = {labels, counts}: rows are what was
-- meant, columns what was read; of more than 128 classes the 40 that are confused most, and "other" for the rest, whose
-- confusions with one another are not in it; nothing where all were read right
function Classification:write()
  local out = self:result()
  out.classes = by_class(self)
  if self.K and (self.K <= MATRIX or next(self.pairs)) then out.confusion = matrix(self) end
  return out
end

return {new = new}
