-- wrap.lua: text broken into lines of at most 80 columns.
-- SPDX-License-Identifier: Apache-2.0
local wrap = {COLUMNS = 80}

--- Columns of a text in UTF-8 whose letters are all one column wide.
function wrap.width(text)
  local _, further = text:gsub("[\128-\191]", "")
  return #text - further
end

--- Lines of a text: the first begins with `first`, all others with `indent`.
function wrap.lines(text, first, indent)
  local lines, line, empty = {}, first, true
  for word in text:gmatch("%S+") do
    if not empty and wrap.width(line) + 1 + wrap.width(word) > wrap.COLUMNS then
      lines[#lines + 1], line, empty = line, indent, true
    end
    line = line .. (empty and "" or " ") .. word
    empty = false
  end
  lines[#lines + 1] = line
  return lines
end

return wrap
