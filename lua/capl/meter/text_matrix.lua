-- text_matrix.lua: what a text meter counted as a confusion matrix, of a large charset the most confused characters.
-- SPDX-License-Identifier: Apache-2.0
local symbols = require "fields.symbols"

local MOST = 128 -- characters of a charset that the matrix has all of
local CONFUSED = 40 -- and the most confused ones of a larger charset, beside OTHER
local OTHER = "other"

-- The characters that are confused most, in the order of their classes.
local function most_confused(self)
  local out, seen, class_of = {}, {[""] = true}, symbols.class_of(self.charset)
  for _, pair in ipairs(self:confusions(CONFUSED)) do
    for _, symbol in ipairs{pair.truth, pair.read} do
      if not seen[symbol] and class_of[symbol] and #out < CONFUSED then out[#out + 1], seen[symbol] = symbol, true end
    end
  end
  table.sort(out, function(a, b) return class_of[a] < class_of[b] end)
  return out
end

-- The labels of the matrix, and the place of each; the last one is nothing. of_others: of characters without a place.
local function labels_of(self)
  local labels, place, of_others = {}, {}, nil
  local is_whole = #self.symbols <= MOST
  for i, symbol in ipairs(is_whole and self.symbols or most_confused(self)) do labels[i], place[symbol] = symbol, i end
  if not is_whole then
    of_others = #labels + 1
    labels[of_others] = OTHER
  end
  place[""] = #labels + 1
  labels[place[""]] = ""
  return labels, place, of_others
end

--- {labels, counts} of a text meter. Rows: meant; columns: read. Of others, only what was read right is in their own
-- cell.
local function matrix(self)
  local labels, place, of_others = labels_of(self)
  local counts = {}
  for i = 1, #labels do
    counts[i] = {}
    for k = 1, #labels do counts[i][k] = 0 end
  end
  for symbol, n in pairs(self.right_of) do
    local i = place[symbol] or of_others
    if i then counts[i][i] = counts[i][i] + n end
  end
  for _, pair in pairs(self.pairs) do
    local row, column = place[pair.truth] or of_others, place[pair.read] or of_others
    if row and row ~= column then counts[row][column] = counts[row][column] + pair.count end
  end
  return {labels = labels, counts = counts}
end

return matrix
