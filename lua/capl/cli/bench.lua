-- bench.lua: `capl bench RECIPE`: how long the recipe's training steps take, and where the time goes.
--
-- A step lasts from the end of one to the end of the next (docs/contract.md), so it holds everything the recipe
-- does in between: waiting for data, forward, backward, update, its own Lua.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sync = require "dist.sync"
local bench_ab = require "cli.bench_ab"
local bench_variant = require "cli.bench_variant"
local bench_augment = require "cli.bench_augment"
local bench_logging = require "cli.bench_logging"
local bench_ops = require "cli.bench_ops"
local bench_stats = require "cli.bench_stats"
local machine = require "cli.bench_machine"
local options = require "cli.options"
local own_kernels = require "run.own_kernels"
local precision_counts = require "run.precision_counts"
local recipe = require "cli.execute"

local spec = {
  {name = "steps", type = "number", doc = "measured steps (20; with --augment 100; with --ab 10 per round)"},
  {name = "warmup", type = "number", doc = "warm-up steps (5; with --augment 10)"},
  {name = "blocks", type = "number",
  doc = "number of blocks of steps: a time is the mean of a block; default: each step is timed"},
  {name = "ab", type = "text", value = "KEY=A,B", many = true,
    doc = "KEY=A,B: compares these values of a setting; several: all combinations"},
  {name = "rounds", type = "number", from = 1, to = 1000, default = 10, doc = "with --ab: rounds"},
  {name = "augment", type = "flag", default = false,
  doc = "measures only data loading: with 16, 8, 4, 1 threads and the device"},
  {name = "ops", type = "flag", default = false,
  doc = "time, bytes and fraction of the theoretical minimum, by op and layer"},
  {name = "logging", type = "flag", default = false,
  doc = "the cost of logging per step, in a whole run of the recipe"},
  {name = "json", type = "flag", default = false, doc = "prints one JSON object"},
  {name = "fixed", type = "flag", default = false, doc = "repeats one batch: excludes the cost of data loading"},
  {name = "precision", type = "text", value = "TYPE", open = true, choices = {"auto", "fp32", "bf16", "fp16", "tf32"},
    doc = "a setting of the recipe, as every other --key=value"},
  {name = "batch", type = "number", doc = "likewise; settings with the name of an option of bench are given after --"},
}

--- Listens to the ends of steps; ends the recipe after the last one. times: seconds of a step, by block
local function listen(run, o)
  local seen = {times = {}, images = 0}
  local length = o.steps / o.blocks
  run:on("step", function()
    local nth = run.steps - o.warmup
    if nth == 0 then
      seen.machine = machine.new(run)
      seen.machine:begin()
      seen.counters = core.counters()
      if o.ops then core.sys.profile.start() end
    end
    -- in the device's own time: a GPU still works when the host continues
    if nth >= 0 and nth % length == 0 then core.mark(nth / length) end
    if nth > 0 then seen.images = seen.images + run.step_images * sync.size() end
    run.step_images = 0
    if nth == o.steps then
      for i = 1, o.blocks do seen.times[i] = core.between(i - 1, i) / length end
      seen.seconds = core.between(0, o.blocks)
      seen.hardware = seen.machine:metrics(seen.seconds)
      seen.machine:close()
      if o.ops then seen.rows = core.sys.profile.stop() end
      core.sys.unwind()
    end
  end)
  return seen
end

-- Threads that make the training batches.
local function workers(run)
  for _, entry in ipairs(run.loaders) do
    if entry.role == "train" then return entry.loader.workers end
  end
end

local function metrics(run, o, seen, path)
  local step = bench_stats.median(seen.times)
  local per_step = seen.images / o.steps
  local counters = core.counters()
  local function counted(name) return counters[name] - seen.counters[name] end
  local function each_step(name) return counted(name) / o.steps end
  local blocks = {}
  for i, seconds in ipairs(seen.times) do blocks[i] = 1000 * seconds end
  local w = core.sys.walls()
  return {
    sandbox = {enabled = w.raised, landlock = w.files, seccomp = w.calls, jit = not w.raised or w.jit},
    recipe = path, version = core.version(), device = (core.device()), images_per_s = per_step / step,
    step_ms = 1000 * step, images_per_s_mean = seen.images / seen.seconds, peak_bytes = seen.hardware.tensor_bytes,
    peak_rss_bytes = seen.hardware.rss, hardware = seen.hardware,
    precision = run:precision() or precision_counts.lowest(run.step_precision_counts), batch = per_step,
    threads = core.sys.threads(), workers = workers(run), steps = o.steps, blocks_ms = o.blocks < o.steps and blocks
    or nil, captured_steps = counted("captured_steps"), capture_refused = run.capture_refused, fixed = o.fixed,
    precision_counts = run.step_precision_counts,
    own_kernels = core.own_kernels(), fused_ops = each_step("fused_ops"), ref_fallbacks = each_step("ref_fallbacks"),
  }
