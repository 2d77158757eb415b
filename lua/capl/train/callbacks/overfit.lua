-- overfit.lua: the key overfit of train.fit: can the model overfit a few samples? If not, more of them will not
-- help.
--
-- The same samples in every epoch and in every evaluation, as they are: no augmentation, no shuffling. The run ends
-- when they are learned.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local loaders = require "train.loaders"
local metric = require "train.metric"

local OP = "train.fit"
local LEARNT = 0.999 -- of a metric that is better when it is more
local LESS = 0.02 -- of its first value, of one that is better when it is less

local Overfit = {}
Overfit.__index = Overfit

local function prepare(o)
  if o.overfit == nil or o.overfit == false then return end
  if o.overfit == true then o.overfit = o.train.batch end
  if o.limit_batches ~= nil then check.fail(OP, "overfit and limit_batches both choose samples; give one") end
  local had = o.train:all_samples()
  o.train, o.val = loaders.held(o.train, o.overfit)
  o.test, o.tests = nil, nil
  o.overfit = {samples = o.train:all_samples(), of = had}
end

local function new(fit)
  if not fit.o.overfit then return nil end
  local counter = {n = 0}
  fit.run:add_feature{name = ("overfit = %d"):format(fit.o.overfit.samples), what = "epochs of the same samples",
    count = function() return counter.n end}
  return setmetatable({fit = fit, counter = counter, wanted = metric.read(OP, fit.o.metric)}, Overfit)
end

function Overfit:lines()
  return {("overfit: the same %d samples in training and validation, not augmented, not shuffled; no test"):format(
    self.fit.o.overfit.samples)}
end

function Overfit:epoch_ended() self.counter.n = self.counter.n + 1 end

function Overfit:evaluated(e)
  local value, better, name = metric.of(OP, self.wanted, e)
  self.first = self.first or value
  self.best = metric.improves(value, self.best, better) and value or self.best
  self.name = name
  local learned = better == "max" and value >= LEARNT or better == "min" and value <= LESS * self.first
  if not learned or self.step then return end
  self.step = e.step
  self.fit:stop("overfit", ("overfit: learned: %s of %d samples at step %d"):format(metric.text(value, name),
    self.fit.o.overfit.samples, e.step))
end

function Overfit:finish(result)
  self.counter.n = self.counter.n + 1 -- a run may end within its first epoch
  result.overfit = {samples = self.fit.o.overfit.samples, reached = self.step ~= nil, step = self.step}
  if self.step or not self.best then return end
  self.fit.run:print(("overfit: not reached: %s at best in %d steps. A model that cannot learn %d samples by heart " ..
    "has a fault " ..
    "data will not fix: try a higher lr or more steps, then check the loss, the labels and the order of the output"):format(
    metric.text(self.best, self.name), self.fit.step, self.fit.o.overfit.samples))
end

function Overfit:state() return {first = self.first, best = self.best, step = self.step, epochs = self.counter.n} end

function Overfit:set_state(state)
  self.first, self.best, self.step, self.counter.n = state.first, state.best, state.step, state.epochs
end

function Overfit.state_shape() return {first = "number?", best = "number?", step = "count?", epochs = "count"} end

return {name = "overfit", spec = {{"overfit", "whole", "boolean", from = 1}}, prepare = prepare, new = new}
