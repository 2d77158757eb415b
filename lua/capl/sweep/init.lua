-- sweep: many runs of one recipe with other settings, side by side, and which of them is best on the val images.
--
-- A plan (what is tried, chosen by what, run how) makes rungs of entries; each entry is one trial, a run like any
-- other. Successive halving has several rungs: all begin with a small budget, the best continue with more of it.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local output = require "output"
local metric = require "sweep.metric"
local page = require "sweep.page"
local pool = require "sweep.pool"
local shell = require "shell"
local show = require "sweep.show"
local trial = require "sweep.trial"

local Sweep = {}
Sweep.__index = Sweep

local LOOK = 1 -- seconds between polls of the metrics of the first trial

local function key_of(entry) return ("%d/%d"):format(entry.trial, entry.rung) end

--- plan: see cli/sweep.lua; folder: of sweep/folder.lua, with results of an earlier part
local function new(plan, folder)
  local self = setmetatable({plan = plan, folder = folder, done = {}, again = {}, looked = 0, started = core.clock()},
    Sweep)
  for _, result in ipairs(folder.results) do self.done[key_of(result)] = result end
  self.pool = pool.new{
    jobs = plan.jobs, threads = plan.threads, memory = core.sys.memory_available, limit = plan.memory,
    card = plan.device:match("^cuda") and function() return core.memory(plan.device).card_free end or nil,
    settled = function(job) return metric.names(job.folder) ~= nil
    or core.sys.kind(job.folder .. "/metrics.jsonl") == "file" end,
  }
  return self
end

local function say(text) core.sys.out(text .. "\n") end

-- ---- one rung ----

-- Metrics of the runs are known from the first evaluation on; a metric that is none of them ends the sweep there.
function Sweep:check_metric(folder)
  if self.metric_known then return end
  local names = metric.names(folder)
  if not names then return end
  metric.check_names(self.plan.metric, names)
  self.metric_known = true
end

function Sweep:look()
  if self.metric_known or core.clock() - self.looked < LOOK then return end
  self.looked = core.clock()
  for _, child in pairs(self.pool.running) do self:check_metric(child.job.folder) end
end

-- A stopped trial resumes from its last checkpoint, and so does one of the next rung with --carry.
function Sweep:start(slot, entry)
  local name = ("trial-%03d"):format(entry.trial)
  if #self.plan.rungs > 1 and not self.plan.carry then name = ("%s-rung-%d"):format(name, entry.rung) end
  local path = not entry.anew and self.folder:checkpointed(name)
  self.pool:start(slot, trial.job(self.plan, entry, path or self.folder:trial_folder(name), path and true or nil))
end

local function bar(self, total)
  if not output.is_live() then return end
  local ended, best = #self.folder.results, self:ranked()[1]
  local left = ended > 0 and (core.clock() - self.started) / math.max(1, ended - self.before) * (total - ended) or nil
  core.sys.bar(("%d of %d trials  %d running%s%s"):format(ended, total, self.pool.count,
    best and ("  best %s (trial %d)"):format(show.value(self.plan.metric, best.value), best.trial) or "",
    left and ("  left about %s"):format(require("run.progress").duration(left)) or ""):sub(1, core.sys.columns() - 1))
end

-- A trial that cannot resume (its recipe saves no state, a file is damaged) restarts, once.
function Sweep:begins_anew(job, status)
  if not job.resumed or status == 0 then return false end
  say(("trial %3d  was not resumed from its checkpoint and starts again: %s"):format(job.entry.trial,
    trial.last_words(job.log)))
  job.entry.anew = true
  table.insert(self.again, job.entry)
  return true
end

function Sweep:ended(job, status, seconds, peak)
  self:check_metric(job.folder)
  if self:begins_anew(job, status) then return end
  local result = trial.result(self.plan, job, status, seconds, peak)
  self.done[key_of(result)] = result
  self.pool:learn(result.peak_memory_bytes)
  self.folder:add(result)
  say(show.line(self.plan, result))
  self:save()
end

