-- text.lua: counts what a recognizer reads right, and says how sure the count is.
--
-- A character of a reading as long as the truth is right when it stands at its place; of a shorter or longer one, when
-- it does in the alignment with the fewest edits. What was read as what is always counted in that alignment, so that
-- one character too many does not look like five mistakes.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local align = require "meter.align"
local check = require "check"
local ctc = require "meter.ctc"
local fields = require "fields"
local interval = require "meter.interval"
local kept = require "meter.kept"
local merge = require "meter.merge"
local matrix = require "meter.text_matrix"
local meters = require "meter"
local pending = require "meter.pending"
local sorted_keys = require "sorted_keys"
local symbols = require "fields.symbols"

local OP = "TextMeter"
local WORST = 24 -- readings that are kept, wrong ones and right ones
local SAMPLES = 4 -- of each pair of characters

local Text = {
  kind = "text", main = "exact", better = "max",
  second = "chars", -- between equal main metrics
  -- in which other metrics are better
  ways = {chars = "max", edit_distance = "min", edit_distance_normalized = "min", cer = "min"},
}
Text.__index = Text

-- ---- making ----

-- Character -> first character of its set.
local function merged_of(sets)
  local first_of = {}
  for _, set in ipairs(sets) do
    local list = symbols.of(set)
    for _, character in ipairs(list) do first_of[character] = list[1] end
  end
  return first_of
end

local function both_in(charset, set)
  local count, class_of = 0, symbols.class_of(charset)
  for _, character in ipairs(symbols.of(set)) do count = count + (class_of[character] and 1 or 0) end
  return count > 1
end

-- Sets that nobody named are those of look-alikes in the charset.
local function check_sets(charset, sets)
  if sets == nil then return symbols.lookalikes(charset) end
  for _, set in ipairs(sets) do
    if type(set) ~= "string" or not both_in(charset, set) then
      core.error{code = "value", message =
        ("text_meter: merge lists sets of characters to count as one, such as \"0O\"; " ..
        "'%s' has fewer than two of the charset"):format(tostring(set))}
    end
  end
  return sets
end

local spec = {{"charset", "string"}, {"merge", "table"}, {"decode", "function"},
  {"decoding", "string", default = "argmax"}, {"loader", "table"}, {"worst", "whole", default = WORST}}

-- Worse first: more edits, then more sure of it.
local function worse(a, b)
  if a.edits ~= b.edits then return a.edits > b.edits end
  local x, y = a.confidence or 0, b.confidence or 0
  if x ~= y then return x > y end
  return a.id < b.id
end

