-- trial.lua: one trial of a sweep: the command it is, the process that runs it, and what its files say when it has
-- ended.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json_file = require "json_file"
local metric = require "sweep.metric"
local shell = require "shell"

local trial = {}

local TAIL = 400 -- characters of an error that a result keeps
local CONTEXT = 20 -- indented lines that may follow the first one of an error

--- --key=value words of a trial: those of the whole sweep, its own, and what its rung adds.
function trial.words(plan, values, budget)
  local out = {}
  for _, word in ipairs(plan.args) do out[#out + 1] = word end
  for i, key in ipairs(plan.keys) do out[#out + 1] = ("--%s=%s"):format(key, values[i]) end
  if budget then out[#out + 1] = ("--%s=%s"):format(plan.budget, budget) end
  return out
end

--- The command that does the same run again.
function trial.command(plan, words)
  local text = shell.command{plan.program, plan.recipe, unpack(words)}
  return plan.threads ~= core.sys.threads() and ("CAPL_THREADS=%d %s"):format(plan.threads, text) or text
end

--- What Pool:start takes. resumed: the folder holds a checkpoint to resume from
function trial.job(plan, entry, folder, resumed)
  local recipe = plan.word or plan.recipe -- all trials run the same text
  local args = {recipe, resumed and "--resume=" .. folder or nil}
  for _, word in ipairs(trial.words(plan, entry.values, entry.budget)) do args[#args + 1] = word end
  return {
    args = args, resumed = resumed, folder = folder, log = folder .. ".log", entry = entry,
    env = {"CAPL_RUN_FOLDER=" .. folder, ("CAPL_THREADS=%d"):format(plan.threads), "CAPL_SWEEP=1", "NO_COLOR=1"},
  }
end

--- The last lines of what a trial printed, which say why it ended.
function trial.last_words(log)
  local text = (core.sys.read(log) or ""):gsub("%s+$", "")
  local lines = {}
  for line in text:gmatch("[^\n]+") do lines[#lines + 1] = line end
  local first = #lines
  -- context and hint are indented
  while first > 1 and #lines - first < CONTEXT and lines[first]:match("^%s") do first = first - 1 end
  local out = table.concat(lines, "\n", math.max(first, 1)):gsub("%s*\n%s*", "; ")
  return #out > TAIL and out:sub(1, TAIL) .. "…" or out
end

local signals = {[130] = "interrupted", [137] = "killed", [143] = "ended by SIGTERM", [124] = "out of its minutes"}

local function error_of(job, status, row)
  if status ~= 0 then
    local words = trial.last_words(job.log)
    return signals[status] and ("%s; %s"):format(signals[status], words) or words ~= "" and words
      or ("exit status %d"):format(status)
  end
  if not row then return "no evaluation has the metric" end
end

-- How a trial was computed, as "cpu, fp32, oneDNN …", and which val images judged it: only like is compared with like;
-- its parameters; and how many images it learned from.
local function conditions(folder)
  local facts = json_file.read(folder .. "/settings.json") or {}
  local machine, val = facts.machine or {}, facts.data and facts.data.val or {}
  local precision = facts.settings and facts.settings.precision and facts.settings.precision.value
  local parts = {machine.device, precision, machine.backend}
  if machine.device and not precision then parts = {machine.device, machine.backend} end
  local train = facts.data and facts.data.train or {}
  return machine.device and table.concat(parts, ", ") or nil, val.hash, facts.model and facts.model.parameters,
    train.count
end

-- The end of a metric's interval: val_chars_low beside val_chars; that of val_exact is val_low.
local function bound(row, metric_name, which)
  return row[metric_name .. "_" .. which] or (metric_name == "val_exact" and row["val_" .. which]) or nil
end

--- The line of results.jsonl for a trial that ended.
function trial.result(plan, job, status, seconds, peak)
  local row, point = metric.of_run(job.folder, plan.metric, plan.goal, plan.at == "last")
  local result, settings = json_file.read(job.folder .. "/result.json") or {}, {}
  local mode, val_hash, parameters, train_images = conditions(job.folder)
  for i, key in ipairs(plan.keys) do settings[key] = job.entry.values[i] end
  row, point, peak = row or {}, point or {}, math.max(peak, result.peak_memory_bytes or 0)
  local failed = error_of(job, status, row[plan.metric] and row)
  return {
    trial = job.entry.trial, rung = job.entry.rung, settings = settings, status = failed and "failed" or "done",
    error = failed, value = row[plan.metric], low = bound(row, plan.metric, "low"),
    high = bound(row, plan.metric, "high"), n = row.val_n, step = row.step, steps = result.steps or point.step,
    ended = result.ended, images = row.images, images_per_s = result.images_per_s or point.images_per_s,
    seconds = seconds, peak_memory_bytes = peak > 0 and peak or nil, parameters = parameters, mode = mode,
    val_hash = val_hash, train_images = train_images, folder = job.folder,
    command = trial.command(plan, trial.words(plan, job.entry.values, job.entry.budget)),
  }
end

return trial
