-- plan.lua: what a recipe would do on several ranks, found by its first step on device meta: batch, steps, exchange,
-- memory. For `capl check RECIPE --ranks=N`, and for a recipe whose GPUs are not here.
--
-- Numbers of the recipe are its own; what is assumed of GPUs that nobody sees is named in the plan.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local digit_groups = require "digit_groups"
local model_input = require "run.model_input"
local modelfile = require "run.modelfile"
local progress = require "run.progress"
local recipe = require "cli.execute"
local shell = require "shell"

local plan = {}

plan.RANKS = 3 -- of a recipe that wants all GPUs of a machine that has none

local GPU = {name = "A100", gigabytes = 40} -- which is assumed

-- ---- the first step ----

-- The options of train.fit; a custom training loop has none.
local function listen(run, seen)
  run:on("fit", function(o) seen.fit = o end)
  run:on("step", function()
    seen.peak, seen.live = core.memory("meta").peak, core.memory("meta").live
    if seen.fit then modelfile.check(seen.fit.model, seen.fit.input) end
    core.sys.unwind()
  end)
end

local function loader_of(run, role)
  for _, entry in ipairs(run.loaders) do
    if entry.role == role then return entry.loader end
  end
end

--- Runs the recipe up to its first step, as rank 0 of that many on such GPUs.
-- out  what was seen: fit, peak and live bytes of that step; nil when it ended without one
function plan.look(job, ranks, words)
  local seen = {}
  core.device("meta")
  observer.planned = {kind = "cuda", precision = "bf16", gigabytes = GPU.gigabytes, name = GPU.name}
  require "dist.planned"(require("dist").world(), ranks)
  listen(job.run, seen)
  local ended = recipe.execute(job, {mode = "check", args = words, quiet = true})
  return not ended and seen or nil
end

-- ---- metrics ----

-- Steps of the run, and of an epoch; the first nil where time or the recipe's own loop decides.
local function steps_of(seen, train, accumulate)
  local o = seen.fit
  return o and (o.planned and o.planned.steps or o.steps), train and math.ceil(train:batches() / accumulate)
end

local function parameters(run)
  local all, trained = 0, 0
  for _, p in run.model:named_parameters() do
    all = all + p:numel()
    if p.requires_grad then trained = trained + p:numel() end
  end
  return all, trained
end

local function data_bytes(source)
  local box = source.box
  local count = source:count()
  return count < 1e8 and count * box:width() * box:height() * box:channels() or nil
end

--- All that the plan contains, as numbers.
function plan.metrics(run, seen, ranks)
  local train = loader_of(run, "train")
  local accumulate = seen.fit and seen.fit.accumulate or 1
  local steps, per_epoch = steps_of(seen, train, accumulate)
  local f = {ranks = ranks, batch = train and train.batch, accumulate = accumulate, steps = steps,
    steps_per_epoch = per_epoch, max_time = seen.fit and seen.fit.max_time, precision = run:precision() or "fp32",
    peak_bytes = seen.peak, gpu = GPU.name}
  f.images_per_step = f.batch and f.batch * ranks * accumulate
  if train then f.images, f.data_bytes = train.source:count(), data_bytes(train.source) end
  if not run.model then return f end
  f.parameters, f.trained = parameters(run)
  f.gradient_bytes = 4 * f.trained
  if not run.image_shape then return f end
  f.macs = require("nn.summary")(run.model, run.image_shape, {call = model_input.caller(run)}).macs
  return f
end

-- ---- words ----

local function bytes(n)
  if n >= 1e9 then return ("%.1f GB"):format(n / 1e9) end
  return n >= 1e6 and ("%.1f MB"):format(n / 1e6) or ("%.0f kB"):format(n / 1e3)
end

local function batch_text(f)
  local parts = {("%s a GPU x %d GPU%s"):format(digit_groups(f.batch), f.ranks, f.ranks == 1 and "" or "s")}
  if f.accumulate > 1 then parts[2] = ("%d accumulated"):format(f.accumulate) end
  return ("%s = %s images a step"):format(table.concat(parts, " x "), digit_groups(f.images_per_step))
end

local function steps_text(f)
  local epoch = f.images and f.images < 1e8 and ("%s an epoch"):format(digit_groups(f.steps_per_epoch))
    or "the data has no end"
  if not f.steps then
    return epoch .. (f.max_time and "; as many as fit into " .. progress.duration(f.max_time) or "")
  end
  return ("%s in all, %s; %s images"):format(digit_groups(f.steps), epoch, digit_groups(f.steps * f.images_per_step))
end

local function memory_text(f)
  local fixed = f.trained and 4 * (f.parameters + f.trained) or 0
  return ("%s of tensors a GPU at most: %s of weights and gradients, %s of activations, optimizer and batch"):format(
    bytes(f.peak_bytes), bytes(fixed), bytes(f.peak_bytes - fixed))
end

--- Lines of the plan.
function plan.lines(f)
  local lines = {}
  local function add(name, text) lines[#lines + 1] = ("  %-10s %s"):format(name, text) end
  if f.batch then add("batch", batch_text(f)) end
  if f.batch then add("steps", steps_text(f)) end
  add("precision", f.precision)
  if f.parameters then
    add("network", digit_groups(f.parameters) .. " parameters"
      .. (f.macs and (", %s multiplications an image"):format(digit_groups(f.macs)) or ""))
    add("exchange", ("%s of gradients a step and GPU, weights of %s once"):format(bytes(f.gradient_bytes),
      bytes(4 * f.parameters)))
  end
  add("memory", memory_text(f))
  if f.data_bytes then add("data",
    ("%s images, %s on each GPU that has room for them"):format(digit_groups(f.images), bytes(f.data_bytes))) end
  return lines
end

--- Its first line.
function plan.title(job, ranks)
  return ("%s on %d GPU%s, %s with 40 GB%s (assumed):\n"):format(job.recipe, ranks, ranks == 1 and "" or "s",
    ranks == 1 and "an A100" or "A100", ranks == 1 and "" or " each")
end

-- ---- a recipe whose GPUs are not here ----

-- Whether the recipe has a preset of that name.
local function has_preset(job, name) return job.text:find("%f[%w_]" .. name .. "%s*=%s*{") ~= nil end

-- Settings that say how large a run is, or where: a trial has its own.
local size = {preset = true, batch = true, steps = true, epochs = true, samples = true, accumulate = true,
  device = true, precision = true}

--- The line that tries the recipe here, with what was said of other things than its size.
function plan.try_line(job, given)
  local words = {job.program, job.recipe, "--ranks=2"}
  words[4] = has_preset(job, "try") and "--preset=try" or "--device=cpu"
  for _, word in ipairs(given) do
    if not size[word:match("^%-%-([%w_]+)") or ""] then words[#words + 1] = word end
  end
  return shell.command(words)
end

--- Prints why the recipe does not run here, what it would do, and the line that tries it. -> exit status
function plan.main(job, words, why)
  local ranks = job.ranks and job.ranks > 0 and job.ranks or plan.RANKS
  local out = core.sys.err or core.sys.out
  out(("capl: %s wants a GPU for each rank: %s\n"):format(job.recipe, why))
  local seen = plan.look(job, ranks, words)
  if seen then
    out("the plan: " .. plan.title(job, ranks))
    for _, line in ipairs(plan.lines(plan.metrics(job.run, seen, ranks))) do out(line .. "\n") end
  end
  out("try it here: " .. plan.try_line(job, words) .. "\n")
  return 1
end

return plan
