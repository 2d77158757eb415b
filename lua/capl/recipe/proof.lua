-- proof.lua: the runs of `capl test`, what they say of a claim together, and the record of that.
--
-- The record keeps apart what the recipe gives (metrics, steps: the same again with the same seed) and what the machine
-- does (seconds, images a second, the machine itself).
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local about = require "recipe.about"
local claim = require "recipe.claim"
local facts = require "run.facts"
local interval = require "meter.interval"
local json_file = require "json_file"
local manifest = require "recipe.manifest"
local tokens = require "recipe.tokens"
local trial = require "sweep.trial"

local proof = {FORMAT = 1}

local TICK = 0.02 -- seconds between polls of the run
local TAIL = 2000 -- bytes of what it printed that are looked at for its last line

-- ---- the machine ----

local function machine()
  local m = facts.machine()
  return {capl = core.version(), processor = m.processor, processors = m.processors, threads = m.threads,
    device = m.device, backend = m.backend, memory_bytes = core.sys.memory_total(), assume = m.assume}
end

--- "Intel Xeon, 2 processors, 25.3 GB, cpu, capl …"
function proof.machine_text()
  local m = machine()
  local parts = {m.processor or "an unknown processor",
    ("%d processor%s"):format(m.processors, m.processors == 1 and "" or "s")}
  if m.memory_bytes then parts[#parts + 1] = ("%.1f GB"):format(m.memory_bytes / 1e9) end
  parts[#parts + 1] = m.device
  parts[#parts + 1] = "capl " .. m.capl
  return table.concat(parts, ", ")
end

-- ---- the runs ----

-- The seeds to run with: {false} for a single run, whose seed is the recipe's own.
local function seeds_of(a, words, n)
  local said
  for _, word in ipairs(words) do said = word:match("^%-%-seed=(.*)$") or said end
  if n == 1 and not said then return {false} end
  local own, there = tokens.setting(a.list, "seed")
  if not there then
    core.fail(("--seeds=%d: %s has no setting seed, so all runs would be the same"):format(n, a.path),
      "seed = 42 in its capl.params", "value")
  end
  local first = tonumber(said or own or 42)
  if not first then core.fail(("--seed is a number, not '%s'"):format(tostring(said or own)), nil, "value") end
  local out = {}
  for i = 1, n do out[i] = first + i - 1 end
  return out
end

local function new_folder(base)
  local there, why = core.sys.mkdir("runs")
  if not there then core.fail(why, nil, "io") end
  local number, path = 1, base
  while true do
    local made, wrong = core.sys.mkdir_new(path)
    if made == nil then core.fail(wrong, nil, "io") end
    if made then return path end
    number, path = number + 1, ("%s-%d"):format(base, number + 1)
  end
end

-- Where the record goes; checked before the first run, not after hours.
local function record_path(a, given)
  local path = given or about.beside(a.path, about.stem(a.name) .. ".result.json")
  if core.sys.kind(path) == "folder" then
    core.fail(path .. ", where the record would be, is a folder", "--out=FILE names a file", "io")
  end
  local probe = path .. ".new"
  local done, why = core.sys.write(probe, "")
  if not done then core.fail("the record could not be saved: " .. why, "--out=FILE names another place", "io") end
  core.sys.remove(probe)
  return path
end

--- What is going to be run.
-- in   job: of the command; a: of about.read; words for the recipe; o: seeds, out
function proof.plan(job, a, words, o)
  local flags = job.trusted and {"--trust"} or job.allowed and {"--allow"} or {}
  local plan = {a = a, words = {}, flags = flags, seeds = seeds_of(a, words, o.seeds), path = record_path(a, o.out)}
  for _, word in ipairs(words) do
    if not word:match("^%-%-seed=") then plan.words[#plan.words + 1] = word end
  end
  plan.folder = new_folder("runs/test-" .. about.stem(a.name))
  return plan
end

-- The last whole line that a run has printed, for the bar; it is a stranger's, so nothing that a terminal could obey is
-- left.
local function last_line(log)
  local text = core.sys.read(log, TAIL) or ""
  return ((text:match("([^\n]+)\n[^\n]*$") or ""):gsub("%s+", " "):gsub("[^ -~]", "?"))
end

local function wait(process, log, title, shown)
  local next_look, live = 0, shown and core.sys.isatty(1)
  while true do
    local status = process:poll()
    if status then return status end
    if live and core.clock() >= next_look then
      core.sys.bar(("%s: %s"):format(title, last_line(log)):sub(1, core.sys.columns() - 1))
      next_look = core.clock() + 0.5
    end
    core.sys.sleep(TICK)
  end
end

-- Numbers that a run has written.
local function metrics_of(folder, result)
  local out = {}
  local last
  for _, row in ipairs(json_file.lines(core.sys.read(folder .. "/metrics.jsonl", 50000))) do
    if type(row.val_loss) == "number" then last = row.val_loss end
  end
  out.loss = last
  for key, value in pairs(type(result.final) == "table" and result.final or {}) do
    if type(value) == "number" then out[key] = value end
  end
  out.images_per_s, out.seconds = nil, nil -- of the machine
  out.steps = type(result.steps) == "number" and result.steps or nil
  return out
end

-- What the run itself has counted, without the time that somebody held it; else what passed here.
local function seconds_of(expected, passed)
  for _, v in ipairs(expected.verdicts) do
    if v.metric == "seconds" and type(v.measured) == "number" then return v.measured end
  end
  return passed
end

local function failed(plan, title, status, log)
  local why = status == 130 and "was interrupted" or status == 124 and "was out of its minutes"
    or ("ended with status %d"):format(status)
  core.fail(("%s %s:\n%s"):format(title, why, trial.last_words(log)), ("all that it printed is in %s"):format(log),
    "state")
end

--- One run.
-- seed   nil: as the recipe says
-- out    {seed, metrics, seconds, images_per_s, folder, settings, expected}
-- errs   state: it failed, or did not verify its claim
function proof.run(plan, seed, number, shown)
  local title = seed and ("seed %d"):format(seed) or "run"
  local folder = ("%s/%s"):format(plan.folder, seed and ("seed-%d"):format(seed) or tostring(number))
  local args = {}
  for _, list in ipairs{plan.flags, {plan.a.word}, plan.words} do
    for _, word in ipairs(list) do args[#args + 1] = word end
  end
  if seed then args[#args + 1] = ("--seed=%d"):format(seed) end
  local began, log = core.clock(), folder .. ".log"
  local process, why = core.sys.spawn{args = args, log = log,
    env = {"CAPL_RUN_FOLDER=" .. folder, "CAPL_TEST=1", "NO_COLOR=1"}}
  if not process then core.fail(why, nil, "io") end
  local status = wait(process, log, title, shown)
  local seconds = core.clock() - began
  if status ~= 0 then failed(plan, title, status, log) end
  local result = json_file.read(folder .. "/result.json") or {}
  local settings = json_file.read(folder .. "/settings.json") or {}
  local expected = type(result.expected) == "table" and result.expected or {}
  if expected.not_judged then
    core.fail("the claim is not about this run: it is " .. tostring(expected.not_judged), nil, "value")
  end
  if not expected.verdicts then
    core.fail(("%s: the run claimed nothing, so nothing is proved"):format(plan.a.path),
      "capl.expect{…} has to be called before its first step", "state")
  end
  local own = type(settings.settings) == "table" and type(settings.settings.seed) == "table"
    and settings.settings.seed.value
  seconds = seconds_of(expected, seconds)
  return {seed = seed or own or nil, metrics = metrics_of(folder, result), seconds = seconds, folder = folder,
    settings = settings, images_per_s = type(result.final) == "table" and result.final.images_per_s or nil,
    given = expected.given}
end

-- ---- together ----

local function mean(runs, key)
  local sum, n = 0, 0
  for _, run in ipairs(runs) do
    if run.metrics[key] then sum, n = sum + run.metrics[key], n + 1 end
  end
  return n == #runs and sum / n or nil
end

-- Samples of all runs counted together; other metrics as their mean, steps and seconds as the most.
local function pooled(runs)
  local out, right, n = {}, 0, 0
  local main = runs[1].metrics.exact and "exact" or "accuracy" -- which low and high belong to
  for key in pairs(runs[1].metrics) do out[key] = mean(runs, key) end
  for _, run in ipairs(runs) do
    local f = run.metrics
    out.steps = math.max(out.steps or 0, f.steps or 0)
    local counted = f[main] and f.n and (main == "exact" or f.low)
    if counted then right, n = right + math.floor(f[main] * f.n + 0.5), n + f.n end
  end
  out.low, out.high = nil, nil
  if n > 0 then
    out[main], out.low, out.high = interval.share(right, n)
    out.n = n
  end
  return out
end

-- The claim as the recipe has said it when it ran.
local function claim_of(runs)
  local given = claim.given_text(type(runs[1].given) == "table" and runs[1].given or {})
  for _, said in ipairs(type(runs[1].settings.expected) == "table" and runs[1].settings.expected or {}) do
    local c = claim.read(said)
    if claim.given_text(c.given) == given then return c, said end
  end
  core.fail("the run has not met its claim", nil, "state")
end

local function data_of(settings)
  local out = {}
  for role, d in pairs(type(settings.data) == "table" and settings.data or {}) do
    if type(d) == "table" then out[role] = {count = d.count, generator = d.generator} end
  end
  return next(out) and out or nil
end

local function slowest(runs)
  local most = 0
  for _, run in ipairs(runs) do most = math.max(most, run.seconds) end
  return most
end

--- What the runs say of the claim; docs/sharing.md states the format.
function proof.record(a, plan, runs)
  local c, said = claim_of(runs)
  local all = pooled(runs)
  local judged = claim.verify(c, all, slowest(runs))
  local out = {
    format = proof.FORMAT, held = judged.met, recipe = {file = a.name, bytes = a.bytes, sha256 = a.sha256},
    claim = said, claim_text = claim.text(c), settings = plan.words[1] and plan.words or nil,
    result = {metrics = all, runs = {}, lines = {}, data = data_of(runs[1].settings)},
    machine = machine(),
  }
  local ran_on = type(runs[1].settings.machine) == "table" and runs[1].settings.machine or {}
  out.machine.device, out.machine.backend = ran_on.device or out.machine.device, ran_on.backend or out.machine.backend
  out.machine.lines, out.machine.runs, out.machine.tested = {}, {}, core.sys.date()
  for i, v in ipairs(judged.verdicts) do
    local place = v.metric == "seconds" and out.machine or out.result
    table.insert(place.lines, judged.lines[i])
  end
  if #out.machine.lines == 0 then out.machine.lines = nil end
  for i, run in ipairs(runs) do
    run.metrics.seed = run.seed
    out.result.runs[i] = run.metrics
    out.machine.runs[i] = {seed = run.seed, seconds = run.seconds, images_per_s = run.images_per_s}
  end
  return out
end

--- Writes the record, and into the manifest of the recipe when there is one of this text. -> its path
function proof.save(a, plan, record)
  local done, why = core.sys.write(plan.path, core.json_encode(record, true) .. "\n")
  if not done then core.fail(why, nil, "io") end
  local path = manifest.path_of(a)
  if core.sys.kind(path) ~= "file" then return plan.path end
  local m = manifest.read(path)
  if m.recipe.sha256 ~= a.sha256 then
    return ("%s; not in %s, which is of another text of the recipe"):format(plan.path, path)
  end
  m.result = record
  manifest.write(path, m)
  return ("%s, and in %s"):format(plan.path, path)
end

return proof
