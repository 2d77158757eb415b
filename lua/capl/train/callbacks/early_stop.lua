-- early_stop.lua: the key early_stop of train.fit: the run ends when the figure of val has stopped getting better.
-- SPDX-License-Identifier: Apache-2.0
local EarlyStopping = require "train.early_stopping"
local check = require "check"
local metric = require "train.metric"
local span = require "train.span"

local OP = "train.fit: early_stop"

local Stop = {}
Stop.__index = Stop

local function read(o, run)
  if type(o.early_stop) == "number" then o.early_stop = {patience = o.early_stop} end
  if not o.early_stop then return end
  if not o.val then check.fail(OP, "there is no val loader to watch", "give val, or leave early_stop out") end
  local spec = {{"metric", "string", "table"}, unpack(EarlyStopping.spec)}
  local given = check.options(OP, spec, o.early_stop)
  local wanted = metric.read(OP, given.metric or o.metric)
  given.metric = nil
  o.early_stop = {options = given, metric = wanted, asked_better = o.early_stop.better}
  run.features:apart(EarlyStopping.new, given)
end

local function new(fit)
  local given = fit.o.early_stop
  if not given then return nil end
  local self = setmetatable({fit = fit, metric = given.metric, options = given.options, asked_better = given.asked_better,
    counter = {n = 0}}, Stop)
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

function Stop:evaluated(e)
  local value, better, name = metric.of(OP, self.metric, e)
  local stopper, fit = stopper_of(self, better), self.fit
  local over = stopper:update(value, fit.epoch)
  self.counter.n = stopper.evaluations
  if over and not fit.span:over() then fit:stop("early_stop", ("early stop of %s: %s"):format(name, stopper.reason)) end
end

-- How many evaluations, or epochs, the run will have; nil when nobody knows.
local function ahead(o)
  if not o.steps then return nil end
  if o.early_stop.options.unit == "epochs" then return o.steps / math.max(o.train:batches() / (o.accumulate or 1), 1) end
  return type(o.eval_every) == "number" and math.floor(o.steps / o.eval_every) or math.min(span.EVALUATIONS, o.steps)
end

function Stop:lines()
  local o, all = self.options, ahead(self.fit.o)
  local when = o.patience and ("after %d %s without a better one"):format(o.patience, o.unit) or "at the target"
  local lines = {("early_stop: %s%s"):format(when, o.target and (", target %g"):format(o.target) or "")}
  if o.patience and not o.target and all and o.patience >= all then
    lines[2] = ("note: early_stop cannot end this run: patience is %d %s, and there are %d"):format(o.patience, o.unit,
      math.floor(all))
  end
  return lines
end

function Stop:state() return self.stopper and self.stopper:state() or self.saved end

function Stop:set_state(state)
  self.saved = state
  self.counter.n = state.evaluations
  if self.stopper then self.stopper:set_state(state) end
end

--- The state of a run that it has ended, for one that is to be longer: patience counts anew.
function Stop.go_on(state)
  local out = {}
  for key, value in pairs(state or {}) do out[key] = value end
  out.waited, out.best_epoch = 0, nil
  return state and out
end

return {name = "early_stop", spec = {{"early_stop", "whole", "table", "boolean"}}, read = read, new = new}