--- train.TextMeter{…}: a meter for texts.
-- opts charset: all characters, in the order of their class numbers (loader's unless said); loader = names its samples;
--      merge = list of sets of characters that count as one beside the strict metric (the look-alikes of the
--      charset: {"0O", "1I"}); decoding = "argmax": a character at each place, or "ctc": time steps with a blank
--      behind the charset; decode = function(output, batch) -> list of texts[, list of confidences], for outputs that
--      are no scores of a fixed number of places; worst = 24 readings to keep
-- errs value: no charset, unknown option, a set with fewer than two of the charset
-- eg   capl.train.TextMeter{charset = "AB"}:result().n  --> 0
local function new(opts)
  local o = check.options(OP, spec, opts)
  local charset = o.charset or o.loader and o.loader.charset
  if type(charset) ~= "string" or charset == "" then
    core.error{code = "value", message = "text_meter needs the charset as a string"}
  end
  symbols.check(OP, "the charset", charset)
  check.one_of(OP, "decoding", o.decoding, fields.of_meter(Text.kind).decodings)
  if o.decoding == "argmax" and not o.decode then ctc.check_places(OP, o.loader) end
  local sets = check_sets(charset, o.merge)
  local self = setmetatable({
    charset = charset, symbols = symbols.list(charset), merge = sets, same = merged_of(sets),
    decode = o.decode, decoding = o.decoding, loader = o.loader,
    n = 0, exact = 0, merged = 0, chars = 0, right = 0, edits = 0, share = 0, confidence = 0, confident = 0,
    steps = 0, blanks = 0, by_place = {}, by_length = {}, by_confidence = {}, right_of = {}, pairs = {},
    kept = kept.new(o.worst, worse),
  }, Text)
  local read = o.decoding == "ctc" and self.read_paths or self.read_columns
  self.waiting = pending.new(function(columns, keys, notes) read(self, columns, keys, notes) end)
  self.readings = merge.values() -- readings that are texts already, where several ranks count them together
  return self
end

--- Another meter for the same texts, which has counted nothing. worst: samples that it keeps
function Text:fresh(worst)
  return new{charset = self.charset, decoding = self.decoding, worst = worst, merge = {}}
end

--- The same for a charset: capl.text_meter(charset, {merge = …, decoding = …}).
local function of_charset(charset, opts)
  local o = {charset = charset}
  for key, value in pairs(opts or {}) do o[key] = value end
  if type(charset) ~= "string" then o.charset = "" end
  return new(o)
end

-- ---- counting one ----

local function bucket(list, key)
  list[key] = list[key] or {n = 0, right = 0}
  return list[key]
end

local function count_place(self, place, right)
  local b = bucket(self.by_place, place)
  b.n = b.n + 1
  self.chars = self.chars + 1
  if right then
    b.right = b.right + 1
    self.right = self.right + 1
  end
end

local function count_right_of(self, character) self.right_of[character] = (self.right_of[character] or 0) + 1 end

-- Counts that `truth` was read as `read`; "" stands for nothing.
local function confuse(self, truth, read, id, place)
  local key = truth .. "\0" .. read
  local pair = self.pairs[key]
  if not pair then
    pair = {truth = truth, read = read, count = 0, samples = {}}
    self.pairs[key] = pair
  end
  pair.count = pair.count + 1
  local last = pair.samples[#pair.samples]
  if #pair.samples < SAMPLES and not (last and last.id == id) then
    table.insert(pair.samples, {id = id, place = place})
  end
end

-- truth, as in all of these: a list of symbols
local function count_right(self, truth)
  for place, symbol in ipairs(truth) do
    count_place(self, place, true)
    count_right_of(self, symbol)
  end
end

-- -> edit distance
local function count_wrong(self, read, truth, id)
  local by_place = #read == #truth
  for place = 1, by_place and #truth or 0 do count_place(self, place, truth[place] == read[place]) end
  return align.walk(truth, read, function(place, want, got)
    if want and not by_place then count_place(self, place, want == got) end
    if want == got then count_right_of(self, want)
    else confuse(self, want or "", got or "", id, place) end
  end)
end

-- Whether two readings are the same when look-alikes are one.
local function alike(self, read, truth)
  if #self.merge == 0 or #read ~= #truth then return false end
  local same = self.same
  for i, want in ipairs(truth) do
    local got = read[i]
    if (same[got] or got) ~= (same[want] or want) then return false end
  end
  return true
end

local function count_confidence(self, confidence, right)
  local b = bucket(self.by_confidence, math.min(9, math.floor(10 * confidence)))
  b.n = b.n + 1
  if right then b.right = b.right + 1 end
  self.confidence, self.confident = self.confidence + confidence, self.confident + 1
end

local function count_one(self, read, truth, confidence, id)
  id = id or self.n
  local entry = {id = id, truth = truth, read = read, confidence = confidence, edits = 0}
  local want = symbols.of(truth)
  local length = bucket(self.by_length, #want)
  self.n, length.n = self.n + 1, length.n + 1
  if read == truth then
    self.exact, length.right = self.exact + 1, length.right + 1
    self.merged = self.merged + 1
    count_right(self, want)
    self.kept:right(entry)
  else
    local got = symbols.of(read)
    entry.edits = count_wrong(self, got, want, id)
    self.edits, self.share = self.edits + entry.edits, self.share + entry.edits / math.max(#got, #want)
    if alike(self, got, want) then self.merged = self.merged + 1 end
    self.kept:wrong(entry)
  end
  if confidence then count_confidence(self, confidence, read == truth) end
end

--- Counts one reading.
-- in   read, truth: texts of any length; confidence: optional, the probability the model gives its reading; id:
--      optional, the sample's number in its source (the count of samples so far unless said)
function Text:count(read, truth, confidence, id)
  check.arg(1, "count", "string", read)
  check.arg(2, "count", "string", truth)
  local reading = {read = read, truth = truth, confidence = confidence, id = id}
  if not self.readings then return count_one(self, read, truth, confidence, id) end
  if self.batch then table.insert(self.batch, reading) else self.readings:add{reading} end
end

-- Readings that fn counts belong together, as those of a batch.
local function as_batch(self, fn, ...)
  self.batch = self.readings and {} or nil
  fn(self, ...)
  if self.batch then self.readings:add(self.batch) end
  self.batch = nil
end

-- Counts what waits: readings on the device, then those that were given as texts.
local function flush(self)
  self.waiting:flush()
  if not self.readings then return end
  self.readings:flush(function(batch)
    for _, r in ipairs(batch) do count_one(self, r.read, r.truth, r.confidence, r.id) end
  end)
end

-- ---- counting batches ----

--- Text of a list of class numbers; one outside the charset (padding) gives nothing.
function Text:text(ids, first, count)
  local out = {}
  for i = first, first + count - 1 do
    out[#out + 1] = self.symbols[ids[i] + 1]
  end
  return table.concat(out)
end

-- Reading and truth of sample i without the places that the truth leaves empty.
local function pair_of(self, read, truth, length, i)
  local got, want = {}, {}
  for k = (i - 1) * length + 1, i * length do
    if truth[k] >= 0 then
      got[#got + 1], want[#want + 1] = self.symbols[read[k] + 1] or "", self.symbols[truth[k] + 1]
    end
  end
  return table.concat(got), table.concat(want)
end

-- A class that the charset does not have would be counted as a character left out. before: numbers of earlier samples.
local function check_label(self, truth, before, length, id)
  local K = #self.symbols
  for place = 1, length do
    local class = truth[before + place]
    if class >= K then
      check.fail(OP, ("the label of %s has class %d at place %d; the charset has %d characters, 0 to %d"):format(
        self:name_of(id or self.n), class, place, K, K - 1),
        "labels are counted from 0; -1 is no character")
    end
  end
end

local function each_of_ids(self, read, truth, length, confidence, ids, fn)
  for i = 1, #truth / length do
    check_label(self, truth, (i - 1) * length, length, ids and ids[i])
    local got, want = pair_of(self, read, truth, length, i)
    fn(self, got, want, confidence and confidence[i], ids and ids[i])
  end
end

--- Counts readings of a fixed length.
-- in   read, truth: flat lists of class numbers, sample by sample; length: places of each; where truth is -1, nothing
--      is counted; confidence: optional, a list with the probability of each reading; ids: optional, numbers of the
--      samples
-- errs shape: lists that do not fit; value: a class that the charset does not have
function Text:add_ids(read, truth, length, confidence, ids)
  if type(read) ~= "table" or type(truth) ~= "table" or type(length) ~= "number" then
    check.fail(OP, "add takes a tensor of scores and a batch, or lists of class numbers, read and meant, and how " ..
      "many a text has")
  end
  if #read ~= #truth or #read % length ~= 0 then
    core.error{code = "shape", message = ("read has %d characters, truth has %d; both are multiples of the length %d")
      :format(#read, #truth, length)}
  end
  as_batch(self, each_of_ids, read, truth, length, confidence, ids, self.count)
end

-- The name of a sample for messages.
function Text:name_of(id)
  local source = self.loader and self.loader.source
  return source and source.name and source:name(id) or ("sample %d"):format(id)
end

local function check_finite(self, confidence, ids)
  for i, sure in ipairs(confidence) do
    if sure ~= sure then
      core.error{code = "value", op = OP, path = false,
        message = ("the model's output for %s is not finite"):format(self:name_of(ids[i])),
        hint = "check the weights for a step with an infinite gradient, or use a lower lr"}
    end
  end
end

-- columns: class numbers read, class numbers meant, confidences
function Text:read_columns(columns, ids, notes)
  check_finite(self, columns[3], ids)
  each_of_ids(self, columns[1], columns[2], notes[1].places, columns[3], ids, count_one)
end

-- columns: classes of the time steps, class numbers meant, confidences; batches may differ in their numbers of steps
function Text:read_paths(columns, ids, shapes)
  check_finite(self, columns[3], ids)
  local sample, step, place = 0, 0, 0
  for _, shape in ipairs(shapes) do
    for _ = 1, shape.n do
      sample = sample + 1
      check_label(self, columns[2], place, shape.places, ids[sample])
      local read, blanks = ctc.collapse(self.charset, columns[1], step + 1, shape.steps)
      self.steps, self.blanks = self.steps + shape.steps, self.blanks + blanks
      count_one(self, read, self:text(columns[2], place + 1, shape.places), columns[3][sample], ids[sample])
      step, place = step + shape.steps, place + shape.places
    end
  end
end

-- (N,T,K) scores of an output (N,T,K) or (N,T*K).
local function scores(self, output, target)
  local N, T, K = target:size(1), target:size(2), #self.symbols
  ctc.refuse("train.evaluate", self.charset, output, N)
  if output:size(1) ~= N or output:numel() ~= N * T * K then
    check.fail("train.evaluate", ("the model's output is (%s); it should hold %d places x %d characters for each " ..
      "image"):format(
      table.concat(output:size(), ","), T, K),
      "train.TextMeter{decode = function(output, batch) return texts end} reads others")
  end
  return output:to("f32"):reshape(N, T, K)
end

local function add_scores(self, output, batch, ids)
  local target = batch.target
  local probability, place = scores(self, output, target):softmax(-1):max(-1)
  local counts = target:to("f32"):ge(0):to("f32")
  local confidence = (probability:log() * counts):sum(2):exp() -- that all its characters are what was read
  self.waiting:add({place, target, confidence}, ids, {places = target:size(2)})
end

-- Time steps: the greatest score of each, and the probability of the text that they spell.
local function add_paths(self, output, batch, ids)
  local target = batch.target
  local log_probs = ctc.scores("train.evaluate", self.charset, output, target:size(1)):log_softmax(-1)
  local class = log_probs:argmax(-1)
  self.waiting:add({class, target, ctc.confidence(log_probs, class, #self.symbols)}, ids,
    {n = target:size(1), steps = output:size(2), places = target:size(2)})
end

local ways = {argmax = add_scores, ctc = add_paths}

local function count_texts(self, output, batch, ids)
  local texts, confidence = self.decode(output, batch)
  local truth, length = batch.target:reshape(-1):tolist(), batch.target:size(2)
  local N = batch.target:size(1)
  if type(texts) ~= "table" or #texts ~= N then
    check.fail(OP, ("decode gives a list of %d texts, one for each sample"):format(N))
  end
  for i, text in ipairs(texts) do
    self:count(text, self:text(truth, (i - 1) * length + 1, length), confidence and confidence[i], type(ids) == "table"
      and ids[i] or nil)
  end
end

local function add_texts(self, ...) as_batch(self, count_texts, ...) end

--- Counts a batch; predictions are copied from the device later, many batches at once.
-- in   output (N,T,K) or (N,T*K): scores of K characters at T places; batch of a loader, with target (N,T), -1 = none.
--      With decoding = "ctc" (N,T,K+1): scores of T time steps, the blank last; target (N,S), -1 behind the text.
--      Or as add_ids: lists of class numbers
function Text:add(output, batch, length, confidence)
  if not core.is_tensor(output) and not self.decode then return self:add_ids(output, batch, length, confidence) end
  meters.field(OP, batch, "target")
  local way = self.decode and add_texts or ways[self.decoding]
  return core.no_grad(way, self, output, batch, batch.ids or batch.target:size(1))
end

-- ---- metrics ----

--- The most frequent confusions, at most `count`; an empty text is a deleted or inserted character.
-- out  list of {truth=, read=, count=}, most frequent first
function Text:confusions(count)
  local all = {}
  flush(self)
  for _, pair in pairs(self.pairs) do all[#all + 1] = {truth = pair.truth, read = pair.read, count = pair.count} end
  table.sort(all, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.truth .. "\0" .. a.read < b.truth .. "\0" .. b.read
  end)
  for i = count + 1, #all do all[i] = nil end
  return all
end

-- Shares of buckets, by place or by length.
local function shares(buckets, name)
  local out = {}
  for i, key in ipairs(sorted_keys(buckets)) do
    local b = buckets[key]
    local value, low, high = interval.share(b.right, b.n)
    out[i] = {[name] = key, n = b.n, right = value, low = low, high = high}
  end
  return out
end

-- Share of characters read right at each place of the text.
function Text:positions()
  local out = {}
  flush(self)
  for i, row in ipairs(shares(self.by_place, "position")) do out[i] = row.right end
  return out
end

--- The metrics.
-- out  role: of the loader that train.evaluate has read; n; exact, low, high: share of samples read without a mistake
--      and its 95 % interval; chars, chars_low, chars_high: share of characters read right; positions: the same by
--      place; edit_distance: characters to exchange, leave out or put in for a text, on the mean;
--      edit_distance_normalized: of each text, as a share of the longer of reading and truth; cer: all edits over all
--      characters of the truth; confusions: the ten most frequent; confidence: mean, when it was given; merged: {sets,
--      exact, low, high} with look-alikes counted as one, if there are any; blanks: of CTC readings, the share of time
--      steps that are blank
function Text:result()
  flush(self)
  local exact, low, high = interval.share(self.exact, self.n)
  local chars, chars_low, chars_high = interval.share(self.right, self.chars)
  local n = math.max(self.n, 1)
  local out = {
    role = self.role, n = self.n, exact = exact, low = low, high = high, chars = chars, chars_low = chars_low,
    chars_high = chars_high, edit_distance = self.edits / n, edit_distance_normalized = self.share / n,
    cer = self.edits / math.max(self.chars, 1), positions = self:positions(), confusions = self:confusions(10),
    confidence = self.confident > 0 and self.confidence / self.confident or nil,
    blanks = self.steps > 0 and self.blanks / self.steps or nil,
  }
  if #self.merge > 0 then
    local merged, merged_low, merged_high = interval.share(self.merged, self.n)
    out.merged = {sets = self.merge, exact = merged, low = merged_low, high = merged_high}
  end
  return out
end

-- ---- texts ----

--- "exact 96.13 % [95.73, 96.49], chars 98.99 %, n 10000"
function Text:line()
  local r = self:result()
  return ("exact %.2f %% [%.2f, %.2f], chars %.2f %%, n %d"):format(
    100 * r.exact, 100 * r.low, 100 * r.high, 100 * r.chars, r.n)
end

--- "99.21 % [99.02, 99.37] with 0=O"; nil when no characters look alike
function Text:merged_line()
  local m = self:result().merged
  if not m then return nil end
  local names = {}
  for i, set in ipairs(m.sets) do names[i] = table.concat(symbols.of(set), "=") end
  return ("%.2f %% [%.2f, %.2f] with %s"):format(100 * m.exact, 100 * m.low, 100 * m.high, symbols.shown(names, ", "))
end

--- "99.3 99.1 99.2 99.4 %": characters read right at each place
function Text:position_line()
  local parts = {}
  for i, right in ipairs(self:positions()) do parts[i] = ("%.1f"):format(100 * right) end
  return #parts > 0 and table.concat(parts, " ") .. " %" or "none"
end

--- "4: 97.1 % of 812, 5: 95.0 % of 790"; nil when all texts have one length
function Text:length_line()
  flush(self)
  local parts = {}
  for i, row in ipairs(shares(self.by_length, "length")) do
    parts[i] = ("%d: %.1f %% of %d"):format(row.length, 100 * row.right, row.n)
  end
  return #parts > 1 and table.concat(parts, ", ") or nil
end

local function shown(character) return character == "" and "nothing" or character end

--- "0 as O 41, O as 0 37, …"
function Text:confusion_line(count)
  local parts = {}
  for i, c in ipairs(self:confusions(count or 10)) do
    parts[i] = ("%s as %s %d"):format(shown(c.truth), shown(c.read), c.count)
  end
  return #parts > 0 and table.concat(parts, ", ") or "none"
end

--- All metrics as text: list of {name, text}.
function Text:lines()
  local r = self:result()
  local out = {{"", self:line()}}
  local function add(name, text)
    if text then out[#out + 1] = {name, text} end
  end
  add("look-alikes", self:merged_line())
  add("by position", self:position_line())
  add("by length", self:length_line())
  add("edit distance", ("%.4f a text, %.2f %% of its length"):format(r.edit_distance, 100 * r.edit_distance_normalized))
  add("confidence", r.confidence and ("mean %.1f %%"):format(100 * r.confidence))
  add("mistakes", self:confusion_line())
  return out
end

-- ---- for files ----

--- Readings for a sheet: {wrong = worst first, right = from all over the set}, each {id, truth, read, confidence,
-- edits}.
function Text:samples()
  flush(self)
  return self.kept:samples()
end

--- What stands below a sample's picture, and what should, one symbol below the other.
function Text.caption(entry)
  local truth, read = align.side_by_side(entry.truth, entry.read)
  return table.concat(read), table.concat(truth)
end

--- Pairs of characters with a few samples of each, most frequent first.
-- out  list of {truth, read, count, samples = {{id, place}, …}}
function Text:pairs_with_samples(count)
  local out = {}
  for i, c in ipairs(self:confusions(count)) do out[i] = self.pairs[c.truth .. "\0" .. c.read] end
  return out
end

-- How often readings of each tenth of confidence are right: a sound confidence is right as often as it says.
local function confidences(self)
  local out = shares(self.by_confidence, "from")
  for _, row in ipairs(out) do row.from, row.to = row.from / 10, row.from / 10 + 0.1 end
  return out[1] and out or nil
end

--- Everything, for evaluation.json: result() and by_position, by_length, by_confidence: lists of {position, length or
-- from and to, n, right, low, high};
-- confusion: {labels, counts}: rows are what was meant, columns what was read, the last label "" is nothing; of a
-- charset of more than 128 characters the 40 that are confused most, and "other" for the rest, whose confusions with
-- one another are not in it
function Text:write()
  local out = self:result()
  out.by_position, out.by_length = shares(self.by_place, "position"), shares(self.by_length, "length")
  out.by_confidence = confidences(self)
  out.confusion = matrix(self)
  return out
end

return {new = new, of_charset = of_charset, wilson = interval.wilson}
