-- count.lua: numbers of things and of bytes, as people write them.
-- SPDX-License-Identifier: Apache-2.0
local count = {}

--- 1, "image" -> "1 image"; 3, "image" -> "3 images"; 2, "class", "classes" -> "2 classes"
function count.of(n, thing, things) return ("%d %s"):format(n, n == 1 and thing or things or thing .. "s") end

--- 369700 -> "369.7 kB"
function count.bytes(n)
  local units = {"B", "kB", "MB", "GB", "TB"}
  local i = 1
  while n >= 1000 and i < #units do n, i = n / 1000, i + 1 end
  return i == 1 and ("%d B"):format(n) or ("%.1f %s"):format(n, units[i])
end

return count
