-- dry_run.lua: the key dry_run of train.fit, and --dry_run of every recipe: one step and one batch of each evaluation
-- through all that a run does, saving included; what it wrote is removed again.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local loaders = require "train.loaders"
local trees = require "run.trees"

local OP = "train.fit"

local DryRun = {}
DryRun.__index = DryRun

-- Whether the command line asks for it.
local function asked(run)
  for _, s in ipairs(run.settings) do
    if s.key == "dry_run" then
      s.read = true
      return s.value
    end
  end
  return false
end

local function prepare(o, run)
  if o.dry_run == nil then o.dry_run = asked(run) end
  if not o.dry_run then return end
  if run:setting("resume") then
    check.fail(OP, "dry_run leaves nothing, so there is nothing to --resume: give one of them")
  end
  o.planned = {steps = o.steps, epochs = o.epochs, samples = o.samples} -- which the header prints all the same
  o.steps, o.epochs, o.samples, o.max_time = 1, nil, nil, nil
  for _, name in ipairs{"val", "test"} do
    if o[name] then o[name] = loaders.limited(o[name], 1) end
  end
  local tests = {}
  for name, loader in pairs(o.tests or {}) do tests[name] = loaders.limited(loader, 1) end
  o.tests = next(tests) and tests
end

local function new(fit)
  if not fit.o.dry_run then return nil end
  local run = fit.run
  local counter = {n = 0}
  run:add_feature{name = "dry_run", what = "steps", count = function() return counter.n end}
  if run.mode == "run" then run.scratch = true end
  return setmetatable({fit = fit, counter = counter}, DryRun)
end

function DryRun.lines() return {"dry run: one step, one batch of each evaluation, every file; nothing is kept"} end

function DryRun:after_step() self.counter.n = self.counter.n + 1 end

function DryRun:finish() self.whole = true end

--- After an error there is no end of the run that would tidy up.
function DryRun:close()
  local run = self.fit.run
  if not self.whole and run.mode == "run" and run.path then
    trees.empty(run.path)
    run.path = nil
  end
end

return {name = "dry_run", spec = {{"dry_run", "boolean"}}, prepare = prepare, new = new}
