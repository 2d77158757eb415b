-- ema.lua: the key ema of train.fit: evaluations, best.capl and the model in the end are of averaged weights.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local new_ema = require "train.ema"

local Ema = {}
Ema.__index = Ema

local function read(o)
  if type(o.ema) == "number" then o.ema = {decay = o.ema} end
  if o.ema == false then o.ema = nil end
  if o.ema == true then o.ema = {} end
  if o.ema and type(o.ema.every) == "number" and o.steps and o.ema.every > o.steps and not o.dry_run then
    check.fail("train.fit", ("ema: every = %d never comes in a run of %d steps"):format(o.ema.every, o.steps))
  end
end

local function new(fit)
  if not fit.o.ema then return nil end
  local ema = fit.run.features:apart(new_ema, fit.model, fit.o.ema)
  local counter = ema.counter
  fit.run:add_feature{name = ("ema = %g"):format(ema.decay), what = "updates of the averages", count = function() return counter.n end}
  return setmetatable({ema = ema}, Ema)
end

function Ema:lines()
  local ema = self.ema
  local how = ema.warmup == true and ", less at first" or type(ema.warmup) == "number" and (", over %g updates"):format(ema.warmup) or ""
  return {("ema: decay %g%s; %d tensors, buffers included; evaluations and saved models are of the averages"):format(
    ema.decay, how, #ema.entries)}
end

function Ema:after_step() self.ema:update() end

function Ema:before_evaluation() self.ema:apply() end
function Ema:after_evaluation() self.ema:restore() end
--- From here on the model holds what it is kept for.
function Ema:keep() self.ema:apply() end

function Ema:state() return self.ema:state() end

function Ema:set_state(state) self.ema:set_state(state) end

return {name = "ema", spec = {{"ema", "number", "table", "boolean"}}, read = read, new = new}
