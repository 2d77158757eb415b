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
  local low, high = centre - half, centre + half -- of none and of all right, rounding may leave the rate outside
  return right > 0 and math.max(0, low) or 0, right < n and math.min(1, high) or 1
end

--- right / n, and its interval; 0, 0, 1 of nothing.
function interval.share(right, n)
  local low, high = interval.wilson(right, n)
  return n > 0 and right / n or 0, low, high
end

return interval
