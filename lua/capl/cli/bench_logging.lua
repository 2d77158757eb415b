-- bench_logging.lua: `capl bench --logging RECIPE`: thread CPU time a step that a run spends on telling and writing.
--
-- The recipe runs to its end, as it would without bench, but speaks to nobody. Counted are the calls of the progress
-- line (as on a terminal), the time split, the curve's points with all files they go to, evaluations' lines and reading
-- the monitor; the sampler's own thread is what other threads took, if the recipe has neither workers nor compute
-- threads.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local cost = require "train.cost"
local recipe = require "cli.execute"

local bench_logging = {}

local function print_metrics(f)
  core.sys.out(("%s: %.2f us of thread CPU time a step for telling and writing, over %d steps\n"):format(f.recipe, f.us,
    f.steps))
  for _, entry in ipairs(f.by) do
    core.sys.out(("  %-10s %7.2f us a step, %.3f calls\n"):format(entry.name, entry.us, entry.calls))
  end
  core.sys.out(("  of which reading the clock for this takes %.2f us a call; all other threads %.2f us a step\n"):format(
    f.clock_us, f.others_us))
  core.sys.out(("  files: %s\n"):format(f.folder))
end

--- job, o: of capl bench; words: the recipe's settings
function bench_logging.run(job, o, words)
  local run = job.run
  cost.start()
  core.sys.mute(true)
  recipe.execute(job, {mode = "run", args = words})
  core.sys.mute(false)
  if run.steps == 0 then
    core.error{code = "state", message = job.recipe .. " has made no step"}
  end
  local f = cost.metrics(run.steps)
  f.recipe, f.steps, f.folder = job.recipe, run.steps, run.path
  if o.json then core.sys.out(core.json_encode(f, true) .. "\n") else print_metrics(f) end
end

return bench_logging
