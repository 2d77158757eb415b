-- ranges.lua: a charset as short as it can be written.
-- SPDX-License-Identifier: Apache-2.0

--- {"0", "1", "2", "A"} -> "0-2A": what a charset option takes. nil when there is a character that no charset may hold.
return function(characters)
  local bytes_of, parts, dash = {}, {}, ""
  for _, c in ipairs(characters) do
    if #c > 1 or not c:match("^[!-~]$") then return nil end
    if c == "-" then dash = "-" else bytes_of[#bytes_of + 1] = c:byte() end
  end
  table.sort(bytes_of)
  local i = 1
  while i <= #bytes_of do
    local j = i
    while bytes_of[j + 1] == bytes_of[j] + 1 do j = j + 1 end
    local first, last = string.char(bytes_of[i]), string.char(bytes_of[j])
    parts[#parts + 1] = j - i >= 2 and first .. "-" .. last or j > i and first .. last or first
    i = j + 1
  end
  return table.concat(parts) .. dash
end
