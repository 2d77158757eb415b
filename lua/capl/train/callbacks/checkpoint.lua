-- checkpoint.lua: saves all state of train.fit while it goes, at its end and when it is asked to end; goes on with
-- --resume.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local checkpoint = require "train.checkpoint"
local folder = require "train.folder"
local lines_of = require "train.lines"
local metric = require "train.metric"
local progress = require "run.progress"
local resume = require "train.resume"
local span = require "train.span"

local OP = "train.fit"

local Part = {}
Part.__index = Part

local spec = {
  {"every", "string", "number", default = "auto"}, {"keep", "whole", default = 2}, {"every_n", "whole"},
  {"top_k", "whole", default = 0},
}

local function read(o)
  local given = o.checkpoint
  if given == false then return end
  if type(given) ~= "table" then given = {every = given == true and "auto" or given} end
  o.checkpoint = check.options(OP .. ": checkpoint", spec, given)
end

local function new(fit)
  local o = fit.o
  if not o.checkpoint or fit.run.mode ~= "run" then return nil end
  local c = o.checkpoint
  local keeper = checkpoint.new{model = fit.model, optimizer = fit.optimizer, train = o.train, loop = fit,
    every = c.every, keep = c.keep, every_n = c.every_n, top_k = c.top_k}
  keeper.val, keeper.accumulate = o.val, o.accumulate
  return setmetatable({fit = fit, keeper = keeper, metric = metric.read(OP, o.metric)}, Part)
end

-- ---- a cadence that never comes ----

local function never(what, why)
  return ("note: checkpoint: %s never comes: %s; the end is saved in any case"):format(what, why)
end

