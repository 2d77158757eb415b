-- grouped.lua: a whole number as people read it: 1234567 is "1,234,567".
-- SPDX-License-Identifier: Apache-2.0
local function grouped(n)
  local text = ("%.0f"):format(n)
  local count
  repeat text, count = text:gsub("^(%-?%d+)(%d%d%d)", "%1,%2") until count == 0
  return text
end

return grouped
