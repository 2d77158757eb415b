-- curve.lua: points of the training curve: which steps they are, their losses as soon as a device has them.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sync = require "dist.sync"
local check = require "check"
local span = require "train.span"

local LOGS = 200 -- of a run, for "auto"
local LOG_SECONDS = 5 -- between two points of the curve of a time box, at most

local Curve = {}
Curve.__index = Curve

local function read(o) check.steps("train.fit", "log_every", o.log_every) end

local function new(fit)
  return setmetatable({fit = fit, fetches = {}, due = span.marks(fit.o.log_every, LOGS), logged = 0}, Curve)
end

-- Whether this step is a point of the curve. Only a time box may ask the clock.
function Curve:is_point()
  local fit = self.fit
  local due = self.due:passed(fit.step, fit.span.position) or fit.step == 1
  if not due and fit.o.max_time then due = fit.span:seconds() - self.logged >= LOG_SECONDS end
  if due then self.logged = fit.span:seconds() end
  return due
end

function Curve:after_step(loss)
  if self:is_point() then
    local at = self.fit:at()
    self.fit.callbacks:notify("point", at)
    table.insert(self.fetches, {loss = core.fetch(sync.mean(loss)), at = at, lr = self.fit.lr})
  end
  self:note(false)
end

-- Losses of earlier steps become points of the curve as soon as they are known; all of them when `all` is set.
function Curve:note(all)
  local list = self.fetches
  while list[1] and (all or list[1].loss:ready()) do
    local first = table.remove(list, 1)
    local value = first.loss:value()
    self.fit:check_loss(value, first.at.step)
    self.fit.record:step(first.at, value, first.lr)
  end
end

function Curve:before_evaluation() self:note(true) end
function Curve:finish() self:note(true) end
function Curve:stopped() self:note(true) end

function Curve:state()
  self:note(true)
  return {marks = self.due:state(), logged = self.logged}
end

function Curve:set_state(state)
  self.due:set_state(state.marks)
  self.logged = state.logged
end

function Curve:state_shape() return {marks = self.due.state_shape(), logged = "amount"} end

return {name = "curve", spec = {{"log_every", "whole", "string", default = "auto"}}, read = read, new = new}
