-- monitor.lua: what the run does to the machine: means per point of the curve, totals in result.json, warnings as they come.
-- SPDX-License-Identifier: Apache-2.0
local _ = ...

local machine = require "train.machine"
local monitor = require "train.monitor"

local Part = {}
Part.__index = Part

-- Key of train.fit; without it the setting of that name, which every recipe has.
local function read(o, run)
  o.monitor_asked = o.monitor_every ~= nil
  if o.monitor_every == nil then o.monitor_every = run:setting("monitor_every") or 1 end
  monitor.check_every("train.fit", "monitor_every", o.monitor_every, true)
end

local function new(fit)
  local run, o = fit.run, fit.o
  local is_real = run.mode == "run" or (run.mode == "none" and o.monitor_asked)
  if o.monitor_every == 0 or not is_real then return nil end
  local self = setmetatable({fit = fit, monitor = monitor.new{every = o.monitor_every}}, Part)
  machine.adopt(run, self)
  return self
end

function Part:lines() return {self.monitor:line()} end

--- A point of the curve: what has been read since the last one goes into its line, and how far the run is, from which
-- `capl monitor` knows what is left of it.
function Part:point(at)
  at.monitor = self.monitor:averages()
  if at.monitor then at.monitor.energy_from = nil end -- the same in every line; result.json tells it
  at.position = self.fit.span.position
end

-- A warning is told within the second; asking for one costs a few hundred nanoseconds.
function Part:after_step()
  for text in self.monitor.event, self.monitor do
    self.fit.run:print("warning: " .. text)
    self.fit.record:line{step = self.fit.step, seconds = self.fit.span:seconds(), event = text}
  end
end

--- Figures of the whole run, what came before it was resumed included.
function Part:totals()
  local t = self.monitor:totals()
  return self.before and monitor.join(self.before, t) or t
end

function Part:finish(result)
  self:after_step()
  result.monitor = self:totals()
end

Part.stopped = Part.finish

function Part:state() return self:totals() end
function Part:set_state(state) self.before = state end

function Part:close()
  machine.closed(self.fit.run, self:totals())
  self.monitor:close()
end

return {name = "monitor", spec = {{"monitor_every", "number"}}, read = read, new = new}
