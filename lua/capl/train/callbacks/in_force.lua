-- in_force.lua: the first lines of a run's header: the keys of train.fit and the options of its optimisers as they are in force.
-- SPDX-License-Identifier: Apache-2.0
local in_force = require "train.in_force"

local InForce = {}
InForce.__index = InForce

local function new(fit)
  if fit.run.mode ~= "run" then return nil end
  return setmetatable({fit = fit}, InForce)
end

-- What settings.json keeps of it is written with the first step.
function InForce:lines()
  local run, o = self.fit.run, self.fit.o
  local loop, optimizers = in_force.loop(run, o.keys, o.given, o), in_force.optimizers(self.fit.optimizer)
  local lines = in_force.lines("train.fit", loop)
  run.in_force = {loop = in_force.by_key(loop), optimizers = {}}
  for i, opt in ipairs(optimizers) do
    run.in_force.optimizers[i] = {name = opt.name, options = in_force.by_key(opt.options)}
    for _, line in ipairs(in_force.lines(opt.name, opt.options)) do lines[#lines + 1] = line end
  end
  return lines
end

return {name = "in_force", new = new}
