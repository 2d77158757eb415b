-- lr_rule.lua: the keys lr_rule and base_batch of train.fit: the rate that a step of this size takes.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local lr_factor = require "optim.lr_factor"

local OP = "train.fit"

local Rule = {}
Rule.__index = Rule

local function read(o)
  lr_factor(o.lr_rule, 1, 1)
  if o.lr_rule == "none" then
    if o.base_batch then
      check.fail(OP, "base_batch has no effect with lr_rule = \"none\"", 'lr_rule = "linear" or "sqrt" uses it')
    end
    return
  end
  if not o.base_batch then
    check.fail(OP, ("lr_rule = \"%s\" wants base_batch"):format(o.lr_rule),
      "the images per step that the learning rate is for")
  end
end

-- Images of a step: all processes and accumulated batches together.
local function step_images(o) return o.train.batch * o.accumulate * (o.train.low and o.train.low.world or 1) end

local function new(fit)
  local o = fit.o
  if o.lr_rule == "none" then return nil end
  local self = setmetatable({fit = fit, images = step_images(o), counter = {n = 0}}, Rule)
  self.factor = lr_factor(o.lr_rule, self.images, o.base_batch)
  o.optimizer:set_lr_factor(self.factor)
  local counter = self.counter
  fit.run:add_feature{name = "lr_rule = " .. o.lr_rule, what = "steps at the scaled learning rate", count = function()
    return counter.n end}
  return self
end

function Rule:lines()
  local o, factor = self.fit.o, self.factor
  local rate = self.fit.optimizer.lr
  return {("lr_rule: %s: %d images per step, the learning rate is for %d: times %.4g; at the first step %.4g x %.4g " ..
    "= %.4g"):format(
    o.lr_rule,
    self.images, o.base_batch, factor, rate / factor, factor, rate)}
end

function Rule:after_step() self.counter.n = self.counter.n + 1 end

function Rule:state() return {steps = self.counter.n} end
function Rule:set_state(state) self.counter.n = state.steps end
function Rule.state_shape() return {steps = "count"} end

return {name = "lr_rule", spec = {{"lr_rule", "string", default = "none"}, {"base_batch", "whole", from = 1}},
  read = read, new = new}