-- Runs those of the entries that have no result yet.
function Sweep:run_entries(entries, total)
  local nth = 1
  while nth <= #entries or #self.again > 0 or self.pool.count > 0 do
    while nth <= #entries and self.done[key_of(entries[nth])] do nth = nth + 1 end
    local slot = (nth <= #entries or #self.again > 0) and self.pool:slot()
    if slot and #self.again > 0 then
      self:start(slot, table.remove(self.again))
    elseif slot then
      self:start(slot, entries[nth])
      nth = nth + 1
    elseif self.pool.count > 0 then
      local job, status, seconds, peak = self.pool:wait(0.25)
      if job then self:ended(job, status, seconds, peak) end
      self:look()
      bar(self, total)
    end
  end
end

-- ---- rungs ----

--- Results, best first: those of a later rung before those of an earlier one, failed ones last.
function Sweep:ranked(rung)
  local out = {}
  for _, result in pairs(self.done) do
    if not rung or result.rung == rung then out[#out + 1] = result end
  end
  table.sort(out, function(a, b)
    if (a.status == "done") ~= (b.status == "done") then return a.status == "done" end
    if a.rung ~= b.rung then return a.rung > b.rung end
    if a.value ~= b.value and a.value and b.value then return metric.better(self.plan.goal, a.value, b.value) end
    return a.trial < b.trial
  end)
  return out
end

-- Entries of a rung: of the first one all trials, of a later one the best of that before it.
function Sweep:entries(rung)
  local plan, out = self.plan, {}
  local budget = plan.rungs[rung].budget
  local function add(number)
    out[#out + 1] = {trial = number, rung = rung, values = plan.trials[number], budget = budget}
  end
  if rung == 1 then
    for number = 1, #plan.trials do add(number) end
    return out
  end
  for i, result in ipairs(self:ranked(rung - 1)) do
    if i <= plan.rungs[rung].trials and result.status == "done" then add(result.trial) end
  end
  table.sort(out, function(a, b) return a.trial < b.trial end)
  return out
end

local function total_of(plan)
  local n = 0
  for _, rung in ipairs(plan.rungs) do n = n + rung.trials end
  return n
end

function Sweep:rungs()
  self.before = #self.folder.results
  for rung, about in ipairs(self.plan.rungs) do
    if #self.plan.rungs > 1 then
      say(("rung %d of %d: %d trial%s with %s=%s"):format(rung, #self.plan.rungs, about.trials, about.trials == 1 and ""
        or "s", self.plan.budget, about.budget))
    end
    self:run_entries(self:entries(rung), total_of(self.plan))
  end
end

-- ---- the end ----

function Sweep:save() self.folder:save_csv(self.plan.keys, self.plan.metric, self:ranked()) end

function Sweep:draw()
  local ranked = self:ranked()
  self.folder.total = total_of(self.plan)
  self.folder:write("report.html", page.html(self.plan, self.folder, ranked))
end

-- Where no trial is the best one. -> exit status
function Sweep:report_none(sentence)
  say(sentence)
  say(("next: longer trials, another --metric such as val_loss, or %s"):format(
    shell.command{self.plan.program, "doctor", self.plan.recipe}))
  return 0
end

--- The table, the best trial and what to do with it. -> exit status
function Sweep:report()
  local ranked = self:ranked()
  self:draw()
  say("")
  say(show.table(self.plan, ranked))
  local means = show.means(self.plan, ranked)
  if means then say("over the seeds:\n" .. means) end
  local best, failed = ranked[1], 0
  for _, result in ipairs(ranked) do failed = failed + (result.status == "failed" and 1 or 0) end
  if not best or best.status == "failed" then
    core.error{code = "state", message = ("all %d trials failed: %s"):format(#ranked, best and best.error
      or "none ran"), hint = "what they printed is in " .. self.folder.path .. "/trial-*.log"}
  end
  if failed > 0 then
    say(("%d of %d trials failed; what they printed is in %s/trial-*.log"):format(failed, #ranked, self.folder.path))
  end
  for _, line in ipairs(show.unlike(self.plan, ranked)) do say(line) end
  if self.pool.waits > 0 then say(("note: trials waited for memory; one takes up to %.0f MB"):format(self.pool.peak
    / 1e6)) end
  local doubt = not show.none_better(self.plan, ranked) and show.doubt(self.plan, ranked)
  if doubt then say(doubt) end
  say(("results: %s/report.html, results.csv"):format(self.folder.path))
  local none = show.none_better(self.plan, ranked)
  if none then return self:report_none(none) end
  say(("best: trial %d, %s %s, in %s"):format(best.trial, self.plan.metric, show.value(self.plan.metric, best.value),
    best.folder))
  if self.plan.carry then
    say("note: trials were resumed at each rung; trained in one run, as below, the best one gives other metrics")
  end
  say(("next: %s"):format(best.command))
  return 0
end

--- Runs what has not run yet. Ctrl-C and SIGTERM stop the running trials, which run again with --resume.
function Sweep:run()
  self.folder:take()
  local how, err = core.sys.protect(function() self:rungs() end)
  local running = self.pool.count
  if how ~= "done" then self.pool:stop() end
  self.folder:let_go()
  if how == "done" then return self:report() end
  if how == "error" then error(err, 0) end
  self:draw()
  say(("stopped with %d of %d trials done%s; continue with: %s"):format(#self.folder.results, total_of(self.plan),
    running > 0 and (", %d were running"):format(running) or "",
    shell.command{self.plan.program, "sweep", "--resume", self.folder.path}))
  core.sys.stop()
end

return {new = new}
