-- ranks.lua: in each point of the curve, how the ranks of a world stand: who holds most memory, and who the others wait
-- for.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sync = require "dist.sync"
local of_ranks = require "run.ranks"

local Ranks = {}
Ranks.__index = Ranks

local function new(fit)
  local world = sync.world()
  if not world or core.device() == "meta" then return nil end
  return setmetatable({fit = fit, world = world, at = core.clock(), waited = world:traffic().waited}, Ranks)
end

-- This rank's memory, and the share of the time since the last point in which it waited for others.
local function own(self)
  local now, waited = core.clock(), self.world:traffic().waited
  local share = (waited - self.waited) / math.max(now - self.at, 1e-9)
  self.at, self.waited = now, waited
  return {memory = of_ranks.peak_memory(), waited = math.min(1, share)}
end

--- All ranks come to the same points.
function Ranks:point(at)
  local out = {memory_most = 0, waited_least = math.huge, waited_most = 0}
  for i, one in ipairs(self.world:all_gather_object(own(self))) do
    if one.memory > out.memory_most then out.memory_most, out.memory_rank = one.memory, i - 1 end
    if one.waited < out.waited_least then out.waited_least, out.slowest = one.waited, i - 1 end
    out.waited_most = math.max(out.waited_most, one.waited)
  end
  at.ranks = out
end

return {name = "ranks", new = new}
