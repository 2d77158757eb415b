-- align.lua: two texts side by side, with as few edits as possible: what was read as what, left out or added.
-- SPDX-License-Identifier: Apache-2.0
local symbols = require "fields.symbols"

local align = {}

local NOTHING = "·" -- a character that is not there

-- The edit distances of all beginnings of two lists of symbols, row by row: cell (i, j) lies at i * (#read + 1) + j.
-- One table for all calls.
local cells = {}

local function fill(truth, read)
  local width = #read + 1
  for j = 0, #read do cells[j] = j end
  for i = 1, #truth do
    local row, above = i * width, (i - 1) * width
    local want = truth[i]
    cells[row] = i
    for j = 1, #read do
      local other = want == read[j] and 0 or 1
      cells[row + j] = math.min(cells[above + j - 1] + other, cells[above + j] + 1, cells[row + j - 1] + 1)
    end
  end
  return width
end

--- The edit distance (Levenshtein): characters that must be exchanged, left out or put in to make one of the other.
function align.distance(truth, read)
  if truth == read then return 0 end
  truth, read = symbols.of(truth), symbols.of(read)
  local width = fill(truth, read)
  return cells[#truth * width + #read]
end

--- Walks two lists of symbols side by side, from their ends: fn(place, want, got), place = that of want in the truth;
-- want is nil where a character was added (place is then that of the one before), got is nil where one was left out. Of
-- several ways with equally few edits, the one that exchanges characters is taken.
-- out  the edit distance
function align.walk(truth, read, fn)
  local width = fill(truth, read)
  local i, j = #truth, #read
  while i > 0 or j > 0 do
    local here = cells[i * width + j]
    local same = i > 0 and j > 0 and truth[i] == read[j]
    if i > 0 and j > 0 and here == cells[(i - 1) * width + j - 1] + (same and 0 or 1) then
      fn(i, truth[i], read[j])
      i, j = i - 1, j - 1
    elseif i > 0 and here == cells[(i - 1) * width + j] + 1 then
      fn(i, truth[i], nil)
      i = i - 1
    else
      fn(i, nil, read[j])
      j = j - 1
    end
  end
  return cells[#truth * width + #read]
end

--- Both texts as lists of characters, with a dot where the other has one more, so that what belongs together stands at
-- one place. Texts of equal length are not moved.
-- out  truth, read
function align.side_by_side(truth, read)
  truth, read = symbols.of(truth), symbols.of(read)
  if #truth == #read then return truth, read end
  local want, got = {}, {}
  align.walk(truth, read, function(_, a, b)
    table.insert(want, 1, a or NOTHING)
    table.insert(got, 1, b or NOTHING)
  end)
  return want, got
end

return align
