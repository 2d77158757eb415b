-- bench_ab.lua: `capl bench RECIPE --ab KEY=A,B`: the recipe with other settings, measured turn by turn: A, B, A, B …
--
-- Each arm is a process of its own that stays, warmed up, for the whole comparison; one of them works at a time. What
-- changes slowly on a machine (heat, clocks, other users) then changes all arms alike: the ratio of an arm to the first
-- is taken round by round, and what is told is the median of these ratios with an interval that assumes nothing of how
-- times are distributed (bench_stats.lua).
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local arms_of = require "cli.bench_arms"
local output = require "output"
local stats = require "cli.bench_stats"
local table_of = require "cli.bench_table"

local ab = {}

local MISS = 0.05 -- chance that any of the intervals told does not hold its ratio
local TICK = 0.002 -- seconds between samples for an answer

-- ---- the children ----

local function temporary_folder()
  local base = (core.sys.getenv("TMPDIR") or "/tmp") .. "/capl-bench"
  for i = 1, 10000 do
    local path = ("%s-%d-%d"):format(base, core.sys.time(), i)
    local made, why = core.sys.mkdir_new(path)
    if made == nil then core.error{code = "io", message = why} end
    if made then return path end
  end
end

local function remove_folder(path)
  for _, name in ipairs(core.sys.list(path) or {}) do core.sys.remove(path .. "/" .. name) end
  core.sys.remove(path)
end

-- What an arm said before it ended; errors of recipes are told with their line and their hint.
local function ended(arm, status)
  local words = (core.sys.read(arm.path .. ".log") or ""):gsub("%s+$", "")
  if words == "" then words = ("it ended with status %d and no message"):format(status) end
  core.fail(("variant %s: %s"):format(arm.name, words))
end

-- Waits for NAME.what of an arm -> its values.
local function answer(arm, what)
  local path = arm.path .. "." .. what
  while core.sys.kind(path) ~= "file" do
    local status = arm.process:poll()
    if status and core.sys.kind(path) ~= "file" then ended(arm, status) end
    core.sys.sleep(TICK)
  end
  local values = core.json_decode(core.sys.read(path))
  core.sys.remove(path)
  return values
end

local function order(arm, what)
  local done, why = core.sys.write(arm.path .. ".go", what .. "\n")
  if not done then core.error{code = "io", message = why} end
end

