-- timing.lua: where the time of a training run goes: load, augment, forward, backward, optimizer, evaluation, other.
--
-- On a processor the host's clock is read where one part of a step ends and the next begins. A GPU works after the
-- host, so there every tenth step is timed by marks in its own queue, which are read when they have long been passed;
-- nobody waits. Between two batches the training waits for data (load); the share of it in which the loader's threads
-- augment counts as augment. A step that a GPU replays as one graph has no parts: it counts as step.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...


local Timing = {}
Timing.__index = Timing

local clock = core.clock
-- steps of which a GPU times one, and the first such; before it plans are made and steps recorded
local EVERY, FIRST = 10, 5
-- the first of its marks, and how many; capl bench takes those below, loaders those from 4094 on
local MARK, MARKS = 4064, 28

local parts = {"load", "augment", "forward", "backward", "optimizer", "step", "evaluation", "other"}

-- ---- phases of a step ----

local phases = {"forward", "backward", "optimizer", "step"}

local function nothing() return {forward = 0, backward = 0, optimizer = 0, step = 0, evaluation = 0} end

-- The host's clock: the time since the last change goes to the phase that ends.
function Timing:change(phase)
  local now = clock()
  if self.phase then self.spent[self.phase] = self.spent[self.phase] + (now - self.since) end
  self.phase, self.since = phase, now
end

-- The device's clock: a mark for each change, in steps that are sampled.
function Timing:mark(phase)
  local marks = self.marks
  if not marks or marks[#marks] == "end" then return end
  if #marks >= MARKS then marks.full = true return end -- gradients summed in many parts
  core.mark(MARK + #marks)
  marks[#marks + 1] = phase or "end"
end

--- Says that a phase of the step begins: "forward", "backward", "optimizer"; nil: the step has ended.
function Timing:enter(phase)
  if observer.captured_work then return end -- being captured: a clock would be part of the recording
  if self.on_device then self:mark(phase) else self:change(phase) end
end

-- ---- steps ----

function Timing:step_begins()
  if self.on_device and not self.sample and self.steps % EVERY == FIRST then self.marks = {} end
  self:enter("forward")
end

--- loss: of the step, a tensor: when it has arrived, so have the marks.
function Timing:step_ended(loss)
  self:enter(nil)
  self.steps = self.steps + 1
  local marks = self.marks
  if marks then
    if #marks > 1 and not marks.full then self.sample = {loss = core.fetch(loss), marks = marks} end
    self.marks = nil
  elseif self.sample and self.sample.loss:ready() then
    self:read_sample()
  end
end

-- Seconds of each phase of a sampled step. A step without changes in it is one launch of a recording.
function Timing:read_sample()
  local marks, times = self.sample.marks, nothing()
  local whole = #marks == 2
  for i = 1, #marks - 1 do
    local phase = whole and "step" or marks[i]
    times[phase] = times[phase] + core.between(MARK + i - 1, MARK + i)
  end
  self.sample, self.step_times = nil, times
end

-- ---- evaluation ----

function Timing:evaluation_begins() self.evaluating = clock() end

function Timing:evaluation_ended()
  if not self.evaluating then return end
  self.spent.evaluation = self.spent.evaluation + (clock() - self.evaluating)
  self.evaluating = nil
end

-- ---- metrics ----

-- What the steps of an interval took by the last sample of the device: as long as they fit between the other parts.
local function from_sample(self, out, room)
  local times, sum = self.step_times, 0
  if not times then return end
  local steps = self.steps - self.before.steps
  for _, name in ipairs(phases) do sum = sum + times[name] * steps end
  local fit = sum > room and room / sum or 1
  for _, name in ipairs(phases) do
    if times[name] > 0 then out[name] = times[name] * steps * fit end
  end
end

-- Of the waiting for data, the share in which threads augmented.
local function augment_share(now, before)
  local work = (now.work_seconds or 0) - (before.work_seconds or 0)
  return work > 0 and ((now.augment_seconds or 0) - (before.augment_seconds or 0)) / work or 0
end

--- Seconds since take was called.
function Timing:elapsed() return clock() - self.before.at end

--- Seconds of each part since the last call, which sum to the time that went by. nil when none went by.
function Timing:take()
  local now, spent, stats = clock(), self.spent, self.loader:stats()
  local all = now - self.before.at
  if not (all > 0) then return nil end
  local waited = math.min(all, math.max(0, stats.wait_seconds - self.before.stats.wait_seconds))
  local share = augment_share(stats, self.before.stats)
  local out = {load = waited * (1 - share), augment = waited * share, evaluation = spent.evaluation}
  if self.on_device then
    from_sample(self, out, math.max(0, all - waited - spent.evaluation))
  else
    for _, name in ipairs(phases) do out[name] = spent[name] > 0 and spent[name] or nil end
  end
  local sum = 0
  for _, seconds in pairs(out) do sum = sum + seconds end
  out.other = math.max(0, all - sum)
  for name, seconds in pairs(out) do self.total[name] = (self.total[name] or 0) + seconds end
  self.spent, self.before = nothing(), {at = now, stats = stats, steps = self.steps}
  return out
end

--- Seconds of each part since the beginning, as lists {name, seconds} in order; parts that took no time are left out.
function Timing:totals()
  self:take()
  local out = {}
  for _, name in ipairs(parts) do
    if (self.total[name] or 0) > 0 then out[#out + 1] = {name, self.total[name]} end
  end
  return out
end

function Timing:state() return {total = self.total} end
function Timing:set_state(state) self.total = state.total end

--- Times the steps of a loop. loader: the one whose batches it trains on.
local function new(run, loader)
  local self = setmetatable({run = run, loader = loader, steps = 0, spent = nothing(), total = {},
    on_device = core.device():match("^cuda") ~= nil}, Timing)
  self.before = {at = clock(), stats = loader:stats(), steps = 0}
  return self
end

--- Listens to backward passes and optimizers until it is closed.
function Timing:open()
  local run = self.run
  self.on_gradients, self.on_step = function() self:enter("optimizer") end, function() self:enter(nil) end
  run:on("gradients", self.on_gradients)
  run:on("step", self.on_step)
  self.on_phase = run:on("phase", function(phase) self:enter(phase) end)
end

function Timing:close()
  self.run:off("gradients", self.on_gradients)
  self.run:off("step", self.on_step)
  self.run:off("phase", self.on_phase)
end

return {new = new, parts = parts}
