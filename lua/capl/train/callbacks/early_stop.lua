-- early_stop.lua: train.EarlyStopping, and the key early_stop of train.fit: the run ends when the metric of val has
-- stopped getting better.
--
-- One stopper watches one series; two series (say with and without averages) take two stoppers.
-- SPDX-License-Identifier: Apache-2.0
local _, observer = ...

local Run = require "run"
local check = require "check"
local metric = require "train.metric"
local span = require "train.span"

local OP = "train.EarlyStopping"

--- Watches a series of metrics.
-- opts patience = how many evaluations (unit = "epochs": epochs) without a better one end it; min_delta = 0 (by how
--      much more a better one is better); min_epochs = 0 (before their end patience ends nothing); target = a value
--      that ends it at once; better = "max" | "min"
-- out  an object: update(value, epoch[, second]) -> true when it is time to stop; then reason says why. best, waited,
--      state(), set_state(tree)
-- errs value: neither patience nor target
-- eg   capl.train.EarlyStopping{patience = 2}:update(0.5)  --> false
local EarlyStopping = {}
EarlyStopping.__index = EarlyStopping

EarlyStopping.spec = {
  {"patience", "whole", from = 1}, {"unit", "string", default = "evaluations"},
  {"min_delta", "number", default = 0, from = 0}, {"min_epochs", "number", default = 0, from = 0}, {"target", "number"},
  {"better", "string", default = "max"},
}

local function check_options(op, o)
  if not o.patience and not o.target then
    check.fail(op, "a stop condition is missing", "give patience, a number of evaluations, or target, a value to reach")
  end
  check.one_of(op, "unit", o.unit, {"evaluations", "epochs"})
  check.one_of(op, "better", o.better, {"max", "min"})
end

function EarlyStopping.new(opts)
  local o = check.options(OP, EarlyStopping.spec, opts)
  check_options(OP, o)
  local self = setmetatable({o = o, evaluations = 0, waited = 0}, EarlyStopping)
  Run.of(observer).features:add_own{name = OP, what = "evaluations watched", count = function()
    return self.evaluations end}
  return self
end

-- Of equal values a greater second one is better: no text is read right for long, while more and more characters are.
local function improves(self, value, second)
  if metric.improves(value, self.best, self.o.better, self.best and self.o.min_delta) then return true end
  return value == self.best and second ~= nil and metric.improves(second, self.second, "max",
    self.second and self.o.min_delta)
end

-- Counts what has passed since the best value.
local function note(self, value, epoch, second)
  self.evaluations = self.evaluations + 1
  if improves(self, value, second) then
    self.best, self.second, self.best_epoch, self.waited = value, second, epoch, 0
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

--- Takes the next value of the series. epoch: that it was measured in. second: optional, decides between equal values,
-- the greater one is better.
-- out whether it is time to stop
function EarlyStopping:update(value, epoch, second)
  check.arg(1, "update", "number", value)
  local o = self.o
  if o.unit == "epochs" or o.min_epochs > 0 then check.arg(2, "update", "number", epoch) end
  note(self, value, epoch, second)
  if reached(o, value) then
    self.reason = ("target %g is reached: %g"):format(o.target, value)
    return true
  end
  if not o.patience or self.waited < o.patience or (epoch or 0) < o.min_epochs then return false end
  self.reason = ("no better value in %d %s (best %s)"):format(self.waited, o.unit, self.best
    and ("%.4g"):format(self.best) or "none")
  return true
end

--- {evaluations, waited, best, second, best_epoch}
function EarlyStopping:state()
  return {evaluations = self.evaluations, waited = self.waited, best = self.best, second = self.second,
    best_epoch = self.best_epoch}
end

function EarlyStopping:set_state(state)
  for _, key in ipairs{"evaluations", "waited", "best", "second", "best_epoch"} do self[key] = state[key] end
end

--- What set_state takes, as train/saved_state.lua reads it.
function EarlyStopping.state_shape()
  return {evaluations = "count", waited = "number", best = "number?", second = "number?", best_epoch = "number?"}
end

-- ---- the callback of train.fit ----

local KEY = "train.fit: early_stop"

local Callback = {}
Callback.__index = Callback

local function read(o, run)
  if type(o.early_stop) == "number" then o.early_stop = {patience = o.early_stop} end
  if not o.early_stop then return end
  if not o.val then check.fail(KEY, "there is no val loader to watch", "give val, or leave early_stop out") end
  local spec = {{"metric", "string", "table"}, unpack(EarlyStopping.spec)}
  local given = check.options(KEY, spec, o.early_stop)
  local wanted = metric.read(KEY, given.metric or o.metric)
  given.metric = nil
  o.early_stop = {options = given, metric = wanted, asked_better = o.early_stop.better}
  run.features:apart(EarlyStopping.new, given)
end

local function new(fit)
  local given = fit.o.early_stop
  if not given then return nil end
  local self = setmetatable({fit = fit, metric = given.metric, options = given.options,
    asked_better = given.asked_better, counter = {n = 0}}, Callback)
  local counter = self.counter
  fit.run:add_feature{name = "early_stop", what = "evaluations watched", count = function() return counter.n end}
  return self
end

-- Which way is better is known with the first evaluation.
local function stopper_of(self, better)
  if not self.stopper then
    self.options.better = self.asked_better or better
    self.stopper = self.fit.run.features:apart(EarlyStopping.new, self.options)
    if self.saved then self.stopper:set_state(self.saved) end
  end
  return self.stopper
end

function Callback:evaluated(e)
  local value, better, name = metric.of(KEY, self.metric, e)
  local stopper, fit = stopper_of(self, better), self.fit
  local over = stopper:update(value, fit.epoch, metric.second(name, e))
  self.counter.n = stopper.evaluations
  if over and not fit.span:over() then fit:stop("early_stop", ("early stop of %s: %s"):format(name, stopper.reason)) end
end

-- How many evaluations, or epochs, the run will have; nil when nobody knows.
local function ahead(o)
  if not o.steps then return nil end
  if o.early_stop.options.unit == "epochs" then
    return o.steps / math.max(o.train:batches() / (o.accumulate or 1), 1)
  end
  return type(o.eval_every) == "number" and math.floor(o.steps / o.eval_every) or math.min(span.EVALUATIONS, o.steps)
end

function Callback:lines()
  local o, all = self.options, ahead(self.fit.o)
  local when = o.patience and ("after %d %s without a better one"):format(o.patience, o.unit) or "at the target"
  local lines = {("early_stop: %s%s"):format(when, o.target and (", target %g"):format(o.target) or "")}
  if o.patience and not o.target and all and o.patience >= all then
    lines[2] = ("note: early_stop cannot end this run: patience is %d %s, and there are %d"):format(o.patience, o.unit,
      math.floor(all))
  end
  return lines
end

function Callback:state() return self.stopper and self.stopper:state() or self.saved end

function Callback:set_state(state)
  self.saved = state
  self.counter.n = state.evaluations
  if self.stopper then self.stopper:set_state(state) end
end

Callback.state_shape = EarlyStopping.state_shape

--- The state of a run that it has ended, for one that is to be longer: patience counts anew.
function Callback.on_resume(state)
  local out = {}
  for key, value in pairs(state or {}) do out[key] = value end
  out.waited, out.best_epoch = 0, nil
  return state and out
end

return {name = "early_stop", spec = {{"early_stop", "whole", "table", "boolean"}},
  read = read, new = new, EarlyStopping = EarlyStopping}
