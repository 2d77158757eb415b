-- ema_compare.lua: the key ema_compare of train.fit: the weights as they are trained are evaluated beside their
-- averages.
--
-- A series of its own, with a best tracker of its own: nothing is chosen or ended by it.
-- SPDX-License-Identifier: Apache-2.0
local BestTracker = require("train.callbacks.best").BestTracker
local check = require "check"
local metric = require "train.metric"

local OP = "train.fit"

local Compare = {}
Compare.__index = Compare

local function read(o)
  if not o.ema_compare then return end
  if not o.ema then check.fail(OP, "ema_compare = true, but there is no ema to compare with") end
  if not o.val then check.fail(OP, "ema_compare = true, but there is no val loader to compare on") end
end

local function new(fit)
  if not fit.o.ema_compare then return nil end
  local counter = {n = 0}
  fit.run:add_feature{name = "ema_compare", what = "evaluations of the weights as they are trained",
    count = function() return counter.n end}
  return setmetatable({fit = fit, counter = counter, wanted = metric.read(OP, fit.o.metric)}, Compare)
end

-- A line of metrics.jsonl: plain_val_loss, plain_val_exact …
local function write_line(fit, e)
  local line = {step = e.step, images = e.images, seconds = e.seconds, plain_val_loss = e.loss}
  for name, value in pairs(e.metrics) do
    if type(value) == "number" then line["plain_val_" .. name] = value end
  end
  fit.record:line(line)
end

--- The averages are out of the model by now. e without metrics: the evaluation was stopped half-way.
function Compare:after_evaluation(e)
  if not e.metrics then return end
  local fit = self.fit
  local meter = fit:read(fit.o.val, true)
  local plain = {step = e.step, images = e.images, seconds = e.seconds, metrics = meter:result(), meter = meter,
    loss = meter.loss}
  local value, better, name = metric.of(OP, self.wanted, plain)
  self.name, self.val = name, plain.metrics
  self.tracker = self.tracker or BestTracker.new{better = better}
  self.tracker.better = better
  self.tracker:update(value, e.step)
  self.counter.n = self.counter.n + 1
  write_line(fit, plain)
end

function Compare:finish(result)
  if not self.tracker then return end -- nothing was evaluated
  local value, step = self.tracker:best()
  result.plain = {val = self.val, best_step = step, best = value, metric = self.name}
  if value then
    self.fit.run:print(("without averages: best %s at step %d"):format(metric.text(value, self.name), step))
  end
end

function Compare:state()
  return {n = self.counter.n, name = self.name, val = self.val, tracker = self.tracker and self.tracker:state()}
end

function Compare:set_state(state)
  self.counter.n, self.name, self.val = state.n, state.name, state.val
  self.tracker = BestTracker.new()
  if state.tracker then self.tracker:set_state(state.tracker) end
end

function Compare.state_shape()
  local tracker = BestTracker.state_shape()
  tracker["?"] = true
  return {n = "count", name = "text?", val = "metrics?", tracker = tracker}
end

return {name = "ema_compare", spec = {{"ema_compare", "boolean", default = false}}, read = read, new = new}
