-- interval.lua: how sure a counted share is.
-- SPDX-License-Identifier: Apache-2.0
local interval = {}

local Z = 1.959964 -- 95 %

--- Interval that holds the true rate with 95 % confidence (Wilson's score interval).
-- right of n samples -> lower, upper, both in 0..1
function interval.wilson(right, n)
  if n == 0 then return 0, 1 end
  local p, zz = right / n, Z * Z / n
  local centre = (p + zz / 2) / (1 + zz)
  local half = Z * math.sqrt(p * (1 - p) / n + zz / (4 * n)) / (1 + zz)
  return math.max(0, centre - half), math.min(1, centre + half)
end

--- right / n, and its interval; 0, 0, 1 of nothing.
function interval.share(right, n)
  local low, high = interval.wilson(right, n)
  return n > 0 and right / n or 0, low, high
end

return interval