end

-- "waits for data 3 % of the time, processors 96 % busy, GPU 80 % busy at 250 W"
local function hardware_text(h)
  local parts = {("waits for data %.0f %% of the time"):format(100 * h.wait)}
  if h.cpu then parts[#parts + 1] = ("processors %.0f %% busy"):format(100 * h.cpu) end
  if h.utilization then parts[#parts + 1] = ("GPU %.0f %% busy"):format(100 * h.utilization) end
  if h.power_w then parts[#parts + 1] = ("%.0f W"):format(h.power_w) end
  return table.concat(parts, ", ")
end

local function print_metrics(f)
  core.sys.out(("%s: %.1f images/s, step %.2f ms (median of %d), mean %.1f images/s\n"):format(
    f.recipe, f.images_per_s, f.step_ms, #(f.blocks_ms or {}) > 0 and #f.blocks_ms or f.steps, f.images_per_s_mean))
  core.sys.out(("  batch %d, precision %s, threads %d, data %s; peak %.0f MB of tensors, %.0f MB of process\n"):format(
    f.batch, f.precision, f.threads, f.fixed and "fixed" or "loaded", f.peak_bytes / 1e6, f.peak_rss_bytes / 1e6))
  core.sys.out(("  a step: %s; fused ops %g, ref fallbacks %g\n"):format(
    precision_counts.text(f.precision_counts) or "no matmul or convolution", f.fused_ops, f.ref_fallbacks))
  local own = own_kernels.text()
  if own then core.sys.out("  " .. own .. "\n") end
  core.sys.out("  " .. hardware_text(f.hardware) .. "\n")
end

local function main(job)
  local o, words, rest = options.read(job.args, spec, {command = "bench", rest = true})
  local asked = o.ab or {}
  if words[1] then core.error{code = "value", message = ("'%s' is no option; write --key=value"):format(words[1])} end
  o.steps, o.warmup = o.steps or o.augment and 100 or asked[1] and 10 or 20, o.warmup or o.augment and 10 or 5
  if o.steps < 1 or o.warmup < 1 then core.error{code = "value", message = "--steps and --warmup are at least 1"} end
  o.blocks = o.blocks or o.steps
  if o.blocks < 1 or o.steps % o.blocks ~= 0 then
    core.error{code = "value", message = ("--steps=%g are not --blocks=%g of the same length"):format(o.steps,
      o.blocks)}
  end
  if o.steps > 4000 then core.error{code = "value", message = ("--steps is at most 4000, not %d"):format(o.steps)} end
  if o.precision then rest[#rest + 1] = "--precision=" .. o.precision end
  if o.batch then rest[#rest + 1] = "--batch=" .. ("%d"):format(o.batch) end
  o.variant = core.sys.getenv("CAPL_BENCH_VARIANT") -- which bench_ab.lua starts its children with
  if o.variant then return bench_variant.main(job, o, rest) end
  if asked[1] then return bench_ab.run(job, o, asked, rest) end
  if o.logging then return bench_logging.run(job, o, rest) end
  if o.augment then return bench_augment.run(job, o, rest) end
  local run = job.run
  local seen = listen(run, o)
  if o.ops then bench_ops.label_layers(run) end
  core.sys.mute(true)
  local ended = recipe.execute(job, {mode = "bench", args = rest, quiet = true, fixed = o.fixed})
  core.sys.mute(false)
  if ended then
    core.error{code = "state", message =
      ("%s ended after %d steps; bench wanted %d to warm up and %d to measure"):format(
      job.recipe, run.steps, o.warmup, o.steps)}
  end
  local f = metrics(run, o, seen, job.recipe)
  if o.ops then
    f.ops, f.rates = bench_ops.rows(seen.rows, o.steps, f.precision)
    f.by_op = bench_ops.by_op(f.ops)
    f.floor_sum_ms = 0 -- not floor_ms: each row has one of its own
    for _, row in ipairs(f.ops) do f.floor_sum_ms = f.floor_sum_ms + row.floor_ms end
  end
  if o.json then core.sys.out(core.json_encode(f, true) .. "\n") return end
  print_metrics(f)
  if o.ops then core.sys.out(bench_ops.table(f.ops, f.step_ms) .. "\n" .. bench_ops.table_by_op(f.by_op, f.step_ms)) end
end

return {main = main, options = spec, examples = {
  {"capl bench mine.lua --ops", "step time, by operation"},
  {"capl bench mine.lua --ab precision=fp32,bf16", "compares two settings"},
}}
