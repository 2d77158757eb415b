-- checkpoint.lua: train.Checkpoint and the key checkpoint of train.fit: saves all state of a run while it goes, at its
-- end and when it is asked to end; bit-exact resume.
--
-- What is saved is whatever has state()/set_state() or state_dict()/load_state_dict(), under the names it is given;
-- beside them the random streams, and what else the bits depend on (exact.lua). Files: folder.lua; what is read and put
-- back: restore.lua. Saving changes nothing, but what autotune has timed takes effect with it.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local attach = require "run.attach"
local check = require "check"
local determinism = require "determinism"
local dist = require "dist"
local exact = require "train.bit_exact"
local folder = require "train.folder"
local json_file = require "json_file"
local learning_rates = require "train.learning_rates"
local lines_of = require "train.lines"
local loops = require "run.loops"
local metric = require "train.metric"
local progress = require "run.progress"
local restore = require "train.restore"
local resume = require "train.resume"
local Run = require "run"
local span = require "train.span"
local sync = require "dist.sync"
local tree = require "train.tree"

local OP = "train.Checkpoint"
local AUTO_FIRST, AUTO_SECONDS = 60, 300
local SHARE = 0.02 -- of the time of a run that saving may take where "auto" says when
local HOLD = 60 -- seconds that a Ctrl-C may wait for the end of a step

local Checkpoint = {}
Checkpoint.__index = Checkpoint

local spec = {
  {"every", "string", "number", default = "auto"}, {"keep", "whole", default = 2, from = 1}, {"every_n", "whole"},
  {"top_k", "whole", default = 0},
  {"folder", "string"},
}

-- ---- what is saved ----

local own = {}
for _, entry in ipairs(spec) do own[entry[1]] = true end

-- Splits what was given into options and objects.
local function split(given)
  if type(given) ~= "table" then
    check.fail(OP, "takes one table: train.Checkpoint{model = …, optimizer = …, train = loader}")
  end
  local options, objects, count = {}, {}, 0
  for key, value in pairs(given) do
    if own[key] then
      options[key] = value
    elseif type(key) ~= "string" or not restore.methods_of(value) then
      local near = type(key) == "string" and core.nearest(key, {"every", "keep", "every_n", "top_k", "folder"})
      check.fail(OP, ("%s is a %s without state() and set_state(), so it cannot be saved"):format(tostring(key),
        core.typename(value)), near and ("did you mean %s?"):format(near) or nil)
    else
      objects[key], count = value, count + 1
    end
  end
  if count == 0 then
    check.fail(OP, "there is nothing to save", "give what has state: model = …, optimizer = …, train = loader")
  end
  return options, objects
end

-- every -> {seconds =} or {steps =} or {evaluations = true}
local function read_every(every)
  if every == "auto" then return {seconds = AUTO_SECONDS, auto = true} end
  if every == "eval" then return {evaluations = true} end
  if type(every) == "number" then
    if every >= 1 and every % 1 == 0 then return {steps = every} end
    check.fail(OP, ("every is a number of steps from 1 on, a time such as \"5m\", \"eval\" or \"auto\", got %g"):format(every))
  end
  local ok, seconds = pcall(span.seconds_of, OP, every)
  if ok and seconds then return {seconds = seconds} end
  check.fail(OP, ("every is a number of steps, a time such as \"5m\", \"eval\" or \"auto\", got '%s'"):format(every))
end

