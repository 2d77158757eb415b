-- schedule.lua: augment.schedule{…}: which augmentation and difficulty a run has when, as a value for data.loader.
--
-- The engine evaluates it batch by batch (engine/data/schedule.c); here are its reading, its metrics, its state and
-- what it reports.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local lock = require "test_lock"
local show = require "augment.show"
local stages = require "augment.stages"

local OP = "augment.schedule"

local Schedule = {}
Schedule.__index = Schedule

--- Augmentation and difficulty of training images by stage, the augment option of data.loader.
-- in   list of stages. The first begins with the run. Each later one says from = {epoch = n} (counted from 1), {step =
--      n} (after so many batches of the loader) or {metric = "exact", above = 0.9} (or below): when train.fit's metrics
--      on val, or those given to schedule:report, get there, while the stage before is in effect.
--      augment = {rotate = …} | "preset" | false; difficulty of data.captcha's images = {length = n | {lo, hi}, charset
--      = share of the letters, noise = 0..1, warp = 0..1} | false (all of it). What a stage leaves out stays as it was;
--      name = "…" for reports. ramp = {epochs = n | steps = n, shape = "linear" | "cosine"}: every range goes there
--      from where it was
-- errs value: unknown keys, stages out of order, a ramp longer than its stage, a metric that cannot be reached; when a
--      loader takes it: a difficulty that its source has not, epochs of an endless source
-- A stage begins at the same batch for any number of workers. One with a metric does prefetch + 2 batches after the
-- report, or at the next epoch: that many may have been made.
-- eg   #capl.augment.schedule{{}, {from = {epoch = 2}, augment = {rotate = 5}}}.stages  --> 2
local function new(list) return setmetatable({stages = stages.read(list)}, Schedule) end

--- Whether value is one.
local function is(value) return type(value) == "table" and getmetatable(value) == Schedule end

--- For the engine's loader.
function Schedule:engine() return stages.to_engine(self.stages) end

--- The loader that it belongs to from now on.
function Schedule:attach(loader)
  if self.loader then
    check.fail(OP, "this schedule is used by another loader", "create one for each: it has state")
  end
  self.loader, self.box, self.current, self.begun = loader, loader.box, 0, {}
end

local function attached(self)
  if not self.loader then check.fail(OP, "no loader has this schedule yet", "data.loader{…, augment = schedule}") end
  return self.box
end

--- {stage, share of its ramp that is over, augment = {NAME = {lo, hi, p}}, difficulty = {NAME = {lo, hi}} or nil} of
-- the batch after so many steps.
function Schedule:at(step) return attached(self):stage_at(step) end

--- Stages that have begun: list of {stage =, step = of the first such batch, why =}.
function Schedule:history() return self.begun end

-- Beside a run, at the prompt, nobody waits for lines of progress.
local function print_line(text)
  if observer.mode == "run" then observer:print(text) end
end

-- ---- metrics ----

-- Whether a metric has got where a stage waits for it.
local function is_met(stage, value)
  if stage.above then return value >= stage.above end
  return value <= stage.below
end

-- The stage after the one in effect, if it waits for a metric.
function Schedule:waiting()
  local _, now = attached(self):step()
  local stage = self.stages[now + 1]
  return stage and stage.metric and not self.box:since()[now + 1] and stage or nil
end

local function names_of(metrics)
  local names = {}
  for name, value in pairs(metrics) do
    if type(name) == "string" and type(value) == "number" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

--- Reports metrics: of an evaluation, of the training loss. The stage that waits for one of them may begin.
-- in   {NAME = number}; train.fit reports exact, chars, confidence and loss of val
-- out  the stage (from 1) that was begun, and its step; nil for none
-- errs value: the stage in turn waits for a metric that is not among them
function Schedule:report(metrics)
  check.arg(1, "report", "table", metrics)
  lock.choose(OP, metrics)
  local stage = self:waiting()
  if not stage then return nil end
  local value = metrics[stage.metric]
  if type(value) ~= "number" then
    check.fail(OP, ("stage %d waits for %s, which was not reported: %s"):format(stage.number, stage.metric,
      table.concat(names_of(metrics), ", ")),
      "schedule:report{" .. stage.metric .. " = …}")
  end
  if not is_met(stage, value) then return nil end
  local step = self.box:reached(stage.number)
  self:redraw()
  print_line(("curriculum: %s = %.4g starts %s at step %d"):format(stage.metric, value, show.title(stage), step))
  return stage.number, step
