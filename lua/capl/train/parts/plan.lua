-- plan.lua: the header of a run: images a step, steps, rates; schedule.png before the first step.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local output = require "run.output"
local plan = require "train.plan"
local run = require "run"

local Plan = {}
Plan.__index = Plan

local function new(fit)
  if run.mode ~= "run" then return nil end
  return setmetatable({fit = fit}, Plan)
end

-- Where the parts of the loop say that something begins or ends at a step.
function Plan:moments(per_epoch)
  local o = self.fit.o
  local schedule = o.train.schedule
  local out = plan.moments(schedule and schedule.stages, per_epoch, o.steps or math.huge)
  for _, part in ipairs(self.fit.parts.list) do
    for _, moment in ipairs(part.moments and part ~= self and part:moments(per_epoch) or {}) do
      if o.steps and moment.x <= o.steps then out[#out + 1] = moment end
    end
  end
  return o.steps and out or {}
end

function Plan:lines()
  local fit, o = self.fit, self.fit.o
  local per_epoch = math.ceil(o.train:batches() / (o.accumulate or 1))
  local path = fit:path("schedule.png")
  local curves = plan.draw{optimizer = fit.optimizer, steps = o.steps, path = path, moments = self:moments(per_epoch),
    title = run.name() .. ": the plan"}
  local batch, images = plan.batch_line(o)
  local lines = {batch, plan.steps_line(o, per_epoch)}
  for _, line in ipairs(plan.rate_lines(curves, o.steps)) do lines[#lines + 1] = line end
  lines[#lines + 1] = "schedule: " .. path
  output.object{start = {folder = run.folder(), device = (core.device()), batch = o.train.batch, images_per_step = images, steps = o.steps,
    max_time = o.max_time, lr = curves[1].high, schedule = path}}
  return lines
end

return {name = "plan", new = new}
