-- plan.lua: the header of a run: images a step, steps, rates; schedule.png before the first step.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local output = require "output"
local plan = require "train.plan"

local Plan = {}
Plan.__index = Plan

local function new(fit)
  if fit.run.mode ~= "run" then return nil end
  return setmetatable({fit = fit}, Plan)
end

-- Where the parts of the loop say that something begins or ends at a step.
function Plan:moments(per_epoch, steps)
  if not steps then return {} end
  local o = self.fit.o
  local schedule = o.train.schedule
  local out = plan.moments(schedule and schedule.stages, per_epoch, steps)
  for _, part in ipairs(self.fit.parts.list) do
    for _, moment in ipairs(part.moments and part ~= self and part:moments(per_epoch) or {}) do
      if moment.x <= steps then out[#out + 1] = moment end
    end
  end
  return out
end

-- Steps of the run; of a dry run those that it would have.
local function steps_of(o, per_epoch)
  local p = o.planned
  if not p then return o.steps end
  local samples = p.samples and p.samples / (o.train.batch * (o.accumulate or 1) * (o.train.low and o.train.low.world or 1))
  local steps = p.steps or p.epochs and p.epochs * per_epoch or samples
  return steps and math.max(1, math.floor(steps))
end

function Plan:lines()
  local run = self.fit.run
  local fit, o = self.fit, self.fit.o
  local per_epoch = math.ceil(o.train:batches() / (o.accumulate or 1))
  local path, steps = fit:path("schedule.png"), steps_of(o, per_epoch)
  local curves = plan.draw{optimizer = fit.optimizer, steps = steps, path = path, moments = self:moments(per_epoch, steps),
    title = run:name() .. ": the plan"}
  local batch, images = plan.batch_line(o)
  local lines = {batch, plan.steps_line(o, steps, per_epoch)}
  for _, line in ipairs(plan.rate_lines(curves, steps)) do lines[#lines + 1] = line end
  lines[#lines + 1] = "schedule: " .. path
  output.object{start = {folder = run:folder(), device = (core.device()), batch = o.train.batch, images_per_step = images, steps = steps,
    max_time = o.max_time, lr = curves[1].high, schedule = path}}
  return lines
end

return {name = "plan", new = new}
