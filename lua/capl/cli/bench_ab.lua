-- bench_ab.lua: `capl bench RECIPE --ab KEY=A,B`: the recipe with other settings, measured turn by turn: A, B, A, B …
--
-- Each variant is a process that stays warmed up for the whole comparison; one of them works at a time. What
-- changes slowly on a machine (heat, clocks, other users) then changes all variants alike. The ratio of a variant to
-- the first is taken round by round, and the result is the median of these ratios with an interval that assumes nothing
-- about how times are distributed (bench_stats.lua).
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local variants_of = require "cli.bench_variants"
local output = require "output"
local scratch = require "cli.scratch"
local stats = require "cli.bench_stats"
local table_of = require "cli.bench_table"

local ab = {}

local MISS = 0.05 -- chance that any of the printed intervals does not hold its ratio
local TICK = 0.002 -- seconds between samples for an answer

-- ---- the children ----

-- What a variant said before it ended; errors of recipes keep their line and their hint.
local function ended(variant, status)
  local words = (core.sys.read(variant.path .. ".log") or ""):gsub("%s+$", "")
  if words == "" then words = ("it ended with status %d and no message"):format(status) end
  core.fail(("variant %s: %s"):format(variant.name, words))
end

-- Waits for NAME.what of a variant -> its values.
local function answer(variant, what)
  local path = variant.path .. "." .. what
  while core.sys.kind(path) ~= "file" do
    local status = variant.process:poll()
    if status and core.sys.kind(path) ~= "file" then ended(variant, status) end
    core.sys.sleep(TICK)
  end
  local values = core.json_decode(core.sys.read(path))
  core.sys.remove(path)
  return values
end

local function order(variant, what)
  local done, why = core.sys.write(variant.path .. ".go", what .. "\n")
  if not done then core.error{code = "io", message = why} end
end

