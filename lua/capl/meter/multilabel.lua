-- multilabel.lua: how well a model finds all the classes of each sample: average precision, F1 and exact sets.
--
-- Average precision comes from counts of logits a 256th apart, so that its memory does not grow with the samples.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local interval = require "meter.interval"
local kept = require "meter.kept"
local meters = require "meter"
local pending = require "meter.pending"

local OP = "MultilabelMeter"
local WORST = 24 -- samples that are kept, wrong ones and right ones
local STEP, MOST = 1 / 256, 40 -- logits that count as one; beyond MOST they are all alike

local Multilabel = {
  kind = "multilabel", main = "map", better = "max", ways = {f1 = "max", f1_micro = "max", exact_match = "max"},
}
Multilabel.__index = Multilabel

local spec = {{"classes", "whole", "table"}, {"threshold", "number", default = 0.5}, {"field", "string"},
  {"loader", "table"}, {"merge", "table"}, {"worst", "whole", default = WORST}}

local function worse(a, b)
  if a.confidence ~= b.confidence then return a.confidence > b.confidence end
  return a.id < b.id
end

-- Names of the classes: those given, or of the loader; of a number of classes none.
local function names_of(o)
  local given = o.classes or o.loader and o.loader.class_names
  return type(given) == "table" and given or {}, type(given) == "table" and #given or given
end