local function start(job, o, arm, words)
  local args = {"bench", job.word, ("--steps=%d"):format(o.steps), ("--warmup=%d"):format(o.warmup)}
  if o.fixed then args[#args + 1] = "--fixed" end
  args[#args + 1] = "--"
  for _, list in ipairs{words, arm.words} do
    for _, word in ipairs(list) do args[#args + 1] = word end
  end
  local why
  arm.process, why = core.sys.spawn{args = args, log = arm.path .. ".log", env = {"CAPL_BENCH_ARM=" .. arm.path}}
  if not arm.process then core.error{code = "io", message = why} end
end

-- ---- before the first round ----

-- A key that decides nothing would make a comparison of equals look like a result.
local function check_read(job, arm)
  for _, key in ipairs(arm.ready.unread) do
    for _, own in ipairs(arm.keys) do
      if own == key then
        core.fail(("%s does not read its setting %s in its first steps, so all variants would be the same"):format(job.recipe, key))
      end
    end
  end
end

-- All arms are in memory at the same time.
local function check_memory(arm, more)
  local r = arm.ready
  local free, each, where = core.sys.memory_available(), r.rss, "memory"
  if r.card_free then free, each, where = r.card_free, r.card_held, "memory of the GPU" end
  if not free or each * more <= free then return end
  core.fail(("%d more variants as large as %s do not fit into the %s: each takes about %.1f GB, %.1f GB are free"):format(
    more, arm.name, where, each / 1e9, free / 1e9), "compare fewer at a time")
end

local function warm_up(job, o, arms, words, say)
  for i, arm in ipairs(arms) do
    say(("%s: warming up (%d of %d)"):format(arm.name, i, #arms))
    start(job, o, arm, words)
    arm.ready = answer(arm, "ready")
    check_read(job, arm)
    check_memory(arm, #arms - i)
  end
end

-- ---- metrics ----

local function mean(rounds, key)
  local sum, seconds = 0, 0
  for _, r in ipairs(rounds) do
    if not r[key] then return nil end
    sum, seconds = sum + r[key] * r.seconds, seconds + r.seconds
  end
  return sum / seconds
end

local function most(rounds, key)
  local out
  for _, r in ipairs(rounds) do
    if r[key] and (not out or r[key] > out) then out = r[key] end
  end
  return out
end

local function sum(rounds, key)
  local out = 0
  for _, r in ipairs(rounds) do
    if not r[key] then return nil end
    out = out + r[key]
  end
  return out
end

local function rate(r) return r.images / r.seconds end

local function step_times(rounds)
  local out = {}
  for _, r in ipairs(rounds) do
    for _, seconds in ipairs(r.times) do out[#out + 1] = 1000 * seconds end
  end
  return stats.spread(out)
end

-- "faster", "slower"; "no difference seen" when the interval holds 1.
local function verdict(low, high)
  if not low then return "too few rounds" end
  return low > 1 and "faster" or high < 1 and "slower" or "no difference seen"
end

-- Seconds of a step as most are; the rate of a round holds the slow ones, too.
local function pace(r) return 1 / stats.median(r.times) end

-- How an arm's metric compares with the first arm's, round by round. miss: of this one interval
local function compare(metric, arm, first, miss)
  local ratios = {}
  for i, r in ipairs(arm.rounds) do ratios[i] = metric(r) / metric(first.rounds[i]) end
  local low, high = stats.interval(ratios, miss)
  return {median = stats.median(ratios), low = low, high = high, verdict = verdict(low, high)}
end

local function metrics(arm, first, miss)
  local rounds, rates = arm.rounds, {}
  for i, r in ipairs(rounds) do rates[i] = rate(r) end
  local energy, other = sum(rounds, "energy_wh"), arm ~= first
  local out = {
    name = arm.name, settings = arm.settings, images_per_s = stats.spread(rates), step_ms = step_times(rounds),
    rounds = rates,
    ratio = other and compare(rate, arm, first, miss) or nil, -- of images per second
    step_ratio = other and compare(pace, arm, first, miss) or nil, -- of the median step's
    products = rounds[#rounds].products, captured = rounds[#rounds].captured,
    wh_per_1000_images = energy and 1000 * energy / sum(rounds, "images") or nil,
    estimated = energy and {"wh_per_1000_images"} or nil, -- all other metrics are measured
  }
  for _, key in ipairs{"wait", "cpu", "cpu_power_w", "power_w", "utilization", "throttled"} do
    out[key] = mean(rounds, key)
  end
  for _, key in ipairs{"temperature_c", "memory_used", "tensor_bytes", "rss"} do out[key] = most(rounds, key) end
  return out
end

-- Arms that end up with the same settings, whatever they were asked for.
local function notes(arms)
  local out = {}
  for i, a in ipairs(arms) do
    for k = i + 1, #arms do
      local same = true
      for key, value in pairs(a.ready.values) do same = same and arms[k].ready.values[key] == value end
      if same then out[#out + 1] = ("%s and %s run with the same settings"):format(a.name, arms[k].name) end
    end
  end
  return out
end

local function result(job, o, arms)
  local first, list = arms[1], {}
  for i, arm in ipairs(arms) do list[i] = metrics(arm, first, MISS / (#arms - 1)) end
  return {
    recipe = job.recipe, version = core.version(), device = first.ready.device, backend = first.ready.description,
    gpu = first.ready.gpu, threads = first.ready.threads, rounds = o.rounds, steps = o.steps, warmup = o.warmup,
    fixed = o.fixed, arms = list, confidence = 1 - MISS, notes = notes(arms),
  }
end

-- ---- the whole ----

local function measure(o, arms, say)
  for round = 1, o.rounds do
    for _, arm in ipairs(arms) do
      say(("round %d of %d: %s"):format(round, o.rounds, arm.name))
      order(arm, "round")
      arm.rounds[round] = answer(arm, "round")
    end
  end
end

-- A line at the bottom of a terminal; nothing elsewhere.
local function teller(o)
  if o.json or not output.is_live() then return function() end end
  return function(text) core.sys.bar(text:sub(1, core.sys.columns() - 1)) end
end

local function check(o)
  if o.ops or o.augment or o.logging then
    core.fail("--ab compares whole steps: leave --ops, --augment and --logging out")
  end
end

--- Compares.
-- in   asked: texts KEY=A,B; words: settings of all arms
function ab.run(job, o, asked, words)
  check(o)
  local arms, say = arms_of(asked, words), teller(o)
  local folder = temporary_folder()
  for i, arm in ipairs(arms) do arm.path, arm.rounds = ("%s/%d"):format(folder, i), {} end
  local how, err = core.sys.protect(function()
    warm_up(job, o, arms, words, say)
    measure(o, arms, say)
  end)
  for _, arm in ipairs(arms) do
    if arm.process then arm.process:kill() end
  end
  remove_folder(folder)
  if how == "error" then error(err, 0) end
  if how == "stopped" then core.sys.stop() end
  local found = result(job, o, arms)
  core.sys.out(o.json and core.json_encode(found, true) .. "\n" or table_of(found, stats.fewest(MISS / (#arms - 1))))
end

return ab
