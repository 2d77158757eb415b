-- recipe.lua: what a sweep wants to know of its recipe before any trial begins: its settings, and whether trials can
-- begin.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json_file = require "json_file"
local metric = require "sweep.metric"
local options = require "cli.options"
local execute = require("cli.execute").execute

local recipe = {}

-- Runs the recipe up to its capl.params, on a device without numbers -> function(key, text) -> value, which raises what
-- is wrong with the text; list of keys.
local function settings_of(job, args)
  local found
  local run = job.run
  run.inspect = function(keys, read) found = {keys = keys, read = read} end
  local former = core.device()
  core.device("meta")
  run:on("loader", function() core.sys.unwind() end)
  run:on("step", function() core.sys.unwind() end)
  core.sys.mute(true)
  execute(job, {mode = "check", args = args, quiet = true})
  core.sys.mute(false)
  core.device(former)
  run.mode = "none"
  if not found then core.fail(job.recipe .. " has no capl.params, and so no settings to sweep over") end
  found.known = {preset = true}
  for _, key in ipairs(found.keys) do found.known[key] = true end
  return found
end

-- "samples" of a recipe that has it; the first of what says how long a run is.
local function budget_key(found)
  for _, key in ipairs{"samples", "steps", "epochs"} do
    for _, known in ipairs(found.keys) do
      if key == known then return key end
    end
  end
end

local function check_axis(found, axis)
  for _, text in ipairs(axis.values or {}) do found.read(axis.key, text) end
  if axis.values then return end
  for _, x in ipairs{axis.low, axis.high} do
    if type(found.read(axis.key, ("%.17g"):format(x))) ~= "number" then
      core.fail(("--grid %s: %s is no number, so it has no range"):format(axis.text, axis.key))
    end
  end
end

-- The setting that a word names and its text, as a recipe reads its flags: --no-KEY is KEY=false, --learning-rate
-- learning_rate. A key that is no setting stays as it is.
local function setting_of(known, word)
  local key, text = options.split(word)
  local own = known[key] and key or key:gsub("-", "_")
  local negated = not known[own] and options.without_no(own)
  if negated and known[negated] and text == true then return negated, "false" end
  return known[own] and own or key, text
end

-- A word may be a misspelt option of the sweep as well as of the recipe.
local function check_word(found, spec, word)
  local key, text = setting_of(found.known, word)
  if found.known[key] then return key ~= "preset" and found.read(key, text) end
  local names = {"preset", unpack(found.keys)}
  for _, option in ipairs(spec) do names[#names + 1] = option.name end
  local gone = options.gone(key)
  local near = not gone and core.nearest(key, names)
  core.fail(("unknown option --%s%s"):format(key, near and ("; did you mean --%s?"):format(near) or ""),
    gone or "'capl sweep --help' lists the options of a sweep, 'capl RECIPE --help' the settings of the recipe")
end

--- Checks keys and values against the recipe's settings.
-- args  --key=value words that all trials share; spec: options of the sweep
-- out   {budget = key that says how long a run is, its value}
function recipe.check(job, args, axes, spec)
  local found = settings_of(job, args)
  for _, word in ipairs(args) do check_word(found, spec, word) end
  for _, axis in ipairs(axes) do
    check_axis(found, axis)
    for _, word in ipairs(args) do
      if setting_of(found.known, word) == axis.key then
        core.fail(("%s is both fixed and in --grid: %s"):format(axis.key, word))
      end
    end
  end
  local key = budget_key(found)
  return {budget = key, value = key and found.read(key), read = found.read}
end

-- The message of `capl check` that failed: all but its hint's repetition of what a run would say.
local function message_of(log)
  return ((core.sys.read(log) or ""):gsub("%s+$", ""))
end

-- What `capl check --json` said.
local function facts_of(log)
  return json_file.decode(("\n" .. (core.sys.read(log) or "")):match("\n({[^\n]*})%s*$")) or {}
end

--- Runs `capl check --json` of the recipe once for each list of words, side by side.
-- out  what the first one said: {roles = of its loaders, metrics = of an evaluation, …}
-- errs value: what the first one that fails says
function recipe.check_trials(job, lists, log_of)
  local running, most, next_one, failed = {}, core.sys.cpus(), 1, nil
  while next(running) or (next_one <= #lists and not failed) do
    local count = 0
    for _ in pairs(running) do count = count + 1 end
    if next_one <= #lists and count < most and not failed then
      local args = {"check", job.word, "--json"}
      for _, word in ipairs(lists[next_one]) do args[#args + 1] = word end
      local process, why = core.sys.spawn{args = args, log = log_of(next_one), env = {"CAPL_THREADS=1"}}
      if not process then core.error{code = "io", message = why} end
      running[next_one], next_one = process, next_one + 1
    else
      core.sys.sleep(0.01)
    end
    for i, process in pairs(running) do
      local status = process:poll()
      if status then
        running[i] = nil
        if status ~= 0 and (not failed or i < failed) then failed = i end
      end
    end
  end
  if failed then
    core.fail(("a trial cannot run: %s\n%s"):format(table.concat(lists[failed], " "), message_of(log_of(failed))))
  end
  return facts_of(log_of(1))
end

--- Raises when the recipe's runs will not have the metric to choose by. facts: of recipe.check_trials
function recipe.check_metric(job, name, facts)
  local roles, names = {}, {}
  for _, role in ipairs(facts.roles or {}) do roles[role] = true end
  if facts.roles and not roles.val then
    core.fail(job.recipe .. ' has no val loader, so the trials cannot be ranked',
      'data.loader{source = …, role = "val"} makes one')
  end
  if not facts.metrics then return end -- a custom training loop: known with its first evaluation
  for i, key in ipairs(facts.metrics) do names[i] = "val_" .. key end
  table.sort(names)
  metric.check_names(name, names)
end

return recipe
