-- checkpoint.lua: train.Checkpoint: saves all state of a run while it goes, and goes on from it to the bit.
--
-- What is saved is whatever has state()/set_state() or state_dict()/load_state_dict(), under the names it is given;
-- beside them the random streams, and what else the bits depend on (exact.lua). Files: folder.lua. Saving changes
-- nothing.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local Run = require "run"
local dist = require "dist"
local sync = require "dist.sync"
local attach = require "run.attach"
local check = require "check"
local exact = require "train.exact"
local folder = require "train.folder"
local loops = require "run.loops"
local learning_rates = require "train.learning_rates"
local resume = require "train.resume"
local span = require "train.span"
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

local pairs_of_methods = {{"state_dict", "load_state_dict"}, {"state", "set_state"}}

local function method(object, name)
  local ok, fn = pcall(function() return object[name] end)
  return ok and type(fn) == "function" and fn or nil
end

-- Names of the two methods by which an object gives and takes its state.
local function methods_of(object)
  for _, names in ipairs(pairs_of_methods) do
    if type(object) == "table" and method(object, names[1]) and method(object, names[2]) then
      return names[1], names[2]
    end
  end
end

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
    elseif type(key) ~= "string" or not methods_of(value) then
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

--- All state of a training loop in files that a killed run goes on from, to the bit.
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
local function new(given)
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
    image_shape = self.run.image_shape}
  for name, object in pairs(self.objects) do
    local get = methods_of(object)
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

function Checkpoint:how_to_go_on()
  local run = self.run
  return run.recipe and run:command{"--resume"} .. " goes on from it" or "ck:resume goes on from it"
end

--- A sentence about the newest checkpoint there is.
function Checkpoint:last_words()
  local steps = self.path and folder.steps(self.path) or {}
  if not steps[1] then return "there is no checkpoint of this run" end
  return ("the last checkpoint is %s; %s"):format(folder.file(self.path, steps[1]), self:how_to_go_on())
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
    self.run:print(("saved: %s; %s"):format(self.last, self:how_to_go_on()))
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

--- Behind the loop: saves the end of the run. ended = "steps": why it is over.
function Checkpoint:finish(ended)
  sync.hold(0)
  self:try_save(ended or "steps")
end

-- ---- going on ----

local function refuse(file, lines, remedy)
  core.error{code = "value", path = false, context = table.concat(lines, "\n"),
    message = ("a resume from %s would not be bit-exact"):format(file),
    hint = (remedy and remedy .. "; " or "") .. "--inexact allows it"}
end

local function tell_differences(self, file, saved)
  local run = self.run
  local mine = self:facts()
  local lines = sync.of_main(function() return exact.differences(saved.facts, mine, resume.is_longer(self.run)) end)
  local moved = exact.moved(saved.facts, mine)
  if moved then run:print("resume: " .. moved) end
  if #lines == 0 then return end
  if not run:setting("inexact") then refuse(file, lines, exact.remedy(saved.facts, mine)) end
  for _, line in ipairs(lines) do run:print("resume, inexact: " .. line) end
end

local function read_alone(from)
  if from.file then return folder.load(from.file), from.file end
  return folder.newest(folder.of(from.folder))
end

-- Every rank reads the file that rank 0 has chosen.
local function read_from(from)
  if not sync.world() then return read_alone(from) end
  local saved
  local file = sync.of_main(function()
    local read, path = read_alone(from)
    saved = read
    return path
  end)
  if saved then return saved, file end
  local ok, err = pcall(folder.load, file)
  if ok then return err, file end
  local ours = core.is_error(err)
  core.error{code = ours and err.code or "io", path = false,
    message = (ours and err.message or tostring(err)) .. sync.here(), hint = sync.files_hint()}
end

local ORDER = {model = 1, optimizer = 2, train = 3} -- first; others follow by name

local function ordered(objects)
  local names = {}
  for name in pairs(objects) do names[#names + 1] = name end
  table.sort(names, function(a, b)
    local x, y = ORDER[a] or 4, ORDER[b] or 4
    if x ~= y then return x < y end
    return a < b
  end)
  return names
end

-- Puts the state of one object back. What differs from how it was built then was changed on purpose and stays.
local function put_back(self, saved, name)
  local run = self.run
  local object, state = self.objects[name], saved.objects[name]
  if state == nil then
    run:print(("note: the checkpoint has no state of %s, which is reset"):format(name))
    return
  end
  local _, set = methods_of(object)
  object[set](object, state)
  for _, line in ipairs(learning_rates.keep_changes(object, saved.built and saved.built[name], self.built[name])) do
    run:print(("resume: %s: %s"):format(name, line))
  end
end

--- Puts the state of a saved tree back; see Checkpoint:resume.
function Checkpoint:load(saved, file)
  local run = self.run
  folder.taking(file, function()
    tell_differences(self, file, saved)
    core.no_grad(function()
      for _, name in ipairs(ordered(self.objects)) do put_back(self, saved, name) end
    end)
    core.rng(saved.rng.seed, saved.rng.streams)
  end)
  if sync.world() then require("dist.agree").resumed(saved.step) end
  -- model files need it, also of a run that has no step left to make
  run.image_shape = run.image_shape or saved.image_shape
  self.step, self.top, self.last, self.last_step = saved.step, saved.top or {}, file, saved.step
  for _, entry in ipairs(self.top) do entry.value = entry.value or entry.figure end -- "figure": in older files
  self.saved_at = sync.clock()
  return saved
end

--- The saved state that --resume asks for, still to be loaded: tree and file; nil when the run begins anew.
function Checkpoint.find(run)
  local from = resume.take(run)
  if not from then return nil end
  return read_from(from)
end

--- Goes on where --resume says, or from a checkpoint or a folder of them that is named here.
-- in   path = nil
-- out  the number of steps that are done, 0 for a run that begins anew; and the saved tree
-- errs value: device, data, recipe or others are not what they were, without --inexact; format: no checkpoint is whole
function Checkpoint:resume(path)
  local run = self.run
  if path then return self:resume_from(check.arg(1, "resume", "string", path)) end
  local saved, file = Checkpoint.find(run)
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

return setmetatable({new = new, find = Checkpoint.find}, {__call = function(_, given) return new(given) end})
