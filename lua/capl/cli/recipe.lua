-- recipe.lua: loads a recipe's text and runs it; shared by run, check and bench.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local run = require "run"

local recipe = {}

--- Runs the job's recipe. opts: what run.start takes besides path and text.
-- out  true when it ran to its end, false when sys.unwind ended it
-- errs io: the file cannot be read; any error of the recipe
function recipe.execute(job, opts)
  local text, why = core.sys.read(job.recipe)
  if not text then core.error{code = "io", message = why} end
  opts.recipe, opts.text, opts.program, opts.minutes = job.recipe, text, job.program, job.minutes
  run.start(opts)
  return core.sys.guard(core.sys.load(text, "@" .. job.recipe))
end

return recipe
