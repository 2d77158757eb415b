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

--- A meter for texts.
-- charset  all characters, in the order of their class ids
local function new(charset)
  if type(charset) ~= "string" or charset == "" then
    core.error{code = "value", message = "text_meter needs the charset as a string"}
  end
  return setmetatable({charset = charset, n = 0, exact = 0, chars = 0, right = 0, wrong_at = {}, pairs = {}}, meter)
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

--- Counts a batch.
-- read, truth  flat lists of class ids, sample by sample; length: ids per sample; padding in truth is -1
function meter:add(read, truth, length)
  if #read ~= #truth or #read % length ~= 0 then
    core.error{code = "shape", message = ("read has %d characters, truth has %d; both are multiples of the length %d")
      :format(#read, #truth, length)}
  end
  for first = 1, #truth, length do
    local all = true
    for place = 0, length - 1 do
      local got, want = read[first + place], truth[first + place]
      if want >= 0 then
        self.chars = self.chars + 1
        if got == want then
          self.right = self.right + 1
        else
          all = false
          self:confuse(got, want, place + 1)
        end
      end
    end
    self.n = self.n + 1
    if all then self.exact = self.exact + 1 end
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

--- The figures.
-- out  n; exact, low, high: share of samples read without a mistake and its 95 % interval; chars: share of
--      characters read right; confusions: the ten most frequent
function meter:result()
  local low, high = wilson(self.exact, self.n)
  return {
    n = self.n, exact = self.n > 0 and self.exact / self.n or 0, low = low, high = high,
    chars = self.chars > 0 and self.right / self.chars or 0, confusions = self:confusions(10),
  }
end

--- "exact 96.13 % [95.73, 96.49], chars 98.99 %, n 10000"
function meter:line()
  local r = self:result()
  return ("exact %.2f %% [%.2f, %.2f], chars %.2f %%, n %d"):format(
    100 * r.exact, 100 * r.low, 100 * r.high, 100 * r.chars, r.n)
end

--- "0 as O 41, O as 0 37, …"
function meter:confusion_line(count)
  local parts = {}
  for i, c in ipairs(self:confusions(count or 10)) do parts[i] = ("%s as %s %d"):format(c.truth, c.read, c.count) end
  return #parts > 0 and table.concat(parts, ", ") or "none"
end

return {new = new, wilson = wilson}
