-- best_tracker.lua: train.BestTracker: the best values of a series, and where they were: the one place that decides it.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local metric = require "train.metric"

local OP = "train.BestTracker"

--- Keeps the best values of a series. Of equal ones the later is better: its weights have seen more.
-- opts better = "max" | "min"; keep = 1 (how many places there are)
-- out  an object: update(value, step) -> its place from 1 on, or nil; and the entry that lost its place, if one did;
--      best() -> value, step; list = entries {value, step}, best first; state(), set_state(tree)
-- eg   capl.train.BestTracker{better = "min"}:update(0.3, 100)  --> 1
local BestTracker = {}
BestTracker.__index = BestTracker

local spec = {{"better", "string", default = "max"}, {"keep", "whole", default = 1}}

function BestTracker.new(opts)
  local o = check.options(OP, spec, opts)
  check.one_of(OP, "better", o.better, {"max", "min"})
  if o.keep < 1 then check.fail(OP, ("keep is at least 1, got %d"):format(o.keep)) end
  return setmetatable({better = o.better, keep = o.keep, list = {}}, BestTracker)
end

--- Takes the next value of the series; what is no number takes no place.
function BestTracker:update(value, step)
  check.arg(1, "update", "number", value)
  if value ~= value then return nil end
  local place = 1
  while self.list[place] and metric.improves(self.list[place].value, value, self.better) do place = place + 1 end
  if place > self.keep then return nil end
  table.insert(self.list, place, {value = value, step = step})
  return place, table.remove(self.list, self.keep + 1)
end

--- The best value so far and its step; nil before the first.
function BestTracker:best()
  local first = self.list[1]
  if first then return first.value, first.step end
end

function BestTracker:state()
  local list = {}
  for i, entry in ipairs(self.list) do list[i] = {value = entry.value, step = entry.step} end
  return {list = list}
end

function BestTracker:set_state(state)
  self.list = {}
  for i, entry in ipairs(state.list) do self.list[i] = {value = entry.value, step = entry.step} end
end

return BestTracker
