-- text_meter.lua: counts what a recogniser reads right, and says how sure the count is.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local meter = {}
meter.__index = meter

--- Interval that holds the true rate with 95 % confidence (Wilson's score interval).
-- right of n samples -> lower, upper, both in 0..1
local function wilson(right, n)
  if n == 0 then return 0, 1 end
  local z = 1.959964
  local p, zz = right / n, z * z / n
  local centre = (p + zz / 2) / (1 + zz)
  local half = z * math.sqrt(p * (1 - p) / n + zz / (4 * n)) / (1 + zz)
  return math.max(0, centre - half), math.min(1, centre + half)
end

-- Class id -> id of the first character of its set; sets that nobody named are those of look-alikes in the charset.
local function merged_ids(charset, sets)
  local ids = {}
  for _, set in ipairs(sets) do
    local first
    for character in set:gmatch(".") do
      local place = charset:find(character, 1, true)
      if place then
        first = first or place - 1
        ids[place - 1] = first
      end
    end
  end
  return ids
end

local function both_in(charset, set)
  local count = 0
  for character in set:gmatch(".") do count = count + (charset:find(character, 1, true) and 1 or 0) end
  return count > 1
end

local function check_sets(charset, sets)
  if sets == nil then return both_in(charset, "0O") and {"0O"} or {} end
  for _, set in ipairs(sets) do
    if type(set) ~= "string" or not both_in(charset, set) then
      core.error{code = "value", message = ("text_meter: merge lists sets of characters to count as one, such as \"0O\"; " ..
        "'%s' has fewer than two of the charset"):format(tostring(set))}
    end
  end
  return sets
end

--- A meter for texts.
-- in   charset: all characters, in the order of their class ids
-- opts merge = list of sets of characters that count as one beside the strict figure; {"0O"} when the charset has both
local function new(charset, opts)
  if type(charset) ~= "string" or charset == "" then
    core.error{code = "value", message = "text_meter needs the charset as a string"}
  end
  local sets = check_sets(charset, opts and opts.merge)
  return setmetatable({
    charset = charset, merge = sets, same = merged_ids(charset, sets), n = 0, exact = 0, merged = 0, chars = 0, right = 0,
    seen_at = {}, wrong_at = {}, pairs = {}, confidence = 0,
  }, meter)
end

--- Text of a list of class ids; an id outside the charset (padding) gives nothing.
function meter:text(ids, first, count)
  local out = {}
  for i = first, first + count - 1 do
    local id = ids[i]
    if id >= 0 and id < #self.charset then out[#out + 1] = self.charset:sub(id + 1, id + 1) end
  end
  return table.concat(out)
end

-- Counts one character; -> read right, read right when look-alikes count as one
function meter:add_char(got, want, place)
  self.chars = self.chars + 1
  self.seen_at[place] = (self.seen_at[place] or 0) + 1
  if got == want then
    self.right = self.right + 1
    return true, true
  end
  self:confuse(got, want, place)
  local same = self.same
  return false, same[got] ~= nil and same[got] == same[want]
end

--- Counts a batch.
-- read, truth  flat lists of class ids, sample by sample; length: ids per sample; padding in truth is -1;
-- confidence   optional: for each sample the probability the model gives its reading
function meter:add(read, truth, length, confidence)
  if #read ~= #truth or #read % length ~= 0 then
    core.error{code = "shape", message = ("read has %d characters, truth has %d; both are multiples of the length %d")
      :format(#read, #truth, length)}
  end
  for first = 1, #truth, length do
    local strict, merged = true, true
    for place = 0, length - 1 do
      local got, want = read[first + place], truth[first + place]
      if want >= 0 then
        local right, alike = self:add_char(got, want, place + 1)
        strict, merged = strict and right, merged and alike
      end
    end
    self.n = self.n + 1
    if strict then self.exact = self.exact + 1 end
    if merged then self.merged = self.merged + 1 end
    if confidence then self.confidence = self.confidence + confidence[(first - 1) / length + 1] end
  end
end

function meter:confuse(got, want, place)
  self.wrong_at[place] = (self.wrong_at[place] or 0) + 1
  local key = self:text({want}, 1, 1) .. self:text({got}, 1, 1)
  self.pairs[key] = (self.pairs[key] or 0) + 1
end

--- The most frequent confusions, at most `count`.
-- out  list of {truth=, read=, count=}, most frequent first
function meter:confusions(count)
  local all = {}
  for key, times in pairs(self.pairs) do
    all[#all + 1] = {truth = key:sub(1, 1), read = key:sub(2), count = times}
  end
  table.sort(all, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.truth .. a.read < b.truth .. b.read
  end)
  for i = count + 1, #all do all[i] = nil end
  return all
end

local function share(part, whole) return whole > 0 and part / whole or 0 end

-- Share of characters read right at each place of the text.
function meter:positions()
  local out = {}
  for place, seen in ipairs(self.seen_at) do out[place] = 1 - share(self.wrong_at[place] or 0, seen) end
  return out
end

--- The figures.
-- out  n; exact, low, high: share of samples read without a mistake and its 95 % interval; chars, chars_low, chars_high:
--      share of characters read right; positions: the same by place; confusions: the ten most frequent; confidence:
--      mean, when it was given; merged: {sets, exact, low, high} with look-alikes counted as one, if there are any
function meter:result()
  local low, high = wilson(self.exact, self.n)
  local chars_low, chars_high = wilson(self.right, self.chars)
  local out = {
    n = self.n, exact = share(self.exact, self.n), low = low, high = high, chars = share(self.right, self.chars),
    chars_low = chars_low, chars_high = chars_high, positions = self:positions(), confusions = self:confusions(10),
    confidence = self.confidence > 0 and self.confidence / self.n or nil,
  }
  if #self.merge > 0 then
    low, high = wilson(self.merged, self.n)
    out.merged = {sets = self.merge, exact = share(self.merged, self.n), low = low, high = high}
  end
  return out
end

--- "exact 96.13 % [95.73, 96.49], chars 98.99 %, n 10000"
function meter:line()
  local r = self:result()
  return ("exact %.2f %% [%.2f, %.2f], chars %.2f %%, n %d"):format(
    100 * r.exact, 100 * r.low, 100 * r.high, 100 * r.chars, r.n)
end

--- "99.21 % [99.02, 99.37] with 0=O"; nil when no characters look alike
function meter:merged_line()
  local m = self:result().merged
  if not m then return nil end
  local names = {}
  for i, set in ipairs(m.sets) do names[i] = set:gsub(".", "%0="):sub(1, -2) end
  return ("%.2f %% [%.2f, %.2f] with %s"):format(100 * m.exact, 100 * m.low, 100 * m.high, table.concat(names, ", "))
end

--- "99.3 99.1 99.2 99.4 %": characters read right at each place
function meter:position_line()
  local parts = {}
  for i, right in ipairs(self:positions()) do parts[i] = ("%.1f"):format(100 * right) end
  return table.concat(parts, " ") .. " %"
end

--- "0 as O 41, O as 0 37, …"
function meter:confusion_line(count)
  local parts = {}
  for i, c in ipairs(self:confusions(count or 10)) do parts[i] = ("%s as %s %d"):format(c.truth, c.read, c.count) end
  return #parts > 0 and table.concat(parts, ", ") or "none"
end

return {new = new, wilson = wilson}
