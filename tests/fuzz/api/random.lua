-- random.lua: numbers that follow from a seed alone: what is called may well seed math.random.
-- SPDX-License-Identifier: Apache-2.0
local bit, floor = bit, math.floor
local band, bxor, lshift, rshift = bit.band, bit.bxor, bit.lshift, bit.rshift

local random = {}
local state = 1

function random.seed(n)
  state = band(n * 2654435761 % 4294967296, 0xffffffff)
  if state == 0 then state = 1 end
end

local function next_bits()
  state = bxor(state, lshift(state, 13))
  state = bxor(state, rshift(state, 17))
  state = bxor(state, lshift(state, 5))
  return state % 4294967296
end

--- A whole number of 1 … n.
function random.upto(n) return floor(next_bits() / 4294967296 * n) + 1 end

--- Whether it happens that happens with probability p.
function random.chance(p) return next_bits() / 4294967296 < p end

--- An entry of a list.
function random.pick(list) return list[random.upto(#list)] end

--- An entry of a list {weight, value, weight, value, …}.
function random.weighted(list)
  local sum = 0
  for i = 1, #list, 2 do sum = sum + list[i] end
  local at = random.upto(sum)
  for i = 1, #list, 2 do
    at = at - list[i]
    if at <= 0 then return list[i + 1] end
  end
end

return random
