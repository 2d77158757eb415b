-- restore.lua: reads the checkpoint that a run resumes from, and puts the state of its objects back.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local determinism = require "determinism"
local exact = require "train.bit_exact"
local folder = require "train.folder"
local learning_rates = require "train.learning_rates"
local resume = require "train.resume"
local saved_state = require "train.saved_state"
local sync = require "dist.sync"

local restore = {}

local pairs_of_methods = {{"state_dict", "load_state_dict"}, {"state", "set_state"}}

local function method(object, name)
  local ok, fn = pcall(function() return object[name] end)
  return ok and type(fn) == "function" and fn or nil
end

--- Names of the two methods by which an object gives and takes its state.
function restore.methods_of(object)
  for _, names in ipairs(pairs_of_methods) do
    if type(object) == "table" and method(object, names[1]) and method(object, names[2]) then
      return names[1], names[2]
    end
  end
end

-- ---- reading ----

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

--- The saved state that --resume asks for, still to be loaded: tree and file; nil when the run begins anew.
function restore.find(run)
  local from = resume.take(run)
  if not from then return nil end
  return read_from(from)
end

-- ---- putting back ----

local function refuse(file, lines, remedy)
  core.error{code = "value", path = false, context = table.concat(lines, "\n"),
    message = ("a resume from %s would not be bit-exact"):format(file),
    hint = (remedy and remedy .. "; " or "") .. "--inexact allows it"}
end

local function report_differences(self, file, saved)
  local run = self.run
  local mine = self:facts()
  local lines = sync.of_main(function() return exact.differences(saved.facts, mine, resume.is_longer(self.run)) end)
  local moved = exact.moved(saved.facts, mine)
  if moved then run:print("resume: " .. moved) end
  if #lines == 0 then return end
  if not run:setting("inexact") then refuse(file, lines, exact.remedy(saved.facts, mine)) end
  for _, line in ipairs(lines) do run:print("resume, inexact: " .. line) end
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
  local _, set = restore.methods_of(object)
  object[set](object, state)
  for _, line in ipairs(learning_rates.keep_changes(object, saved.built and saved.built[name], self.built[name])) do
    run:print(("resume: %s: %s"):format(name, line))
  end
end

local function whole_entry(entry)
  local fine = type(entry) == "table" and type(entry.step) == "number" and type(entry.value or entry.figure) == "number"
  return not fine and "it must be {step = number, value = number}" or nil
end

-- Beside the state of the objects.
local shape = {
  saved = "text", ended = "text?", top = {["?"] = true, ["*"] = whole_entry},
  facts = {ranks = "count?", data = {["?"] = true, ["*"] = {batch = "number?", count = "number?"}}},
  built = {["?"] = true, ["*"] = {["*"] = {["*"] = "plain"}}},
  algorithms = {["?"] = true, ["*"] = {call = "text", algorithm = "text"}},
  image_shape = {["?"] = true, ["*"] = "count"},
  batch_fields = {["?"] = true, ["*"] = function(field)
    local fine = type(field) == "table" and type(field.shape) == "table" and type(field.dtype) == "string"
    return field ~= false and not fine and "it must be false or {shape = sizes, dtype = text}" or nil
  end},
}

--- Raises unless the state of each object, and what is beside them, is what can be put back.
-- errs format: with the file and the place
function restore.check(self, saved, file)
  saved_state.check(file, saved, shape, "")
  for name, object in pairs(self.objects) do
    if saved.objects[name] ~= nil and method(object, "state_shape") then
      saved_state.check(file, saved.objects[name], object:state_shape(), "objects." .. name)
    end
  end
end

--- Puts the state of a saved tree back into the objects of a checkpoint.
function restore.load(self, saved, file)
  local run = self.run
  restore.check(self, saved, file)
  folder.taking(file, function()
    report_differences(self, file, saved)
    core.no_grad(function()
      for _, name in ipairs(ordered(self.objects)) do put_back(self, saved, name) end
    end)
    core.rng(saved.rng.seed, saved.rng.streams)
    determinism.set_algorithms(saved.algorithms)
  end)
  if sync.world() then require("dist.agree").resumed(saved.step) end
  -- model files need it, also of a run that has no step left to make
  run.image_shape = run.image_shape or saved.image_shape
  run.batch_fields = run.batch_fields or saved.batch_fields
end

return restore