--- Saves the whole state of a training loop; a killed run resumes from it, bit-exactly.
-- in   a table: every object to save by a name of its own: model =, optimizer =, train = loader, ema = … (anything with
--      state() and set_state(tree), or state_dict() and load_state_dict(tree))
-- opts every = "auto" (after a minute, then every 5, less often where saving takes more than 2 % of the time) | a
--      number of steps | a time: "30s", "5m", "1h" | "eval"; keep = 2: the last ones that stay, so that a damaged one
--      has one before it; every_n = steps: of each such step one stays for good; top_k = 0: so many of the best
--      evaluations stay (ck:evaluated(value));
--      folder = where (default: checkpoints/ in the run's folder)
-- out  an object: ck:resume() before the loop, ck:after_step() as the last line of each step, ck:save() at any time,
--      ck:finish() behind the loop
-- errs value: an object without state, no object, an unknown cadence
function Checkpoint.new(given)
  local options, objects = split(given)
  local o = check.options(OP, spec, options)
  local self = setmetatable({
    run = Run.of(observer),
    objects = objects, keep = o.keep, every_n = o.every_n, top_k = o.top_k, path = o.folder,
    every = read_every(o.every), step = 0, top = {}, saved_at = sync.clock(), count = 0, built = {},
  }, Checkpoint)
  for name, object in pairs(objects) do self.built[name] = learning_rates.options_of(object) end
  return self
end

-- Loaders among the objects; of train.fit the one of val as well.
function Checkpoint:loaders()
  local out = {self.val}
  for _, object in pairs(self.objects) do
    if object.source and object.role then out[#out + 1] = object end
  end
  return out
end

function Checkpoint:facts()
  self.data = self.data or exact.data(self:loaders())
  return exact.facts(self.run, self.data, self.accumulate)
end

-- The tree of one file. ended: why the run is over, nil while it goes.
function Checkpoint:tree(ended)
  local seed, streams = core.rng()
  local out = {checkpoint = 1, step = self.step, ended = ended, saved = core.sys.date(), facts = self:facts(),
    objects = {}, rng = {seed = seed, streams = streams}, top = self.top, built = self.built,
    algorithms = determinism.algorithms(),
    image_shape = self.run.image_shape, batch_fields = self.run.batch_fields}
  for name, object in pairs(self.objects) do
    local get = restore.methods_of(object)
    out.objects[name] = object[get](object)
  end
  return out
end

-- ---- saving ----

function Checkpoint:folder()
  if not self.opened then
    self.path = self.path or folder.of(self.run:folder())
    folder.open(self.path)
    self.opened = true
  end
  return self.path
end

-- Steps whose checkpoints stay.
function Checkpoint:kept()
  local out = {}
  for _, entry in ipairs(self.top) do out[entry.step] = true end
  if self.every_n then
    for _, step in ipairs(folder.steps(self.path)) do out[step] = out[step] or step % self.every_n == 0 end
  end
  return out
end

-- Modules among the objects, in the order of their names.
function Checkpoint:models()
  local names, out = {}, {}
  for name, object in pairs(self.objects) do
    if core.is_module(object) then names[#names + 1] = name end
  end
  table.sort(names)
  for i, name in ipairs(names) do out[i] = self.objects[name] end
  return out
end

--- Saves now. -> path of the file
-- errs io: it cannot be written; the former ones stay
function Checkpoint:save(ended)
  if dist.parallel then dist.parallel.settle(self:models()) end
  determinism.use_timed(sync.of_main) -- a resumed run begins with all choices
  local file = folder.file(self:folder(), self.step)
  self.cost = sync.by_main("saving a checkpoint", function()
    tree.save(file, self:tree(ended))
    folder.prune(self.path, self.keep, self:kept())
  end)
  self.last, self.last_step, self.count = file, self.step, self.count + 1
  self.saved_at = sync.now()
  return file
end

-- A training does not end because one checkpoint could not be written: the next one may.
function Checkpoint:try_save(ended)
  local run = self.run
  local ok, err = pcall(self.save, self, ended)
  if ok then return true end
  if not core.is_error(err) or err.code ~= "io" then error(err, 0) end
  self.saved_at, self.failed = sync.clock(), err
  run:print(("note: step %d could not be saved: %s"):format(self.step, err.message))
  run:print("note: " .. self:last_words())
  return false
end

function Checkpoint:how_to_resume()
  local run = self.run
  return run.recipe and run:command{"--resume"} .. " resumes from it" or "ck:resume resumes from it"
end

--- A sentence about the newest checkpoint there is.
function Checkpoint:last_words()
  local steps = self.path and folder.steps(self.path) or {}
  if not steps[1] then return "there is no checkpoint of this run" end
  return ("the last checkpoint is %s; %s"):format(folder.file(self.path, steps[1]), self:how_to_resume())
end

function Checkpoint:is_due()
  local every = self.every
  if self.every_n and self.step % self.every_n == 0 then return true end
  if every.steps then return self.step % every.steps == 0 end
  if not every.seconds then return false end
  local wait = every.seconds
  if every.auto then wait = self.count == 0 and AUTO_FIRST or math.max(wait, self.cost / SHARE) end
  return sync.clock() - self.saved_at >= wait
end

-- Saves between two steps when it is time, and when the program was asked to end; then it ends.
function Checkpoint:between_steps()
  if self:is_due() and self.last_step ~= self.step then self:try_save() end
  if self.run.mode ~= "run" or not sync.hold(HOLD) then return end
  self:stop()
end

--- For custom training loops: the last line of each step. Saves when it is time; Ctrl-C and SIGTERM save and then end
-- the run.
function Checkpoint:after_step()
  if not self.data then self:facts() end -- as the data are now: a file that goes away later is another matter
  self.step = self.step + 1
  self.run.checkpoint = self
  attach.point(loops.own(self.run))
  self:between_steps()
end

function Checkpoint:stop()
  core.sys.saving(true)
  if self.last_step == self.step or self:try_save() then
    self.run:print(("saved: %s; %s"):format(self.last, self:how_to_resume()))
  end
  core.sys.saving(false)
  sync.hold(0)
  core.sys.stop()
end

--- Reports the metric of an evaluation, larger is better: with top_k the checkpoints of the best ones stay.
function Checkpoint:evaluated(value)
  check.arg(1, "evaluated", "number", value)
  local wanted = self.every.evaluations
  if self.top_k > 0 then
    table.insert(self.top, {step = self.step, value = value})
    table.sort(self.top, function(a, b)
      if a.value ~= b.value then return a.value > b.value end
      return a.step > b.step
    end)
    local out = table.remove(self.top, self.top_k + 1)
    wanted = wanted or not out or out.step ~= self.step
  end
  if wanted then self:try_save() end
end

--- After the loop: saves the end of the run. ended = "steps": why it is over.
function Checkpoint:finish(ended)
  sync.hold(0)
  self:try_save(ended or "steps")
end

-- ---- resume ----

--- Puts the state of a saved tree back; see Checkpoint:resume.
function Checkpoint:load(saved, file)
  self.resumed = file
  restore.load(self, saved, file)
  self.step, self.top, self.last, self.last_step = saved.step, saved.top or {}, file, saved.step
  for _, entry in ipairs(self.top) do entry.value = entry.value or entry.figure end -- "figure": in older files
  self.saved_at = sync.clock()
  return saved
end

--- Resumes from --resume, or from a checkpoint or a folder of checkpoints.
-- in   path = nil
-- out  the number of steps that are done, 0 for a run that begins anew; and the saved tree
-- errs value: device, data, recipe or others are not what they were, without --inexact; format: no checkpoint is whole
function Checkpoint:resume(path)
  local run = self.run
  if path then return self:resume_from(check.arg(1, "resume", "string", path)) end
  local saved, file = restore.find(run)
  if not saved then return 0 end
  self:load(saved, file)
  folder.forget_after(self:folder(), saved.step)
  run:print(("resumed: %s, step %d, saved %s"):format(file, saved.step, saved.saved))
  for _, line in ipairs(resume.changes(run)) do run:print("resume: " .. line) end
  return saved.step, saved
end

function Checkpoint:resume_from(path)
  local saved, file
  if core.sys.kind(path) == "folder" then saved, file = folder.newest(path) else saved, file = folder.load(path),
    path end
  self:load(saved, file)
  return saved.step, saved
end

-- ---- the key of train.fit ----

local FIT = "train.fit"

local Callback = {}
Callback.__index = Callback

local of_key = {unpack(spec, 1, 4)} -- the run says the folder

local function read(o)
  local given = o.checkpoint
  if given == false then return end
  if type(given) ~= "table" then given = {every = given == true and "auto" or given} end
  o.checkpoint = check.options(FIT .. ": checkpoint", of_key, given)
end

local function new(fit)
  local o = fit.o
  if not o.checkpoint or fit.run.mode ~= "run" then return nil end
  local c = o.checkpoint
  local keeper = Checkpoint.new{model = fit.model, optimizer = fit.optimizer, train = o.train, loop = fit,
    every = c.every, keep = c.keep, every_n = c.every_n, top_k = c.top_k}
  keeper.val, keeper.accumulate = o.val, o.accumulate
  return setmetatable({fit = fit, keeper = keeper, metric = metric.read(FIT, o.metric)}, Callback)
end

-- ---- the key: a cadence that never comes ----

local function never(what, why)
  return ("note: checkpoint: %s never comes: %s; the end is saved in any case"):format(what, why)
end

-- Notes about what will not happen in a run of this length.
function Callback:lines()
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

-- ---- the key: resume ----

local lengths = {"steps", "epochs", "samples", "max_time"}
local complete = {steps = true, max_time = true}

local function twice(run, key)
  local value = run:setting(key)
  if key ~= "max_time" then return type(value) == "number" and ("--%s=%g"):format(key, 2 * value) end
  local ok, seconds = pcall(span.seconds_of, FIT, value)
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
  local result = json_file.read(run.resume_from.folder .. "/result.json")
  return result and result.steps == saved.step and result.ended == saved.ended
end

-- Goes on with a run whose steps are done, but not what comes behind them.
function Callback:end_again(saved)
  self.fit.run:print(("note: %s ended before its final metrics were written; they are computed now"):format(
    self.fit.run.resume_from.folder))
  if not complete[saved.ended] then self.fit:stop(saved.ended, "ended early before (" .. saved.ended .. ")") end
  self.again = true
end

-- Whether the run was over and nothing says that it shall be longer now.
function Callback:check_finished(saved)
  local fit, run = self.fit, self.fit.run
  if not saved.ended or saved.ended == "interrupted" or saved.ended == "stopped" then return end
  if (run.restart or not has_result(run, saved)) and not resume.is_longer(run) then return self:end_again(saved) end
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
function Callback:position_of(saved)
  local o, span_state = self.fit.o, saved.objects.loop.span
  local share = o.steps and saved.step / o.steps or 0
  if o.max_time then share = math.max(share, span_state.seconds / math.max(o.max_time - span_state.reserve, 1e-3)) end
  return math.min(1, share)
end

-- A run that is longer now than it was is not as far as it was, and what ended it begins to count anew.
function Callback:forget_the_end(saved)
  local loop = saved.objects.loop
  if self.again then return end
  if saved.ended or resume.is_longer(self.fit.run) then loop.span.position = self:position_of(saved) end
  if not saved.ended then return end
  for name, object in pairs(self.fit.callbacks.by_name) do
    if object.on_resume then loop.parts[name] = object.on_resume(loop.parts[name]) end
  end
end

-- The data as they are now: a file that goes away later is another matter.
function Callback:begin() self.keeper:facts() end

-- State of a custom training loop has no loop of train.fit in it.
local function check_loop(saved, file)
  local loop = saved.objects.loop
  if type(loop) == "table" and type(loop.parts) == "table" and type(loop.span) == "table" then return end
  core.error{code = "value", path = false,
    message = file .. " was not saved by train.fit, but by another loop: its state does not fit",
    hint = ("--init_from=%s starts a new run with its weights"):format(file)}
end

--- Called before all others: puts the state back if there is one to resume from.
function Callback:resume()
  local run = self.fit.run
  local saved, file = restore.find(self.fit.run)
  if not saved then return end
  check_loop(saved, file)
  restore.check(self.keeper, saved, file)
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

-- ---- the key: saving ----

-- Larger is better for the keeper.
function Callback:evaluated(e)
  local value, better = metric.of(FIT, self.metric, e)
  self.value = better == "min" and -value or value
end

--- Saves between two steps because somebody says so. -> path
function Callback:save_now()
  local keeper = self.keeper
  keeper.step = self.fit.step
  if keeper.last_step ~= keeper.step then keeper:save() end
  return keeper.last
end

function Callback:between_steps()
  local keeper = self.keeper
  keeper.step = self.fit.step
  if self.value then keeper:evaluated(self.value) end
  self.value = nil
  local override = self.fit.callbacks:get("override")
  local wanted = override and override:take_save()
  if (wanted or keeper:is_due()) and keeper.last_step ~= keeper.step then keeper:try_save() end
end

function Callback:finish(result)
  if self.keeper.last_step == self.fit.step and self.keeper.ended == result.ended then return end
  self.keeper.step = self.fit.step
  self.keeper:try_save(result.ended)
end

-- Ctrl-C and SIGTERM: what is between two steps can be saved.
function Callback:stopped()
  local run = self.fit.run
  local keeper, fit = self.keeper, self.fit
  if not fit.whole then
    run:print("note: the step under way is lost; " .. keeper:last_words())
    return
  end
  core.sys.saving(true)
  keeper.step = fit.step
  if keeper.last_step == keeper.step or keeper:try_save() then
    run:print(("saved: %s; %s"):format(keeper.last, keeper:how_to_resume()))
  end
  core.sys.saving(false)
end

-- An error: what can still be had. Between two steps, as when data went away, nothing is lost.
-- One of the library's own code may come from what somebody has put into the checkpoint that the run was resumed from.
function Callback:failed(err)
  local keeper, fit = self.keeper, self.fit
  local unforeseen = core.is_error(err) and tostring(err.context):find("in the library", 1, true)
  if keeper.resumed and unforeseen then
    fit.run:print(("note: if %s was changed, this error may come from it"):format(keeper.resumed))
  end
  if fit.step == 0 then return end
  keeper.step = fit.step
  if fit.whole and keeper.last_step ~= fit.step then pcall(keeper.save, keeper) end
  if keeper.last then self.fit.run:print("note: " .. keeper:last_words()) end
end

return {name = "checkpoint", spec = {{"checkpoint", "string", "number", "boolean", "table", default = "auto"}},
  read = read, new = new, Checkpoint = Checkpoint.new}
