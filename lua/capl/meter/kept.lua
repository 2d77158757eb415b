-- kept.lua: the few samples of an evaluation that are shown: the worst ones, and right ones from all over the set, or
-- the best ones.
-- SPDX-License-Identifier: Apache-2.0
local Kept = {}
Kept.__index = Kept

--- most: samples of each; worse(a, b): whether a comes before b among the wrong ones
local function new(most, worse)
  return setmetatable({most = most, worse = worse, wrong_ones = {}, right_ones = {}, seen = 0}, Kept)
end

local function cut(self)
  table.sort(self.wrong_ones, self.worse)
  for i = self.most + 1, #self.wrong_ones do self.wrong_ones[i] = nil end
end

--- Adds a wrong one: a table.
function Kept:wrong(entry)
  table.insert(self.wrong_ones, entry)
  if #self.wrong_ones >= 4 * self.most then cut(self) end
end

-- The same number for the same k, as if drawn from 1 to k. (Once is not enough: k * 48271 alone is a multiple of k.)
local function drawn(k) return k * 48271 % 2147483647 * 48271 % 2147483647 % k + 1 end

--- Adds a right one; each has the same chance to be kept, and the choice is the same in every run.
function Kept:right(entry)
  self.seen = self.seen + 1
  local place = self.seen <= self.most and self.seen or drawn(self.seen)
  if place <= self.most then self.right_ones[place] = entry end
end

--- {wrong = worst first, right = …}
function Kept:samples()
  cut(self)
  return {wrong = self.wrong_ones, right = self.right_ones}
end

-- ---- the ends of a scale ----

local Ends = {}
Ends.__index = Ends

--- The first and the last of all entries. most: of each; worse(a, b): whether a comes before b
local function ends(most, worse) return setmetatable({most = most, worse = worse, worst = {}, best = {}}, Ends) end

local function shorten(list, most, before)
  table.sort(list, before)
  for i = most + 1, #list do list[i] = nil end
end

function Ends:cut()
  shorten(self.worst, self.most, self.worse)
  shorten(self.best, self.most, function(a, b) return self.worse(b, a) end)
end

--- Adds one: a table.
function Ends:add(entry)
  table.insert(self.worst, entry)
  table.insert(self.best, entry)
  if #self.worst >= 4 * self.most then self:cut() end
end

--- {wrong = worst first, without those that is_right(entry); right = best first, without those of wrong}
function Ends:samples(is_right)
  self:cut()
  local wrong, right, taken = {}, {}, {}
  for _, entry in ipairs(self.worst) do
    if not is_right(entry) then wrong[#wrong + 1], taken[entry] = entry, true end
  end
  for _, entry in ipairs(self.best) do
    if not taken[entry] then right[#right + 1] = entry end
  end
  return {wrong = wrong, right = right}
end

return {new = new, ends = ends}
