-- cooldown.lua: the key cooldown of train.fit: when val stops improving, the final learning-rate decay starts.
--
-- Early stopping ends a run with learning rates that are still high. Here the run's position jumps to the start of its
-- last share, so that a schedule of length "run" first decays to its end.
-- SPDX-License-Identifier: Apache-2.0
local EarlyStopping = require("train.callbacks.early_stop").EarlyStopping
local check = require "check"
local metric = require "train.metric"

local OP = "train.fit: cooldown"

local Cooldown = {}
Cooldown.__index = Cooldown

local function read(o, run)
  if type(o.cooldown) == "number" then o.cooldown = {patience = o.cooldown} end
  if not o.cooldown then return end
  if not o.val then check.fail(OP, "there is no val loader to watch", "give val, or leave cooldown out") end
  local given = check.options(OP,
    {{"metric", "string", "table"}, {"share", "number", default = 0.25}, unpack(EarlyStopping.spec)}, o.cooldown)
  if not (given.share > 0 and given.share < 1) then
    check.fail(OP, ("share is a fraction of the run, above 0 and below 1, got %g"):format(given.share))
  end
  local asked = o.cooldown.better
  o.cooldown = {share = given.share, metric = metric.read(OP, given.metric or o.metric), asked_better = asked,
    options = given}
  given.metric, given.share = nil, nil
  run.features:apart(EarlyStopping.new, given)
end

local function new(fit)
  local given = fit.o.cooldown
  if not given then return nil end
  local self = setmetatable({fit = fit, given = given, counter = {n = 0}}, Cooldown)
  local counter = self.counter
  fit.run:add_feature{name = "cooldown", what = "evaluations watched", count = function() return counter.n end}
  return self
end

-- Which way is better is known with the first evaluation.
local function stopper_of(self, better)
  if not self.stopper then
    self.given.options.better = self.given.asked_better or better
    self.stopper = self.fit.run.features:apart(EarlyStopping.new, self.given.options)
    if self.saved then self.stopper:set_state(self.saved) end
  end
  return self.stopper
end

-- The share of the run that is left may be less than the cooldown already.
local function begin_end(self, name, reason)
  local fit = self.fit
  self.last = fit.step
  if fit.span.position >= 1 - self.given.share then return end
  self.steps = fit.span:start_cooldown(self.given.share)
  fit.run:print(("cooldown: %s: %s; the final learning-rate decay starts: the last %d of %d steps"):format(
    name, reason, self.steps - fit.step, self.steps))
end

function Cooldown:evaluated(e)
  if self.last then return end
  local value, better, name = metric.of(OP, self.given.metric, e)
  local stopper = stopper_of(self, better)
  local over = stopper:update(value, self.fit.epoch, metric.second(name, e))
  self.counter.n = stopper.evaluations
  if over then begin_end(self, name, stopper.reason) end
end

function Cooldown:lines()
  local o = self.given.options
  local when = o.patience and ("after %d %s without a better one"):format(o.patience, o.unit) or "at the target"
  return {("cooldown: %s%s the last %d %% of the run begin"):format(when, o.target and (", or at %g,"):format(o.target)
    or "", 100 * self.given.share)}
end

function Cooldown:state()
  return {watched = self.stopper and self.stopper:state() or self.saved, last = self.last, steps = self.steps,
    n = self.counter.n}
end

function Cooldown:set_state(state)
  self.saved, self.last, self.steps, self.counter.n = state.watched, state.last, state.steps, state.n
  if self.steps then self.fit.span:shorten(self.steps) end
end

function Cooldown.state_shape()
  local watched = EarlyStopping.state_shape()
  watched["?"] = true
  return {watched = watched, last = "count?", steps = "count?", n = "count"}
end

return {name = "cooldown", spec = {{"cooldown", "whole", "table"}}, read = read, new = new}