end

--- Before a run: every metric that a stage waits for is among names. source: who reports, for the message; nil = nobody
-- does.
function Schedule:expect(names, source)
  for i, stage in ipairs(self.stages) do
    if stage.metric and not source then
      check.fail(OP, ("stage %d waits for %s, but nothing is evaluated: it would never start"):format(i, stage.metric),
        "give train.fit a val loader, or start the stage at an epoch or a step")
    end
    local known = {}
    for _, name in ipairs(names) do known[name] = true end
    if stage.metric and not known[stage.metric] then
      local near = core.nearest(stage.metric, names)
      check.fail(OP, ("stage %d waits for %s, which %s does not report%s"):format(i, stage.metric, source,
        near and "; did you mean " .. near .. "?" or ""), "it reports " .. table.concat(names, ", "))
    end
  end
end

--- Called by train.fit: the length of the run is known, and which metrics will be reported.
function Schedule:begin(o)
  self.run_steps = o.steps
  self:expect({"exact", "chars", "confidence", "loss"}, o.val and "train.fit" or nil)
end

-- ---- state ----

--- {since = list of the steps at which the stages begin, false for one that waits}: part of what a checkpoint saves.
-- loader:state() holds it too.
function Schedule:state() return {since = attached(self):since()} end

--- Restores it; loader:epoch or loader:set_state must follow.
-- errs value: it was taken from another schedule
function Schedule:set_state(state)
  if type(state) ~= "table" or type(state.since) ~= "table" then
    check.fail(OP, "set_state takes what schedule:state() gave")
  end
  attached(self):set_since(state.since)
end

--- What set_state takes, as train/saved_state.lua reads it.
function Schedule:state_shape()
  local count = #attached(self):since()
  return {["?"] = true, since = function(list)
    if type(list) ~= "table" or #list ~= count then return ("it must be a list of %d steps"):format(count) end
    for i, step in ipairs(list) do
      if step and type(step) ~= "number" then return ("place %d is no step"):format(i) end
    end
  end}
end

-- ---- telling ----

--- The stages as a table of text.
Schedule.__tostring = function(self) return show.table(self) end

--- Draws how each range changes over the steps as a PNG file.
-- in   path; steps = how many (up to where the last stage that begins by itself has come in fully, and a quarter more)
function Schedule:draw(path, steps) show.draw(self, attached(self), path, steps) end

--- Called by the loader when a training run begins: prints the table and draws it into the run's folder.
function Schedule:announce()
  if self.announced or observer.mode ~= "run" then return end
  self.announced = true
  observer:print(show.table(self))
  self:redraw()
end

--- Draws it into the run's folder, as far as the run goes if that is known.
function Schedule:redraw()
  if observer.mode ~= "run" then return end
  self:draw(observer:folder() .. "/curriculum.png", self.run_steps)
end

--- Called by the loader for each batch that it hands out.
function Schedule:handed_out()
  local step, now = self.box:step()
  if now == self.current then return end
  self.current = now
  table.insert(self.begun, {stage = now, name = self.stages[now].name, step = step - 1})
  if now > 1 then print_line(("step %d: %s begins"):format(step - 1, show.title(self.stages[now]))) end
end

--- Called by the loader when it resumes from a state: stages that began before are not reported again.
function Schedule:resumed()
  local step, since = self.box:step(), self.box:since()
  self.current, self.begun = self.box:stage_at(step).stage, {}
  for i = 1, self.current do
    if since[i] and since[i] <= step then
      table.insert(self.begun, {stage = i, name = self.stages[i].name, step = since[i]})
    end
  end
end

--- Line of the final report.
function Schedule:report_line()
  local parts, seen = {}, {}
  for _, b in ipairs(self.begun) do
    parts[#parts + 1] = ("stage %d from step %d"):format(b.stage, b.step)
    seen[b.stage] = true
  end
  for i in ipairs(self.stages) do
    if not seen[i] then parts[#parts + 1] = ("stage %d never began"):format(i) end
  end
  local picture = observer.mode == "run" and "; " .. observer:folder() .. "/curriculum.png" or ""
  return "curriculum: " .. table.concat(parts, ", ") .. picture
end

return {new = new, is = is}
