-- resume.lua: --resume: which run is resumed, with which of its settings, and what has changed since.
--
-- A run is what its folder says: settings.json holds the settings, checkpoints/ the state. train.fit and
-- train.Checkpoint take the state; a recipe that uses neither cannot be resumed, which is an error before its first
-- step.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json_file = require "json_file"
local sync = require "dist.sync"
local process = require "run.process"
local checkpoints = require "train.folder"

-- A run has resume_found ({folder =, file = path of the checkpoint that was named, else nil}: what find has found for
-- begin), resume_from (the same with settings = as in settings.json, recipe, ranks) and resume_taken: somebody has
-- taken the state.
local resume = {}

-- Settings that are about one start, not about the run.
local OWN = {resume = true, inexact = true, init_from = true, quiet = true, json = true}

-- ---- finding it ----

-- settings.json of a run's folder; nil when it is no run's folder.
local function settings_of(folder)
  local path = folder .. "/settings.json"
  if not core.sys.kind(path) then return nil end
  local text, why = core.sys.read(path)
  if not text then core.error{code = "io", message = why, path = false} end
  local value = json_file.decode(text)
  if not value or type(value.settings) ~= "table" then
    core.fail(("%s/settings.json is damaged, so the settings of this run are unknown"):format(folder))
  end
  return value
end

local function base_name(path) return path:match("([^/]+)$") end

-- Runs of this recipe, the newest first: {folder, started, number}; and the error of one that cannot be read.
local function runs_of_recipe(run)
  local out, unread = {}, nil
  for _, name in ipairs(checkpoints.names("runs")) do
    local folder = "runs/" .. name
    local fine, settings = pcall(settings_of, folder)
    if not fine and core.is_error(settings) and settings.code == "nomem" then error(settings, 0) end
    if not fine and core.is_error(settings) and settings.code == "io" then
      unread = settings
      run:print("note: " .. settings.message)
    end
    if fine and settings and type(settings.recipe) == "string"
      and base_name(settings.recipe) == base_name(run.recipe) then
      out[#out + 1] = {folder = folder, started = tostring(settings.started), number = tonumber(name:match("%-(%d+)$"))
        or 1}
    end
  end
  table.sort(out, function(a, b)
    if a.started ~= b.started then return a.started > b.started end
    return a.number > b.number
  end)
  return out, unread
end

local function newest(run)
  local all, unread = runs_of_recipe(run)
  if #all == 0 and unread then error(unread, 0) end
  if #all == 0 then
    core.fail(("there is no run of %s below runs/ to resume"):format(run.recipe),
      "without --resume a new one is started")
  end
  for i, entry in ipairs(all) do
    if checkpoints.any(entry.folder) then
      if i > 1 then run:print(("note: %s has no checkpoint; resuming %s"):format(all[1].folder, entry.folder)) end
      return entry.folder
    end
  end
  core.fail(("%s has no checkpoint to resume from"):format(all[1].folder),
    "it ended before one was saved; without --resume a new run is started")
end

-- The folder, and the checkpoint if one was named.
local function locate(run, value)
  if value == true then return newest(run) end
  local path = value:gsub("(.)/+$", "%1")
  local kind = core.sys.kind(path)
  if not kind and core.sys.kind("runs/" .. path) == "folder" then path, kind = "runs/" .. path, "folder" end
  if not kind then core.fail(("--resume=%s: there is no such run or checkpoint"):format(value)) end
  if kind == "file" then
    local folder = path:match("^(.*)/checkpoints/[^/]+$")
    if not folder then
      core.fail(("--resume=%s: the file lies in no run's folder"):format(value),
        ("--init_from=%s starts a new run with its weights"):format(value))
    end
    return folder, path
  end
  if base_name(path) == "checkpoints" then path = path:match("^(.*)/[^/]+$") or ".." end
  if not checkpoints.any(path) then core.fail(("--resume=%s: it has no checkpoint to resume from"):format(value)) end
  return path
end

