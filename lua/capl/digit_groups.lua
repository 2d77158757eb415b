-- digit_groups.lua: a whole number with its digits in groups: 1234567 is "1,234,567".
-- SPDX-License-Identifier: Apache-2.0
local function digit_groups(n)
  local text = ("%.0f"):format(n)
  local count
  repeat text, count = text:gsub("^(%-?%d+)(%d%d%d)", "%1,%2") until count == 0
  return text
end

return digit_groups
