-- execute.lua: loads a recipe's text and runs it; shared by run, check, bench and the like.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local dist = require "dist"
local options = require "cli.options"

local recipe = {}

-- The device that the words name, as the settings will: the last one counts.
local function named_device(words)
  local name
  for _, word in ipairs(words or {}) do
    local key, value = options.split(word)
    if key == "device" and type(value) == "string" then name = value end
  end
  return name
end

-- Ranks are joined before the recipe says its first word, on the device that its settings will name.
local function join_ranks(run, words)
  if dist.size() == 1 then return end
  local name = named_device(words)
  if name and (core.device()) ~= "meta" then core.device(name) end
  if dist.join{recipe = run.recipe}.rank > 0 then require("run.mute_ranks").begin(run) end
  require("run.preflight").listen(run)
end

-- A GPU's driver is opened before the sandbox starts, inside which it may start no program, and its libraries are
-- loaded from wherever they lie. Errors of the device are reported where the settings are read.
local function open_driver(words)
  if dist.size() > 1 then return end
  local name = named_device(words)
  pcall(function() if (core.device()) ~= "meta" and name and name ~= "auto" then core.device(name) end end)
end

-- What --resume says; resume=false says nothing.
local function resume_word(words)
  for _, word in ipairs(words or {}) do
    local key, value = options.split(word)
    if key == "resume" and value ~= "false" then return value == "true" or value end
  end
end

-- Only its own run's folder is the recipe's to write to: it has to be there before the sandbox closes.
local function choose_folder(run, opts)
  if opts.mode ~= "run" or opts.help then return end
  local word, again = resume_word(opts.args), run.restart and run.restart.folder
  if not word and not again then return run:choose_folder() end
  local named = type(word) == "string" -- else only a folder below runs/ will do
  local resumed = require("train.resume").find(run, again or word, named)
  if resumed then run:choose_folder(resumed) end
end

--- Runs the job's recipe. opts: what run.start takes besides path and text.
-- out  true when it ran to its end, false when sys.unwind ended it
-- errs any error of the recipe
function recipe.execute(job, opts)
  local text = job.text -- the bytes that were checked, whatever has become of the file since
  opts.recipe, opts.text, opts.program, opts.minutes = job.recipe, text, job.program, job.minutes
  opts.ranks_word = job.ranks_word
  local run = job.run
  run:start(opts)
  join_ranks(run, opts.args)
  open_driver(opts.args)
  choose_folder(run, opts)
  core.sys.confine()
  local chunk = core.sys.load(text, "@" .. job.recipe)
  if job.interactive then core.sys.frames_keep(chunk) end
  local whole = core.sys.guard(chunk)
  if core.dist.joined() then core.dist.step(core.dist.STEPS_OVER) end
  return whole
end

--- Runs the job's recipe up to its first train loader, its output hidden -> that loader.
-- errs value: it makes none, or one of samples without images
function recipe.train_loader(job, opts)
  local found
  job.run:on("loader", function(loader, role)
    if role ~= "train" then return end
    found = loader
    core.sys.unwind()
  end)
  core.sys.mute(true)
  recipe.execute(job, opts)
  core.sys.mute(false)
  if not found then
    core.error{code = "value", message = job.recipe .. ' makes no loader with role = "train"',
      hint = "there are no training images to show"}
  end
  if found.source.box:width() == 0 then
    core.error{code = "value", message = job.recipe .. ": the samples of its train loader are no images"}
  end
  return found
end

return recipe
