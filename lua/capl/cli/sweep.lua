-- sweep.lua: `capl sweep RECIPE --grid KEY=A,B …`: reads what is asked for, checks all of it, then runs the trials.
--
-- Nothing starts before every key and value is known to be one the recipe takes, and `capl check` has seen each value.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local folders = require "sweep.folder"
local metric = require "sweep.metric"
local options = require "cli.options"
local recipe = require "sweep.recipe"
local space = require "sweep.space"
local sweep = require "sweep"
local trial = require "sweep.trial"

local spec = {
  {name = "grid", type = "text", value = "KEY=A,B", many = true,
    doc = "KEY=A,B,C or KEY=LOW..HIGH[:log][:POINTS]; one for each setting"},
  {name = "random", type = "number", from = 1, to = 10000,
  doc = "number of random trials, instead of all combinations"},
  {name = "halving", type = "number", from = 2, to = 10000,
    doc = "successive halving: number of random trials; the best of them continue with a larger budget"},
  {name = "factor", type = "number", from = 2, to = 100, default = 3,
    doc = "with --halving: one in this many continues, with that many times the budget"},
  {name = "budget", type = "text", value = "KEY=A..B",
    doc = "with --halving: KEY=LEAST..MOST, the budget; samples, steps or epochs of the recipe"},
  {name = "carry", type = "flag", default = false,
    doc = "with --halving: trials continue from their checkpoints, and learning-rate schedules start again"},
  {name = "metric", type = "text", value = "METRIC", default = "val_exact",
    doc = "validation metric for the ranking; gap.mae: of an output"},
  {name = "at", type = "text", value = "WHICH", open = true, choices = {"best", "last"}, default = "best",
    doc = "the evaluation that is ranked: best or last"},
  {name = "jobs", type = "text", value = "N", default = "auto",
  doc = "concurrent trials; auto: as many as cores and memory allow"},
  {name = "threads", type = "text", value = "N", default = "auto",
    doc = "compute threads of each trial; auto: the cores divided by the jobs"},
  {name = "memory", type = "text", value = "SIZE", default = "auto",
    doc = "memory of all trials, such as 8GB; auto: the free memory"},
  {name = "sweep_seed", type = "number", from = 0, default = 1, doc = "seed of --random and --halving"},
  {name = "out", type = "text", value = "DIR", doc = "folder of the sweep (runs/sweep-NAME)"},
  {name = "resume", type = "text", value = "DIR",
  doc = "folder of an interrupted sweep: finished trials are not repeated"},
  {name = "dry", type = "flag", default = false, doc = "prints the commands of the trials and runs none"},
  {name = "retry", type = "flag", default = false, doc = "with --resume: runs failed trials again, too"},
}

-- ---- words ----

local function count_of(name, text, most)
  if text == "auto" then return nil end
  local n = tonumber(text)
  if not n or n % 1 ~= 0 or n < 1 or n > most then
    core.fail(("--%s is auto or a whole number from 1 to %d, not %s"):format(name, most, text))
  end
  return n
end

local units = {B = 1, KB = 1e3, MB = 1e6, GB = 1e9, TB = 1e12}

-- "8GB" -> bytes; nil for auto.
local function bytes_of(text)
  if text == "auto" then return nil end
  local number, unit = text:match("^([%d%.]+)%s*(%a+)$")
  local n = tonumber(number)
  if not n or n <= 0 or not units[unit:upper()] then
    core.fail(("--memory is auto or a size such as 8GB or 500MB, not '%s'"):format(text))
  end
  return n * units[unit:upper()]
end

-- The device of the trials: their own setting, else what auto means here.
local function device_of(args)
  for _, word in ipairs(args) do
    local name = word:match("^%-%-device=(.*)$")
    if name and name ~= "auto" then return name end
  end
  return (core.device())
end

local function check_options(o)
  if o.random and o.halving then core.fail("--random and --halving exclude each other") end
  for _, name in ipairs{"budget", "carry"} do
    if o[name] and not o.halving then core.fail(("--%s belongs to --halving=N"):format(name)) end
  end
  if o.at ~= "best" and o.at ~= "last" then core.fail(("--at is best or last, not '%s'"):format(o.at)) end
  o.metric = metric.full(o.metric)
  metric.check(o.metric)
end

-- ---- rungs ----

local function whole_text(x) return ("%.0f"):format(x) end

