-- bench_stats.lua: medians, their spread, and intervals that assume nothing about how times are distributed.
-- SPDX-License-Identifier: Apache-2.0
local stats = {}

local function sorted(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = x end
  table.sort(out)
  return out
end

--- The value below which a share q of the list lies, between two values in proportion.
function stats.quantile(list, q)
  local s = sorted(list)
  local at = 1 + q * (#s - 1)
  local low = math.floor(at)
  return s[low] + (at - low) * ((s[low + 1] or s[low]) - s[low])
end

function stats.median(list) return stats.quantile(list, 0.5) end

--- {median, low, high}: the middle and the quartiles
function stats.spread(list)
  return {median = stats.median(list), low = stats.quantile(list, 0.25), high = stats.quantile(list, 0.75)}
end

-- The chance that at most k of n coins show heads.
local function at_most(k, n)
  local term, sum = 0.5 ^ n, 0
  for i = 0, k do
    sum = sum + term
    term = term * (n - i) / (i + 1)
  end
  return sum
end

--- An interval that holds the true median of what the list was drawn from: between two values of the list, by how
-- likely so many draws lie on one side of it. nil when the list is too short to say so.
-- in  miss: the chance that it does not hold it, 0.05
function stats.interval(list, miss)
  local s, n, k = sorted(list), #list, 0
  while 2 * at_most(k, n) <= miss do k = k + 1 end
  if k == 0 then return nil end
  return s[k], s[n + 1 - k]
end

--- The fewest values for which there is an interval.
function stats.fewest(miss)
  local n = 1
  while 2 * 0.5 ^ n > miss do n = n + 1 end
  return n
end

return stats