--- Before the sandbox closes: the run that --resume=value is about -> {folder =, said = whether the user has named it};
--- nil: there is none, which begin raises with the recipe's line. Every rank calls it.
function resume.find(run, value, named)
  local found = sync.of_main(function()
    local ok, folder, file = pcall(locate, run, value)
    return ok and {folder = folder, file = file} or nil
  end)
  run.resume_found = found
  return found and {folder = found.folder, said = named}
end

-- ---- the settings ----

local function must_be_taken(run)
  if run.resume_taken then return end
  core.fail(("--resume: %s takes no saved state"):format(run.recipe),
    "train.fit does it; a custom training loop needs train.Checkpoint{…}: see capl.train.Checkpoint")
end

-- Ranks whose mpirun was killed end seconds after it.
local function take_folder(folder, settings, restarted)
  local who = process.take(folder, settings.process, restarted and 15)
  if not who then return end
  core.fail(("--resume: %s is trained by %s right now"):format(folder, who),
    "after it has ended or was stopped, --resume continues it")
end

--- Begins with what --resume says. -> {key = {value =, origin =, why =}} of that run, empty without.
function resume.begin(run, value)
  if not value then return {} end
  if run.mode ~= "run" then core.fail("--resume continues a run; this command starts none") end
  local place = run.resume_found or sync.of_main(function()
    local folder, file = locate(run, value)
    return {folder = folder, file = file}
  end)
  local folder, file = place.folder, place.file
  local settings = settings_of(folder)
  if not settings then
    core.fail(("%s is no run's folder: it has no settings.json%s"):format(folder, sync.here()), sync.files_hint())
  end
  if sync.is_main() then take_folder(folder, settings, run.restart) end
  run.resume_from = {folder = folder, file = file, settings = settings.settings, recipe = settings.recipe,
    ranks = type(settings.machine) == "table" and settings.machine.ranks or 1}
  run.path = folder
  run:on("gradients", function() must_be_taken(run) end)
  return settings.settings
end

--- The value that a setting had, if it can still have it. default: of the recipe; nil: there was none.
function resume.value(former, key, default)
  local was = former[key]
  if OWN[key] or type(was) ~= "table" or was.value == nil then return nil end
  if was.origin == "auto" then return default end -- chosen anew: another choice is found when the state is compared
  if type(was.value) ~= type(default) and default ~= "auto" then return nil end
  return was.value
end

--- The setting batch where a restart has fewer ranks than its value was meant for: the images of a step stay the same.
-- -> value, whether it was changed
function resume.batch(run, key, value, origin)
  local before = run.restart and (origin == "as before" and run.resume_from.ranks or run.restart.ranks)
  local ranks = sync.size()
  if key ~= "batch" or not before or before == ranks or type(value) ~= "number" then return value, false end
  return value * before / ranks, true
end

local function shown(value) return type(value) == "table" and "…" or tostring(value) end

--- Lines about settings that are not what they were; texts of list `settings` of params.
function resume.changes(run)
  local out, from = {}, run.resume_from
  for _, s in ipairs(from and run.settings or {}) do
    local was = from.settings[s.key]
    if not OWN[s.key] and type(was) == "table" and was.value ~= s.value then
      out[#out + 1] = ("%s: %s, was %s"):format(s.key, shown(s.value), shown(was.value))
    end
  end
  return out
end

local lengths = {"steps", "epochs", "samples", "max_time"}

--- Whether this start asks for another length of the run.
function resume.is_longer(run)
  if not run.resume_from then return false end
  for _, key in ipairs(lengths) do
    local was = run.resume_from.settings[key]
    if type(was) == "table" and was.value ~= (run:setting(key)) then return true end
  end
  return false
end

--- Takes the state to resume from, once. -> {folder =, file =} or nil: this run begins anew.
function resume.take(run)
  if not run.resume_from then return nil end
  run.resume_taken = true
  for _, s in ipairs(run.settings) do
    if s.key == "resume" or s.key == "inexact" then s.read = true end
  end
  return run.resume_from
end

return resume
