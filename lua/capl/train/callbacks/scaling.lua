-- scaling.lua: in a world of several ranks: which share of a step does not wait for the others, after the first steps
-- and at the end.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local dist = require "dist"

local FIRST, LAST = 3, 13 -- steps between which is measured; before them memory is found and plans are made
local PAYS = 0.65 -- efficiency: below it half as many ranks would do nearly as well

local Scaling = {}
Scaling.__index = Scaling

local function new(fit)
  local world = dist.world()
  if world.size < 2 or world.planned or fit.run.mode ~= "run" then return nil end
  return setmetatable({fit = fit, world = world}, Scaling)
end

-- nil: nothing was trained.
local function efficiency(took, waited) return took > 0 and math.max(0, 1 - waited / took) or nil end

local function milliseconds(x) return (x >= 0.01 and "%.0f ms" or "%.2f ms"):format(1000 * x) end

--- Between the first steps and some more: seconds of a step, and how many of them this rank has waited.
function Scaling:report()
  local run = self.fit.run
  local took, waited, steps = core.clock() - self.since, self.world:traffic().waited - self.before, LAST - FIRST
  local share = efficiency(took, waited)
  if not share then return end
  run:print(("efficiency %.0f %%: of a step of %s a rank waits %s for others"):format(100 * share,
    milliseconds(took / steps), milliseconds(waited / steps)))
  if share >= PAYS then return end
  run:print(("warning: %d ranks do the work of %.1f; a larger batch per rank, or accumulate, computes more between " ..
    "two " ..
    "exchanges"):format(self.world.size, self.world.size * share))
end

function Scaling:after_step()
  local steps = self.fit.step - (self.from or 0)
  if steps == FIRST then
    self.since, self.before = core.clock(), self.world:traffic().waited
  elseif steps == LAST and self.since then
    self:report()
  end
end

--- A resumed run measures its own first steps.
function Scaling:begin()
  local traffic = self.world:traffic()
  self.from, self.began, self.waited, self.calls = self.fit.step, core.clock(), traffic.waited, traffic.calls
end

-- Evaluations are between two steps, and their exchanges none of training.
function Scaling:before_evaluation()
  self.paused, self.at_pause = core.clock(), self.world:traffic().waited
end

function Scaling:after_evaluation()
  if not self.paused then return end
  local took, waited = core.clock() - self.paused, self.world:traffic().waited - self.at_pause
  self.began, self.waited = self.began + took, self.waited + waited
  if self.since then self.since, self.before = self.since + took, self.before + waited end
  self.paused = nil
end

function Scaling:finish(result)
  local traffic = self.world:traffic()
  if traffic.calls == self.calls then return end
  result.efficiency = efficiency(core.clock() - self.began, traffic.waited - self.waited)
  if result.efficiency then
    self.fit.run:print(("efficiency %.0f %%: %d ranks"):format(100 * result.efficiency, self.world.size))
  end
end

return {name = "scaling", new = new}
