-- plateau.lua: reports the metrics of every evaluation to schedules that follow one (optim.schedule.plateau).
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local metric = require "train.metric"
local schedule = require "optim.schedule"

local OP = "train.fit"

local Plateau = {}
Plateau.__index = Plateau

-- Schedules that follow metrics among those of an optimizer, each once, however many groups use it.
local function followers(optimizer)
  local out, seen = {}, {}
  for _, group in ipairs(optimizer.groups or {}) do
    local found = schedule.is(group.lr) and group.lr:follower() or nil
    if found and not seen[found] then
      seen[found] = true
      table.insert(out, {schedule = found, metric = found.options.metric})
    end
  end
  return out
end

local function read(o)
  local list = followers(o.optimizer)
  if #list > 0 and not o.val then
    check.fail(OP, "the schedule.plateau of the optimizer follows a val metric, and there is no val loader")
  end
  for _, follower in ipairs(list) do metric.read(OP, follower.metric or o.metric) end
end

local function new(fit)
  local list = followers(fit.optimizer)
  if #list == 0 then return nil end
  local counter = {n = 0}
  fit.run:add_feature{name = "schedule.plateau", what = "reported metrics", count = function() return counter.n end}
  return setmetatable({fit = fit, list = list, counter = counter}, Plateau)
end

function Plateau:evaluated(e)
  local before, fell = self.fit.optimizer.lr, false
  for _, follower in ipairs(self.list) do
    local value, better = metric.of(OP, metric.read(OP, follower.metric or self.fit.o.metric), e)
    fell = follower.schedule:report(value, better) or fell
  end
  self.counter.n = self.counter.n + 1
  if not fell then return end
  self.fit.optimizer:set_position(self.fit.span.position)
  self.fit.run:print(("plateau: the learning rate is reduced from %.4g to %.4g"):format(before, self.fit.optimizer.lr))
end

--- The schedules' own state is in the optimizer's.
function Plateau:state() return {reported = self.counter.n} end
function Plateau:set_state(state) self.counter.n = state.reported or state.told or 0 end
function Plateau.state_shape() return {reported = "count?", told = "count?"} end

return {name = "plateau", read = read, new = new}