-- Notes about what will not happen in a run of this length.
function Part:lines()
  local o, every, out = self.fit.o, self.keeper.every, {}
  local left = o.steps and ("the run has %d steps"):format(o.steps)
  if every.steps and o.steps and every.steps > o.steps then
    out[1] = never(("every = %d steps"):format(every.steps), left)
  end
  if self.keeper.every_n and o.steps and self.keeper.every_n > o.steps then
    out[#out + 1] = never(("every_n = %d steps"):format(self.keeper.every_n), left)
  end
  if every.seconds and not every.auto and o.max_time and every.seconds >= o.max_time then
    out[#out + 1] = never("every = " .. progress.duration(every.seconds),
      "max_time is " .. progress.duration(o.max_time))
  end
  if not o.val and every.evaluations then out[#out + 1] = never('every = "eval"', "there is no val loader") end
  if not o.val and self.keeper.top_k > 0 then out[#out + 1] = never("top_k", "there is no val loader") end
  return out
end

-- ---- going on ----

local lengths = {"steps", "epochs", "samples", "max_time"}
local complete = {steps = true, max_time = true}

local function twice(run, key)
  local value = run:setting(key)
  if key ~= "max_time" then return type(value) == "number" and ("--%s=%g"):format(key, 2 * value) end
  local ok, seconds = pcall(span.seconds_of, OP, value)
  return ok and seconds and ("--max_time=%gs"):format(2 * seconds)
end

-- "--steps=600": the setting of this recipe that makes a run longer; first that which ended it.
local function longer(run, ended)
  local found = ended == "max_time" and twice(run, "max_time")
  for _, key in ipairs(lengths) do found = found or twice(run, key) end
  return found or "more steps in train.fit"
end

-- Whether a run that was over also wrote its metrics: a kill may have come between its last checkpoint and those.
local function has_result(run, saved)
  local text = core.sys.read(run.resume_from.folder .. "/result.json")
  local ok, result = pcall(core.json_decode, text or "")
  return ok and type(result) == "table" and result.steps == saved.step and result.ended == saved.ended
end

-- Goes on with a run whose steps are done, but not what comes behind them.
function Part:end_again(saved)
  self.fit.run:print(("note: %s ended before its final metrics were written; they are computed now"):format(
    self.fit.run.resume_from.folder))
  if not complete[saved.ended] then self.fit:stop(saved.ended, "ended early before (" .. saved.ended .. ")") end
  self.again = true
end

-- Whether the run was over and nothing says that it shall be longer now.
function Part:check_finished(saved)
  local fit, run = self.fit, self.fit.run
  if not saved.ended or saved.ended == "interrupted" or saved.ended == "stopped" then return end
  if not has_result(run, saved) and not resume.is_longer(run) then return self:end_again(saved) end
  if not complete[saved.ended] then
    if #resume.changes(run) > 0 then return end
    local text = "%s ended early at step %d (%s), and nothing has changed since"
    check.fail("resume", text:format(run.resume_from.folder, saved.step, saved.ended),
      "to continue, make the run longer or change a setting: " .. longer(run, saved.ended))
  end
  local state, o = saved.objects.loop.span, fit.o
  local time_over = o.max_time and (state.seconds >= o.max_time - state.reserve or
    -- its last evaluation may have taken less time than was left for it
    (saved.ended == "max_time" and not resume.is_longer(run)))
  if time_over or (o.steps and saved.step >= o.steps) then
    check.fail("resume", ("%s is finished: %d steps in %s"):format(run.resume_from.folder, saved.step,
      progress.duration(state.seconds)), "to continue, make the run longer: " .. longer(run, saved.ended))
  end
end

-- Share of the run that a saved state has behind it, by the length that the run has now.
function Part:position_of(saved)
  local o, span_state = self.fit.o, saved.objects.loop.span
  local share = o.steps and saved.step / o.steps or 0
  if o.max_time then share = math.max(share, span_state.seconds / math.max(o.max_time - span_state.reserve, 1e-3)) end
  return math.min(1, share)
end

-- A run that is longer now than it was is not as far as it was, and what ended it begins to count anew.
function Part:forget_the_end(saved)
  local loop = saved.objects.loop
  if self.again then return end
  if saved.ended or resume.is_longer(self.fit.run) then loop.span.position = self:position_of(saved) end
  if not saved.ended then return end
  for name, object in pairs(self.fit.callbacks.by_name) do
    if object.go_on then loop.parts[name] = object.go_on(loop.parts[name]) end
  end
end

-- The data as they are now: a file that goes away later is another matter.
function Part:begin() self.keeper:facts() end

-- State of a custom training loop has no loop of train.fit in it.
local function check_loop(saved, file)
  local loop = saved.objects.loop
  local was = type(loop) == "table" and type(loop.parts) == "table" and loop.span
  if type(was) == "table" and tonumber(was.seconds) and tonumber(was.reserve) and tonumber(was.position) then return end
  core.error{code = "value", path = false,
    message = file .. " was not saved by train.fit, but by another loop: its state does not fit",
    hint = ("--init_from=%s starts a new run with its weights"):format(file)}
end

--- Told before all others: puts the state back if there is one to go on from.
function Part:resume()
  local run = self.fit.run
  local saved, file = checkpoint.find(self.fit.run)
  if not saved then return end
  check_loop(saved, file)
  self:check_finished(saved)
  self:forget_the_end(saved)
  local fit = self.fit
  fit.optimizer:set_position(saved.objects.loop.span.position) -- its schedule is asked for the rate of the saved step
  self.keeper:load(saved, file)
  fit.span:advance(fit.step)
  fit.optimizer:set_position(fit.span.position)
  local gone = folder.forget_after(self.keeper:folder(), saved.step)
  if not fit.callbacks:get("record") then lines_of.cut(fit:path("metrics.jsonl"), saved.step) end
  run:print(("resumed: %s, step %d%s, saved %s"):format(file, saved.step, fit.o.steps and " of " .. fit.o.steps or "",
    saved.saved))
  if gone > 0 then
    run:print(("resume: %d later checkpoint%s of this run removed"):format(gone, gone == 1 and "" or "s"))
  end
  for _, line in ipairs(resume.changes(run)) do run:print("resume: " .. line) end
end

-- ---- saving ----

-- Larger is better for the keeper.
function Part:evaluated(e)
  local value, better = metric.of(OP, self.metric, e)
  self.value = better == "min" and -value or value
end

--- Saves between two steps because somebody says so. -> path
function Part:save_now()
  local keeper = self.keeper
  keeper.step = self.fit.step
  if keeper.last_step ~= keeper.step then keeper:save() end
  return keeper.last
end

function Part:between_steps()
  local keeper = self.keeper
  keeper.step = self.fit.step
  if self.value then keeper:evaluated(self.value) end
  self.value = nil
  local override = self.fit.callbacks:get("override")
  local wanted = override and override:take_save()
  if (wanted or keeper:is_due()) and keeper.last_step ~= keeper.step then keeper:try_save() end
end

function Part:finish(result)
  if self.keeper.last_step == self.fit.step and self.keeper.ended == result.ended then return end
  self.keeper.step = self.fit.step
  self.keeper:try_save(result.ended)
end

-- Ctrl-C and SIGTERM: what is between two steps can be saved.
function Part:stopped()
  local run = self.fit.run
  local keeper, fit = self.keeper, self.fit
  if not fit.whole then
    run:print("note: the step under way is lost; " .. keeper:last_words())
    return
  end
  core.sys.saving(true)
  keeper.step = fit.step
  if keeper.last_step == keeper.step or keeper:try_save() then
    run:print(("saved: %s; %s"):format(keeper.last, keeper:how_to_go_on()))
  end
  core.sys.saving(false)
end

-- An error: what can still be had. Between two steps, as when data went away, nothing is lost.
function Part:failed()
  local keeper, fit = self.keeper, self.fit
  if fit.step == 0 then return end
  keeper.step = fit.step
  if fit.whole and keeper.last_step ~= fit.step then pcall(keeper.save, keeper) end
  if keeper.last then self.fit.run:print("note: " .. keeper:last_words()) end
end

return {name = "checkpoint", spec = {{"checkpoint", "string", "number", "boolean", "table", default = "auto"}},
  read = read, new = new}
