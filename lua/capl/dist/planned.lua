-- planned.lua: a world of ranks that is only planned: recipes see its size, and nothing is exchanged.
--
-- For `capl check RECIPE --ranks=N` and the plan of a recipe whose GPUs are not here. Its tensors are on device meta.
-- SPDX-License-Identifier: Apache-2.0
local function itself(_, t) return t end

-- What an asynchronous exchange returns.
local function given(_, t, opts)
  if not (opts and opts.async) then return t end
  return {wait = function() return t end, done = function() return true end}
end

local function all_alike(self, value)
  local out = {}
  for i = 1, self.size do out[i] = value end
  return out
end

local calls = {
  all_reduce = given, broadcast = given, exchange = itself, barrier = function() end, hold = function() end,
  all_gather_text = all_alike, all_gather_object = all_alike,
  sum = function(self, values)
    local out = {}
    for key, value in pairs(values) do out[key] = value * self.size end
    return out
  end,
  traffic = function() return {calls = 0, bytes = 0, busy = 0, waited = 0} end,
}

--- Makes a world of one that many ranks, of which this process is the first.
local function plan(world, size)
  world.size, world.local_size, world.planned = size, size, true
  for name, fn in pairs(calls) do world[name] = fn end
  return world
end

return plan
