-- check.lua: `capl check RECIPE`: the recipe's first step on device meta, where tensors have shapes but no numbers;
-- with
-- --ranks=N what the recipe would do on N GPUs, too.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check_files = require "cli.check_files"
local expect = require "recipe.expect"
local facts = require "run.facts"
local model_input = require "run.model_input"
local modelfile = require "run.modelfile"
local plan = require "cli.plan"
local recipe = require "cli.execute"

--- 24576 -> "24.0 KiB"
local function bytes(n)
  local units = {"B", "KiB", "MiB", "GiB"}
  local i = 1
  while n >= 1024 and i < #units do n, i = n / 1024, i + 1 end
  return i == 1 and ("%d B"):format(n) or ("%.1f %s"):format(n, units[i])
end

-- The table of the layers. What takes series may be called with something else than batch.input as it is.
local function summary_text(run)
  local summary = require "nn.summary"
  local call = model_input.caller(run)
  if run.image_shape or call then return tostring(summary(run.model, run.input_shape, {call = call})) end
  local ok, table_of = pcall(summary, run.model, run.input_shape)
  return ok and tostring(table_of) or "no table of layers: the model does not take batch.input as it is"
end

local function print_summary(run)
  local out = core.sys.out
  if run.model and run.input_shape then
    out(summary_text(run) .. "\n")
  elseif not run.model then
    out("no layers to show: the recipe does not call capl.model\n")
  end
  out(("first step: peak %s of tensors%s\n"):format(bytes(run.step_peak or core.memory("meta").peak),
    run.input_shape and ", batch " .. run.input_shape[1] or ""))
end

-- One JSON object in place of the table: what a program may want to know before it runs the recipe.
local function print_json(run, path)
  local roles, modules, read = {}, {}, {}
  local of_modules, of_files = core.sys.used()
  for file in pairs(of_modules) do modules[#modules + 1] = file end
  for file in pairs(of_files) do read[#read + 1] = file end
  table.sort(modules)
  table.sort(read)
  for i, entry in ipairs(run.loaders) do roles[i] = entry.role end
  core.sys.out(core.json_encode{recipe = path, roles = roles, metrics = run.metrics,
    peak_bytes = run.step_peak, batch = run.input_shape and run.input_shape[1], expected = expect.said(run),
    modules = modules, read = read, data = facts.data(run.loaders),
    parameters = run.model and run.model:parameter_count()} .. "\n")
end

-- The recipe's own words, and whether --json was one.
local function without_json(args)
  local words, found = {}, false
  for _, word in ipairs(args) do
    if word == "--json" then found = true else words[#words + 1] = word end
  end
  return words, found
end

-- A recipe without a step has nothing to check.
local function no_step(job)
  core.error{code = "state", message = job.recipe .. " ended without a training step, so there is nothing to check",
    hint = "a step ends with opt:step() or opt:backward_step(loss)"}
end

-- What it would do on several ranks, each with a GPU.
local function print_plan(job, words, ranks, as_json)
  local seen = plan.look(job, ranks, words)
  if not seen then no_step(job) end
  local metrics = plan.metrics(job.run, seen, ranks)
  if as_json then
    core.sys.mute(false)
    return core.sys.out(core.json_encode(metrics) .. "\n")
  end
  print_summary(job.run)
  core.sys.out(plan.title(job, ranks))
  for _, line in ipairs(plan.lines(metrics)) do core.sys.out(line .. "\n") end
  core.sys.out(job.recipe .. ": ok\n")
end

local function main(job)
  local words, as_json = without_json(job.args)
  if as_json then core.sys.mute("stderr") end
  if job.ranks and job.ranks > 1 then return print_plan(job, words, job.ranks, as_json) end
  local run = job.run
  core.device("meta")
  run:on("step", function()
    run.step_peak = core.memory("meta").peak
    if run.fitting then modelfile.check(run.fitting.model, run.fitting.input) end -- errors name train.fit's line
    core.sys.unwind()
  end)
  local ended = recipe.execute(job, {mode = "check", args = words, quiet = true})
  if ended then no_step(job) end
  if as_json then
    core.sys.mute(false)
    return print_json(run, job.recipe)
  end
  print_summary(run)
  for _, line in ipairs(check_files(run.loaders)) do core.sys.out(line .. "\n") end
  for _, line in ipairs(expect.lines(run)) do core.sys.out(line .. "\n") end
  core.sys.out(job.recipe .. ": ok\n")
end

return {main = main, examples = {
  {"capl check mine.lua --batch=256", "layers, and memory for batches of 256"},
  {"capl check a100_ddp --ranks=8", "the plan for eight GPUs"},
}}
