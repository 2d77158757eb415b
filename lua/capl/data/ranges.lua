-- ranges.lua: a charset as short as it can be written.
-- SPDX-License-Identifier: Apache-2.0
local symbols = require "fields.symbols"

-- "0-2A" of sorted bytes of ASCII.
local function in_ranges(bytes_of)
  local parts, i = {}, 1
  while i <= #bytes_of do
    local j = i
    while bytes_of[j + 1] == bytes_of[j] + 1 do j = j + 1 end
    local first, last = string.char(bytes_of[i]), string.char(bytes_of[j])
    parts[#parts + 1] = j - i >= 2 and first .. "-" .. last or j > i and first .. last or first
    i = j + 1
  end
  return table.concat(parts)
end

--- {"0", "1", "2", "A", "中"} -> "0-2A中": what a charset option takes; ranges of ASCII alone, and of many other
-- characters the first. nil when there is one that no charset may hold.
return function(characters)
  local bytes_of, beyond, dash = {}, {}, ""
  for _, c in ipairs(characters) do
    if symbols.unusable(c) then return nil end
    if c == "-" then dash = "-"
    elseif #c > 1 then beyond[#beyond + 1] = c
    else bytes_of[#bytes_of + 1] = c:byte() end
  end
  table.sort(bytes_of)
  table.sort(beyond)
  return in_ranges(bytes_of) .. symbols.shown(beyond) .. dash
end