local function start(job, o, variant, words)
  local args = {"bench", job.word, ("--steps=%d"):format(o.steps), ("--warmup=%d"):format(o.warmup)}
  if o.fixed then args[#args + 1] = "--fixed" end
  args[#args + 1] = "--"
  for _, list in ipairs{words, variant.words} do
    for _, word in ipairs(list) do args[#args + 1] = word end
  end
  local why
  variant.process, why = core.sys.spawn{args = args, log = variant.path .. ".log",
    env = {"CAPL_BENCH_VARIANT=" .. variant.path}}
  if not variant.process then core.error{code = "io", message = why} end
end

-- ---- before the first round ----

-- A key that decides nothing would make a comparison of equals look like a result.
local function check_read(job, variant)
  for _, key in ipairs(variant.ready.unread) do
    for _, own in ipairs(variant.keys) do
      if own == key then
        core.fail(("%s does not read its setting %s in its first steps, so all variants would be the same"):format(job.recipe, key))
      end
    end
  end
end

-- All variants are in memory at the same time.
local function check_memory(variant, more)
  local r = variant.ready
  local free, each, where = core.sys.memory_available(), r.rss, "memory"
  if r.card_free then free, each, where = r.card_free, r.card_held, "memory of the GPU" end
  if not free or each * more <= free then return end
  core.fail(("%d more variants as large as %s do not fit into the %s: each takes about %.1f GB, %.1f GB are free"):format(
    more, variant.name, where, each / 1e9, free / 1e9), "compare fewer at a time")
end

local function warm_up(job, o, variants, words, say)
  for i, variant in ipairs(variants) do
    say(("%s: warming up (%d of %d)"):format(variant.name, i, #variants))
    start(job, o, variant, words)
    variant.ready = answer(variant, "ready")
    check_read(job, variant)
    check_memory(variant, #variants - i)
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

-- How a variant's metric compares with the first variant's, round by round. miss: of this one interval
local function compare(metric, variant, first, miss)
  local ratios = {}
  for i, r in ipairs(variant.rounds) do ratios[i] = metric(r) / metric(first.rounds[i]) end
  local low, high = stats.interval(ratios, miss)
  return {median = stats.median(ratios), low = low, high = high, verdict = verdict(low, high)}
end

local function metrics(variant, first, miss)
  local rounds, rates = variant.rounds, {}
  for i, r in ipairs(rounds) do rates[i] = rate(r) end
  local energy, other = sum(rounds, "energy_wh"), variant ~= first
  local out = {
    name = variant.name, settings = variant.settings, images_per_s = stats.spread(rates), step_ms = step_times(rounds),
    rounds = rates,
    ratio = other and compare(rate, variant, first, miss) or nil, -- of images per second
    step_ratio = other and compare(pace, variant, first, miss) or nil, -- of the median step's
    precision_counts = rounds[#rounds].precision_counts, captured = rounds[#rounds].captured,
    wh_per_1000_images = energy and 1000 * energy / sum(rounds, "images") or nil,
    estimated = energy and {"wh_per_1000_images"} or nil, -- all other metrics are measured
  }
  for _, key in ipairs{"wait", "cpu", "cpu_power_w", "power_w", "utilization", "throttled"} do
    out[key] = mean(rounds, key)
  end
  for _, key in ipairs{"temperature_c", "memory_used", "tensor_bytes", "rss"} do out[key] = most(rounds, key) end
  return out
end

-- Variants that end up with the same settings, whatever they were asked for.
local function notes(variants)
  local out = {}
  for i, a in ipairs(variants) do
    for k = i + 1, #variants do
      local same = true
      for key, value in pairs(a.ready.values) do same = same and variants[k].ready.values[key] == value end
      if same then out[#out + 1] = ("%s and %s run with the same settings"):format(a.name, variants[k].name) end
    end
  end
  return out
end

local function result(job, o, variants)
  local first, list = variants[1], {}
  for i, variant in ipairs(variants) do list[i] = metrics(variant, first, MISS / (#variants - 1)) end
  return {
    recipe = job.recipe, version = core.version(), device = first.ready.device, backend = first.ready.description,
    gpu = first.ready.gpu, threads = first.ready.threads, rounds = o.rounds, steps = o.steps, warmup = o.warmup,
    fixed = o.fixed, variants = list, confidence = 1 - MISS, notes = notes(variants),
  }
end

-- ---- the whole ----

local function measure(o, variants, say)
  for round = 1, o.rounds do
    for _, variant in ipairs(variants) do
      say(("round %d of %d: %s"):format(round, o.rounds, variant.name))
      order(variant, "round")
      variant.rounds[round] = answer(variant, "round")
    end
  end
end

-- A line at the bottom of a terminal; nothing elsewhere.
local function live_line(o)
  if o.json or not output.is_live() then return function() end end
  return function(text) core.sys.bar(text:sub(1, core.sys.columns() - 1)) end
end

local function check(o)
  if o.ops or o.augment or o.logging then
    core.fail("--ab compares whole steps: leave --ops, --augment and --logging out")
  end
end

--- Compares.
-- in   asked: texts KEY=A,B; words: settings of all variants
function ab.run(job, o, asked, words)
  check(o)
  local variants, say = variants_of(asked, words), live_line(o)
  local folder = scratch.new("bench")
  for i, variant in ipairs(variants) do variant.path, variant.rounds = ("%s/%d"):format(folder, i), {} end
  local how, err = core.sys.protect(function()
    warm_up(job, o, variants, words, say)
    measure(o, variants, say)
  end)
  for _, variant in ipairs(variants) do
    if variant.process then variant.process:kill() end
  end
  scratch.remove(folder)
  if how == "error" then error(err, 0) end
  if how == "stopped" then core.sys.stop() end
  local found = result(job, o, variants)
  if o.json then return core.sys.out(core.json_encode(found, true) .. "\n") end
  core.sys.out(table_of(found, stats.fewest(MISS / (#variants - 1))))
end

return ab