-- {key, least, most} of --budget, or of the recipe's own setting.
local function read_budget(o, known)
  local axis = o.budget and space.read(o.budget)
  if axis then
    if not axis.low or axis.log or axis.points or axis.low <= 0 then
      core.fail(("--budget %s is no KEY=LEAST..MOST above 0"):format(o.budget))
    end
    known.read(axis.key, whole_text(axis.low))
    return axis.key, axis.low, axis.high
  end
  if not known.budget then
    core.fail("the recipe has no setting samples, steps or epochs", "say --budget=KEY=LEAST..MOST")
  end
  if type(known.value) ~= "number" then
    core.fail(("%s = %s of the recipe is no number to divide"):format(known.budget, tostring(known.value)),
      ("say --budget=%s=LEAST..MOST"):format(known.budget))
  end
  return known.budget, nil, known.value
end

-- Rungs of halving: n trials at first, then one of `factor` of them with `factor` times the budget, up to the most.
local function halving_rungs(o, known, n)
  local key, least, most = read_budget(o, known)
  local rungs, trials = {}, n
  repeat
    rungs[#rungs + 1] = {trials = trials}
    trials = math.floor(trials / o.factor)
  until trials < 1 or (least and least * o.factor ^ #rungs > most)
  for i, rung in ipairs(rungs) do
    local budget = math.floor(most / o.factor ^ (#rungs - i) + 0.5)
    if budget < 1 then core.fail(("%s = %g is too little for %d rungs"):format(key, most, #rungs)) end
    rung.budget = whole_text(budget)
  end
  return key, rungs
end

-- ---- the plan ----

-- Numbers in [0,1) for the draw-th trial: its own stream, whatever was drawn before.
local function uniform(seed, n)
  return function(draw)
    local former, streams = core.rng()
    core.rng(seed, draw)
    local out = core.fill_random(core.empty(n), "uniform", 0, 1):tolist()
    core.rng(former, streams)
    return out
  end
end

local function draw(o, axes)
  local n = o.halving or o.random
  if not n then return space.grid(axes) end
  return space.random(axes, n, uniform(o.sweep_seed, #axes))
end

-- How many trials run at a time, and the compute threads of each: cores are shared out, never used twice, and who
-- limits threads by a variable means each of them.
local function share_out(o, trials)
  local cpus = core.sys.cpus()
  local jobs = count_of("jobs", o.jobs, 4096) or math.min(trials, cpus)
  local threads = count_of("threads", o.threads, 4096)
    or math.max(1, math.min(core.sys.threads(), math.floor(cpus / jobs)))
  return math.min(jobs, trials), threads
end

-- The budget of a rung takes the place of what all trials were given; that is the most a rung gets.
local function settle_budget(plan, o, known)
  local kept, budget = {}, o.budget and space.read(o.budget).key or known.budget
  for _, word in ipairs(plan.args) do
    local key, text = options.split(word)
    if key == budget then known.value = known.read(key, text) else kept[#kept + 1] = word end
  end
  plan.budget, plan.rungs = halving_rungs(o, known, #plan.trials)
  plan.args = kept
end

local function make_plan(job, o, args, axes)
  local known = recipe.check(job, args, axes, spec)
  local trials, keys = draw(o, axes), {}
  for i, axis in ipairs(axes) do keys[i] = axis.key end
  local jobs, threads = share_out(o, #trials)
  local plan = {
    recipe = job.recipe, word = job.word,
    program = job.program, version = core.version(), started = core.sys.date(), args = args, keys = keys,
    kind = o.halving and "halving" or o.random and "random" or "grid", trials = trials, sweep_seed = o.sweep_seed,
    metric = o.metric, goal = metric.goal(o.metric), at = o.at, jobs = jobs, threads = threads,
    processors = core.sys.cpus(), asked = o.halving or o.random, memory = bytes_of(o.memory), device = device_of(args),
    carry = o.carry or nil, rungs = {{trials = #trials}},
  }
  for i, axis in ipairs(axes) do plan["grid_" .. i] = axis.text end
  if o.halving then settle_budget(plan, o, known) end
  for _, key in ipairs(keys) do
    if key == plan.budget then core.fail(("%s is the budget of the rungs, so it cannot be in --grid"):format(key)) end
  end
  return plan
end

-- Words of `capl check`: every value comes once at least. It runs on a device without numbers, which knows nothing of
-- what a GPU can compute in.
local function check_lists(plan, axes)
  local lists, on_gpu = {}, plan.device:match("^cuda") ~= nil
  for i, values in ipairs(space.cover(axes)) do
    local list = {}
    local function add(word)
      if not (on_gpu and word:match("^%-%-precision=")) then list[#list + 1] = word end
    end
    for _, word in ipairs(plan.args) do add(word) end
    for a, axis in ipairs(axes) do add(("--%s=%s"):format(axis.key, values[a])) end
    if plan.budget then add(("--%s=%s"):format(plan.budget, plan.rungs[1].budget)) end
    lists[i] = list
  end
  return lists
end

-- `capl check` writes beside the plan, whose folder goes away again when a trial cannot run.
local function check_trials(job, plan, axes, folder)
  local lists, logs = check_lists(plan, axes), {}
  for i = 1, #lists do logs[i] = ("check-%d.log"):format(i) end
  local how, err = core.sys.protect(function()
    recipe.check_metric(job, plan.metric, recipe.check_trials(job, lists, function(i) return folder:file(logs[i]) end))
  end)
  if how == "done" then
    for _, name in ipairs(logs) do core.sys.remove(folder:file(name)) end
    return
  end
  folder:remove(logs)
  if how == "stopped" then core.sys.stop() end
  error(err, 0)
end

local function name_of(path) return path:match("([^/]+)$"):gsub("%.lua$", "") end

local function describe(plan, folder)
  local n = 0
  for _, rung in ipairs(plan.rungs) do n = n + rung.trials end
  local asked = plan.asked or #plan.trials
  if #plan.trials < asked then
    core.sys.out(("note: --grid makes %d different trials, not %d\n"):format(#plan.trials, asked))
  end
  core.sys.out(("%s: %d trials (%s), %d at a time with %d thread%s each, by %s\n"):format(folder.path, n, plan.kind,
    plan.jobs, plan.threads, plan.threads == 1 and "" or "s", plan.metric))
end

local function print_commands(plan)
  for number, values in ipairs(plan.trials) do
    local words = trial.words(plan, values, plan.budget and plan.rungs[1].budget)
    core.sys.out(("trial %3d  %s\n"):format(number, trial.command(plan, words)))
  end
end

local function begin(job, o, grids, args)
  local axes = space.read_all(grids)
  if #axes == 0 then
    core.fail("there is no --grid, so nothing changes from trial to trial", "write --grid KEY=A,B,C")
  end
  local plan = make_plan(job, o, args, axes)
  if o.dry then return print_commands(plan) end
  local folder = folders.new(o.out or "runs/sweep-" .. name_of(job.recipe), o.out ~= nil)
  check_trials(job, plan, axes, folder)
  folder:write("recipe.lua", job.text)
  folder:save_plan(plan)
  describe(plan, folder)
  return sweep.new(plan, folder):run()
end

-- ---- resume ----

local function without_failed(folder)
  local kept = {}
  for _, result in ipairs(folder.results) do
    if result.status == "done" then kept[#kept + 1] = result end
  end
  folder.results = kept
end

local function resume(job, o, words, grids, args)
  if #words + #grids + #args > 0 then
    core.fail(("--resume continues with the options of the sweep; %s is not allowed"):format(words[1] or args[1]
      or "--grid"))
  end
  local folder, plan = folders.open(o.resume)
  if core.sys.read(plan.recipe) ~= core.sys.read(folder:file("recipe.lua")) then
    core.fail(("%s has changed since the start of the sweep, so its trials would not be comparable"):format(plan.recipe),
      "the recipe of then is " .. folder:file("recipe.lua") .. "; a changed one wants a new sweep")
  end
  if plan.version ~= core.version() then
    core.sys.out(("note: the sweep was started with capl %s, this is %s\n"):format(plan.version, core.version()))
  end
  if o.retry then without_failed(folder) end
  plan.jobs = math.max(1, math.min(plan.jobs, count_of("jobs", o.jobs, 4096) or plan.jobs))
  if o.memory ~= "auto" then plan.memory = bytes_of(o.memory) end
  plan.program = job.program
  core.sys.out(("%s: %d results are there\n"):format(folder.path, #folder.results))
  return sweep.new(plan, folder):run()
end

local function main(job)
  local o, words, args = options.read(job.args, spec, {command = "sweep", rest = true})
  local grids = o.grid or {}
  if o.resume then return resume(job, o, words, grids, args) end
  if #words ~= 1 then
    core.fail(words[2] and ("'%s' is no option; write --key=value"):format(words[2])
      or "no recipe is named; usage: " .. job.usage)
  end
  check_options(o)
  for key, value in pairs(core.sys.recipe(words[1])) do job[key] = value end
  return begin(job, o, grids, args)
end

return {main = main, options = spec, examples = {
  {"capl sweep mine.lua --grid lr=0.01,0.02 --grid batch=32,64 --max_time=2m",
  "four runs, in parallel if there are enough cores"},
  {"capl sweep mine.lua --grid lr=0.001..0.1:log --random=8 --seed=1", "eight random learning rates from a range"},
}}
