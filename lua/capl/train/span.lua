-- span.lua: how far a run is: the larger of the shares of its steps and of its time that are over, 0 to 1.
--
-- Schedules, evaluations and the end of a run all follow this one number. Without a time box it depends on steps
-- alone, so the same seed gives the same run; with one it never goes back, whatever the clock or the pace does.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sync = require "dist.sync"
local check = require "check"

local Span = {}
Span.__index = Span

local EVALUATIONS = 12 -- of a run with eval_every = "auto"
-- of the time since the start: "auto" leaves one out where those before it took more of a time box
local EVALUATION_SHARE = 0.03

local unit_seconds = {s = 1, m = 60, h = 3600}

-- "1h30m" -> 5400; nil when it is no duration.
local function parse(text)
  if tonumber(text) then return tonumber(text) end
  local sum, rest = 0, text
  while rest ~= "" do
    local count, unit, after = rest:match("^%s*([%d.]+)%s*([smh])(.*)$")
    if not tonumber(count) then return nil end
    sum, rest = sum + tonumber(count) * unit_seconds[unit], after
  end
  return sum
end

--- Seconds of a duration: "5m", "90s", "1h30m", a number of seconds; nil and "none" give nil.
local function seconds_of(op, value)
  if value == nil or value == "none" then return nil end
  local seconds = type(value) == "number" and value or parse(value)
  if not seconds or value == "" then
    check.fail(op, ("max_time is a time such as 5m, 90s or 1h30m, a number of seconds, or none; got '%s'"):format(value))
  end
  if not (seconds > 0 and seconds < math.huge) then check.fail(op, ("max_time is above 0, got %s"):format(value)) end
  return seconds
end

--- opts: steps and max_time (seconds); one of them may be nil.
local function new(opts)
  return setmetatable({steps = opts.steps, max_time = opts.max_time, reserve = 0, position = 0, step = 0,
    started = sync.clock()}, Span)
end

function Span:seconds() return sync.clock() - self.started end

--- The same by this process's own clock, for metrics that decide nothing.
function Span:elapsed()
  if sync.is_main() then return core.clock() - self.started end
  return self:seconds()
end

--- Says that `step` steps are done -> the share of the run that is over.
function Span:advance(step)
  self.step = step
  local share = self.steps and step / self.steps or 0
  if self.max_time then share = math.max(share, self:seconds() / math.max(self.max_time - self.reserve, 1e-3)) end
  self.position = math.min(1, math.max(self.position, share))
  return self.position
end

--- Lets the run end earlier: its last `share` begins with the step that was reported last.
-- out  the step it will end with
function Span:start_cooldown(share)
  self:shorten(math.ceil(self.step / (1 - share)))
  return self.steps
end

--- Lets the run end with that step at the latest.
function Span:shorten(steps) self.steps = math.min(self.steps or steps, steps) end

function Span:over() return self.position >= 1 end

--- What ended the run: "steps" or "max_time".
function Span:ended() return self.steps and self.step >= self.steps and "steps" or "max_time" end

function Span:state()
  return {seconds = self:seconds(), position = self.position, step = self.step, reserve = self.reserve}
end

--- Goes on where a state was taken: the seconds of before count.
function Span:set_state(state)
  self.started = sync.clock() - state.seconds
  self.position, self.step, self.reserve = state.position, state.step, state.reserve
end

function Span.state_shape() return {seconds = "amount", position = "share", step = "count", reserve = "amount"} end

-- ---- marks: when something is due again ----

local Marks = {}
Marks.__index = Marks

--- marks:passed(step, position) -> whether it is time again.
-- every  a number of steps, or "auto": `count` times in the run, evenly
local function marks(every, count) return setmetatable({every = every, count = count, last = 0}, Marks) end

function Marks:passed(step, position)
  if self.every ~= "auto" then return step % self.every == 0 end
  local mark = math.floor(position * self.count + 1e-9)
  local due = mark > self.last
  self.last = mark
  return due
end

function Marks:state() return {last = self.last} end
function Marks:set_state(state) self.last = state.last end
function Marks.state_shape() return {last = "number"} end

return {new = new, seconds_of = seconds_of, marks = marks, EVALUATIONS = EVALUATIONS,
  EVALUATION_SHARE = EVALUATION_SHARE}
