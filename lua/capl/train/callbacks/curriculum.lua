-- curriculum.lua: passes the length of the run and its metrics to the train loader's schedule.
-- SPDX-License-Identifier: Apache-2.0
local Curriculum = {}
Curriculum.__index = Curriculum

local function new(fit)
  local schedule = fit.o.train.schedule
  if not schedule then return nil end
  schedule:begin(fit.o)
  return setmetatable({schedule = schedule}, Curriculum)
end

function Curriculum:evaluated(e)
  local f = e.metrics
  self.schedule:report{exact = f.exact, chars = f.chars, confidence = f.confidence, loss = e.loss}
end

function Curriculum:finish(result) result.stages = self.schedule:history() end

return {name = "curriculum", new = new}