--- train.MultilabelMeter{…}: a meter for several classes of each sample.
-- opts classes = list of their names, or how many (those of the loader's labels, else as many as the output has);
--      threshold = 0.5: probability from which a sample has a class; field = name of a batch's tensor (N,K) of 0 and 1
--      (batch.onehot of labels); loader = names its samples; worst = 24 samples to keep
-- errs value: unknown option, a threshold beyond 0 to 1
-- eg   capl.train.MultilabelMeter{classes = {"hat", "coat"}}:result().n  --> 0
local function new(opts)
  local o = check.options(OP, spec, opts)
  if o.merge then check.fail(OP, "merge is for texts") end
  if o.threshold < 0 or o.threshold > 1 then
    check.fail(OP, ("threshold is a probability from 0 to 1, got %g"):format(o.threshold))
  end
  local names, K = names_of(o)
  local self = setmetatable({
    names = names, K = K, loader = o.loader, field = o.field, n = 0, right = 0, rows = {},
    least = math.log(o.threshold / (1 - o.threshold)), kept = kept.new(o.worst, worse),
  }, Multilabel)
  self.waiting = pending.new(function(columns, ids, notes)
    self.K = notes[1].K
    self:read_columns(columns, ids)
  end)
  return self
end

-- ---- counting ----

local function add(self, output, batch)
  local truth = meters.field(OP, batch, self.field or "onehot", 'field = "NAME" names a tensor (N,K) of 0 and 1')
  local N, K = truth:size(1), truth:numel() / truth:size(1)
  if output:size(1) ~= N or output:numel() ~= truth:numel() or self.K and self.K ~= K then
    check.fail("train.evaluate", ("the model's output is (%s); it should be (%d,%d): a logit of each of %d classes")
      :format(table.concat(output:size(), ","), N, self.K or K, self.K or K))
  end
  self.waiting:add({output:to("f32"), truth:to("f32")}, batch.ids or N, {K = K})
end

--- Counts a batch; nothing is read from the device before the metrics are asked for.
-- in   output (N,K): logits of K classes; batch with onehot (N,K), or the field of the options: 1 = it has the class
-- errs value: other sizes
function Multilabel:add(output, batch) return core.no_grad(add, self, output, batch) end

--- The name of a class, from 0.
function Multilabel:name(class) return self.names[class + 1] or tostring(class) end

-- What is counted of a class.
local function row_of(self, k)
  local row = self.rows[k]
  if not row then
    row = {yes = {}, no = {}, n = 0, found = 0, both = 0}
    self.rows[k] = row
  end
  return row
end

-- Counts one class of a sample -> whether it was found.
local function count_class(self, row, logit, is_there)
  local found, place = logit >= self.least, math.floor(math.max(-MOST, math.min(MOST, logit)) / STEP + 0.5)
  local list = is_there and row.yes or row.no
  list[place] = (list[place] or 0) + 1
  if is_there then row.n = row.n + 1 end
  if found then row.found = row.found + 1 end
  if found and is_there then row.both = row.both + 1 end
  return found
end

local function check_logit(self, logit, id)
  if logit == logit then return end
  local source = self.loader and self.loader.source
  core.error{code = "value", op = OP, path = false, message = ("the model's output for %s is not finite"):format(
    source and source.name and source:name(id) or ("sample %d"):format(id)),
    hint = "check the weights for a step with an infinite gradient, or use a lower lr"}
end

--- Counts one sample.
-- in   logits: list of K; is_there(k): whether it has class k, from 1; id: of the sample in its source
-- out  whether exactly its classes were found
function Multilabel:count(logits, is_there, id)
  local truth, read, is_right, confidence = {}, {}, true, 1
  for k, logit in ipairs(logits) do
    check_logit(self, logit, id)
    local there = is_there(k)
    local found = count_class(self, row_of(self, k), logit, there)
    if there then truth[#truth + 1] = self:name(k - 1) end
    if found then read[#read + 1] = self:name(k - 1) end
    is_right, confidence = is_right and found == there, confidence / (1 + math.exp(found and -logit or logit))
  end
  self.n, self.right = self.n + 1, self.right + (is_right and 1 or 0)
  local entry = {id = id, truth = table.concat(truth, ", "), read = table.concat(read, ", "), confidence = confidence}
  if is_right then self.kept:right(entry) else self.kept:wrong(entry) end
  return is_right
end

function Multilabel:read_columns(columns, ids)
  for i, id in ipairs(ids) do
    local first, logits = (i - 1) * self.K, {}
    for k = 1, self.K do logits[k] = columns[1][first + k] end
    self:count(logits, function(k) return columns[2][first + k] > 0.5 end, id)
  end
end

-- ---- metrics ----

-- Places of both counts, the greatest first.
local function places_of(row)
  local out, seen = {}, {}
  for _, list in ipairs{row.yes, row.no} do
    for place in pairs(list) do
      if not seen[place] then seen[place], out[#out + 1] = true, place end
    end
  end
  table.sort(out, function(a, b) return a > b end)
  return out
end

-- Sum over thresholds of precision times what recall gains; nil where no sample has the class.
local function average_precision(row)
  if row.n == 0 then return nil end
  local sum, found, both = 0, 0, 0
  for _, place in ipairs(places_of(row)) do
    local yes = row.yes[place] or 0
    found, both = found + yes + (row.no[place] or 0), both + yes
    sum = sum + yes / row.n * both / found
  end
  return sum
end

local function f1_of(both, found, n) return found + n > 0 and 2 * both / (found + n) or nil end

-- List of {class, name, n, found, ap, f1, recall, precision} of the classes that are in truth or reading.
local function by_class(self)
  local out = {}
  for k = 1, #self.rows do
    local row = self.rows[k]
    if row.n + row.found > 0 then
      out[#out + 1] = {class = k - 1, name = self:name(k - 1), n = row.n, found = row.found,
        ap = average_precision(row), f1 = f1_of(row.both, row.found, row.n),
        recall = row.n > 0 and row.both / row.n or nil, precision = row.found > 0 and row.both / row.found or nil}
    end
  end
  return out
end

local function mean_of(rows, key)
  local sum, n = 0, 0
  for _, row in ipairs(rows) do
    if row[key] then sum, n = sum + row[key], n + 1 end
  end
  return n > 0 and sum / n or 0
end

-- F1 of all classes together.
local function micro(self)
  local both, found, n = 0, 0, 0
  for _, row in ipairs(self.rows) do both, found, n = both + row.both, found + row.found, n + row.n end
  return f1_of(both, found, n) or 0
end

local function with_share(self, out)
  out.exact_match, out.exact_match_low, out.exact_match_high = interval.share(self.right, self.n)
  return out
end

--- The metrics.
-- out  role; n: samples; map: mean of the average precision of the classes that some sample has; f1: mean of F1 over
--      the classes in truth or reading; f1_micro: F1 of all classes together; exact_match, exact_match_low,
--      exact_match_high: share of samples of which exactly the classes were found, and its 95 % interval
function Multilabel:result()
  self.waiting:flush()
  local rows = by_class(self)
  return with_share(self, {role = self.role, n = self.n, map = mean_of(rows, "ap"), f1 = mean_of(rows, "f1"),
    f1_micro = micro(self)})
end

--- "mAP 71.20 %, F1 64.10 %, exact match 40.00 % [37.01, 43.07], n 1000"
function Multilabel:line()
  local r = self:result()
  return ("mAP %.2f %%, F1 %.2f %%, exact match %.2f %% [%.2f, %.2f], n %d"):format(100 * r.map, 100 * r.f1,
    100 * r.exact_match, 100 * r.exact_match_low, 100 * r.exact_match_high, r.n)
end

--- List of {name, text}: the metrics, then the classes of least average precision.
function Multilabel:lines()
  local r, rows, parts = self:result(), {}, {}
  for _, row in ipairs(by_class(self)) do
    if row.ap then rows[#rows + 1] = row end
  end
  table.sort(rows, function(a, b)
    if a.ap ~= b.ap then return a.ap < b.ap end
    return a.class < b.class
  end)
  for i = 1, math.min(10, #rows) do parts[i] = ("%s %.1f"):format(rows[i].name, 100 * rows[i].ap) end
  return {
    {"", self:line()}, {"all classes together", ("F1 %.2f %%"):format(100 * r.f1_micro)},
    {"worst classes", parts[1] and table.concat(parts, ", ") .. " %" or "none"},
  }
end

-- ---- for files ----

--- Samples for a sheet: {wrong = surest first, right = from all over the set}, each {id, truth, read, confidence}.
function Multilabel:samples()
  self.waiting:flush()
  return self.kept:samples()
end

local function shown(names) return names == "" and "none" or names end

--- What stands below a sample's picture, and what should.
function Multilabel.caption(entry) return shown(entry.read), shown(entry.truth) end

--- result() and classes: list of {class, name, n, found, ap, f1, recall, precision}
function Multilabel:write()
  local out = self:result()
  out.classes = by_class(self)
  return out
end

return {new = new}
