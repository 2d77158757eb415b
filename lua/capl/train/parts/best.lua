-- best.lua: keeps the weights of the best evaluation, in memory and as best.capl.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local capl = require "init"
local check = require "check"
local meters = require "meter"

local Best = {}
Best.__index = Best

local function read(o)
  if o.keep ~= "best" and o.keep ~= "last" then check.unknown("train.fit", "keep", o.keep, {"best", "last"}) end
end

local function new(fit) return setmetatable({fit = fit}, Best) end

local function copy_weights(model)
  return core.no_grad(function()
    local out = {}
    for name, tensor in pairs(model:state_dict()) do out[name] = capl.empty_like(tensor):copy_(tensor):keep() end
    return out
  end)
end

-- A later evaluation that is as good as the best one wins: its weights have seen more.
function Best:evaluated(e)
  local main = e.meter.main
  e.better = meters.is_better(e.meter, e.figures[main], self.figures and self.figures[main])
  if not e.better then return end
  self.step, self.figures, self.meter, self.weights = e.step, e.figures, e.meter, copy_weights(self.fit.model)
  if self.fit.o.keep == "best" then self.fit:save_model("best.capl", e.figures) end
end

--- Puts the weights to keep into the model.
function Best:restore()
  local fit = self.fit
  if fit.o.keep == "best" and self.weights and self.step ~= fit.step then fit.model:load_state_dict(self.weights) end
end

function Best:state() return {step = self.step, figures = self.figures, weights = self.weights} end

function Best:set_state(state) self.step, self.figures, self.weights = state.step, state.figures, state.weights end

return {name = "best", spec = {{"keep", "string", default = "best"}}, read = read, new = new}
