-- early_stopping.lua: train.EarlyStopping: says when a series of figures has stopped getting better, or is good enough.
--
-- One stopper watches one series; two series (say with and without averages) take two stoppers.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local Run = require "run"
local metric = require "train.metric"

local OP = "train.EarlyStopping"

--- Watches a series of figures.
-- opts patience = how many evaluations (unit = "epochs": epochs) without a better one end it; min_delta = 0 (by how much more
--      a better one is better); min_epochs = 0 (before their end patience ends nothing); target = a value that ends it at
--      once; better = "max" | "min"
-- out  an object: update(value, epoch) -> true when it is time to stop; then reason says why. best, waited, state(),
--      set_state(tree)
-- errs value: neither patience nor target
-- eg   capl.train.EarlyStopping{patience = 2}:update(0.5)  --> false
local EarlyStopping = {}
EarlyStopping.__index = EarlyStopping

EarlyStopping.spec = {
  {"patience", "whole"}, {"unit", "string", default = "evaluations"}, {"min_delta", "number", default = 0},
  {"min_epochs", "number", default = 0}, {"target", "number"}, {"better", "string", default = "max"},
}

local function check_options(op, o)
  if not o.patience and not o.target then
    check.fail(op, "nothing says when to stop", "give patience, a number of evaluations, or target, a value to reach")
  end
  if o.patience and o.patience < 1 then check.fail(op, ("patience is at least 1, got %d"):format(o.patience)) end
  check.one_of(op, "unit", o.unit, {"evaluations", "epochs"})
  check.one_of(op, "better", o.better, {"max", "min"})
  if not (o.min_delta >= 0) then check.fail(op, ("min_delta is at least 0, got %g"):format(o.min_delta)) end
  if not (o.min_epochs >= 0) then check.fail(op, ("min_epochs is at least 0, got %g"):format(o.min_epochs)) end
end

function EarlyStopping.new(opts)
  local o = check.options(OP, EarlyStopping.spec, opts)
  check_options(OP, o)
  local self = setmetatable({o = o, evaluations = 0, waited = 0}, EarlyStopping)
  Run.current().features:add_own{name = OP, what = "evaluations watched", count = function() return self.evaluations end}
  return self
end

-- Counts what has passed since the best value.
local function note(self, value, epoch)
  self.evaluations = self.evaluations + 1
  if metric.improves(value, self.best, self.o.better, self.best and self.o.min_delta) then
    self.best, self.best_epoch, self.waited = value, epoch, 0
  elseif self.o.unit == "epochs" then
    self.best_epoch = self.best_epoch or epoch
    self.waited = epoch - self.best_epoch
  else
    self.waited = self.waited + 1
  end
end

local function reached(o, value)
  if not o.target or value ~= value then return false end
  if o.better == "min" then return value <= o.target end
  return value >= o.target
end

--- Takes the next value of the series. epoch: that it was measured in.
-- out whether it is time to stop
function EarlyStopping:update(value, epoch)
  check.arg(1, "update", "number", value)
  local o = self.o
  if o.unit == "epochs" or o.min_epochs > 0 then check.arg(2, "update", "number", epoch) end
  note(self, value, epoch)
  if reached(o, value) then
    self.reason = ("target %g is reached: %g"):format(o.target, value)
    return true
  end
  if not o.patience or self.waited < o.patience or (epoch or 0) < o.min_epochs then return false end
  self.reason = ("no better value in %d %s (best %s)"):format(self.waited, o.unit, self.best and ("%.4g"):format(self.best) or "none")
  return true
end

--- {evaluations, waited, best, best_epoch}
function EarlyStopping:state()
  return {evaluations = self.evaluations, waited = self.waited, best = self.best, best_epoch = self.best_epoch}
end

function EarlyStopping:set_state(state)
  self.evaluations, self.waited, self.best, self.best_epoch = state.evaluations, state.waited, state.best, state.best_epoch
end

return EarlyStopping
