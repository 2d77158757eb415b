-- statistics.lua: whether two shares differ by more than chance.
-- SPDX-License-Identifier: Apache-2.0

local statistics = {}

local FEW = 5 -- expected counts below it: the exact test
local MOST = 1000000 -- samples for which that one is done

-- Area of the standard normal density beyond z >= 0, by Simpson's rule.
local function tail(z)
  local steps, h = 400, 8 / 400
  local function density(t) return math.exp(-t * t / 2) / math.sqrt(2 * math.pi) end
  local sum = density(z) + density(z + 8)
  for i = 1, steps - 1 do sum = sum + (i % 2 == 1 and 4 or 2) * density(z + i * h) end
  return sum * h / 3
end

local function by_normal(a, n, b, m)
  local p = (a + b) / (n + m)
  local z = math.abs(a / n - b / m) / math.sqrt(p * (1 - p) * (1 / n + 1 / m))
  return math.min(1, 2 * tail(z))
end

-- log of k! for k = 0 … n
local function log_factorials(n)
  local out = {[0] = 0}
  for k = 1, n do out[k] = out[k - 1] + math.log(k) end
  return out
end

-- Fisher's test: of all tables with these sums, the chance of those that are no more likely than this one.
local function exact(a, n, b, m)
  local right = a + b
  local f = log_factorials(n + m)
  local function chance(k)
    return math.exp(f[n] - f[k] - f[n - k] + f[m] - f[right - k] - f[m - right + k] - f[n + m] + f[right]
      + f[n + m - right])
  end
  local seen, sum = chance(a) * (1 + 1e-9), 0
  for k = math.max(0, right - m), math.min(n, right) do
    local c = chance(k)
    if c <= seen then sum = sum + c end
  end
  return math.min(1, sum)
end

--- The chance that two shares differ as much as these when there is no difference: two-sided, the test of two
-- proportions, or Fisher's exact one when the counts are small.
-- in   a right of n, b right of m; whole numbers
-- out  p, name of the test
function statistics.two_shares(a, n, b, m)
  local p = (a + b) / (n + m)
  if a * m == b * n then return 1, "equal" end
  if math.min(n, m) * math.min(p, 1 - p) < FEW and n + m <= MOST then return exact(a, n, b, m), "exact test" end
  return by_normal(a, n, b, m), "test of two proportions"
end

return statistics
