-- monitor.lua: `capl monitor [RUN]`: what GPUs and processors do now, second by second, and how a run, or all of runs/,
-- are going.
--
-- It looks from outside: at the driver, at /proc and at the files of the run, and costs the run nothing.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local facts = require "report.facts"
local folder = require "report.folder"
local json_file = require "json_file"
local lines = require "cli.monitor_lines"
local options = require "cli.options"
local process = require "run.process"
local output = require "output"
local screen = require "report.screen"
local value = require "report.value"

local spec = {
  {name = "every", type = "number", default = 1, doc = "seconds between samples"},
  {name = "count", type = "number", from = 1, doc = "number of samples; default: until Ctrl-C or the end of the run"},
  {name = "json", type = "flag", default = false, doc = "prints one JSON object per sample"},
}

local TAIL = 65536 -- bytes at the end of metrics.jsonl that are looked at
local RESCAN = 5 -- seconds between samples for runs that have begun
local MOST_RUNS = 8 -- that are shown

-- ---- the machine ----

local function open(...)
  local monitor, why = core.monitor.open(0, ...)
  if not monitor then core.error{code = "state", message = why} end
  return monitor
end

-- All GPUs that the driver knows, and why there is none.
local function open_gpus()
  local count, why = core.monitor.gpus()
  local list = {}
  for i = 1, count do list[i] = open(i - 1, false) end
  return list, why
end

local function look_at_gpus(gpus)
  local out = {}
  for i, monitor in ipairs(gpus) do
    out[i] = monitor:sample()
    out[i].index, out[i].name = i - 1, monitor:gpu()
  end
  return out
end

-- ---- the run ----

-- The last objects of metrics.jsonl, newest first; a line that is being written is no object yet.
local function last_rows(path)
  local text = core.sys.kind(path) == "file" and core.sys.read(path, TAIL) or ""
  local rows = {}
  for _, row in ipairs(json_file.lines(text)) do table.insert(rows, 1, row) end
  return rows
end

local function newest(rows, key)
  for _, row in ipairs(rows) do
    if value.number(row, key) then return row[key], row end
  end
end

-- Seconds until the end, as the share of the run that is over lets expect.
local function left(row)
  local seconds, position = value.number(row, "seconds"), value.number(row, "position")
  return seconds and position and position > 0 and math.max(0, seconds * (1 - position) / position) or nil
end

-- Images per second between the last two points, so that a slow start and evaluations are forgotten.
local function recent_rate(rows)
  local points = {}
  for _, row in ipairs(rows) do
    if value.number(row, "images") and value.number(row, "loss") then points[#points + 1] = row end
  end
  local a, b = points[2], points[1]
  local seconds = a and value.number(b, "seconds") and value.number(a, "seconds") and b.seconds - a.seconds
  if seconds and seconds > 0 and b.images > a.images then return (b.images - a.images) / seconds end
  return b and value.number(b, "images_per_s")
end

-- The rank that the others wait for, and the share of their time that they do; nil where they hardly do.
local function newest_of_ranks(rows)
  for _, row in ipairs(rows) do
    local slowest, most = value.number(row, "ranks", "slowest"), value.number(row, "ranks", "waited_most")
    if slowest and most then
      local least = value.number(row, "ranks", "waited_least") or 0
      return most - least > 0.05 and slowest or nil
    end
  end
end

-- What the newest evaluation says of the metric that people ask for first -> {name, value}; nil: there was none yet.
-- main: the one that the recipe chooses by, if it says so
local function newest_val(rows, main)
  for _, row in ipairs(rows) do
    local metrics = {main = main}
    for key, found in pairs(row) do metrics[tostring(key):match("^val_(.+)$") or ""] = found end
    metrics[""] = nil
    local name = facts.metric_keys(metrics)[1]
    if name then return {name = name, value = metrics[name]} end
  end
end

-- A run by its folder, or by its name in runs/.
local function find_run(word)
  local path = core.sys.kind(word) == "folder" and word or "runs/" .. word
  if core.sys.kind(path) ~= "folder" then path = word end -- named in the message as it was given
  return folder.read(path)
end

local Run = {}
Run.__index = Run

local function open_run(word)
  local r = find_run(word)
  local self = setmetatable({path = r.path, name = r.path, state = r.state, id = r.settings.process,
    main = value.text(r.settings, "loop", "metric", "value"),
    ranks = value.number(r.settings, "machine", "ranks")}, Run)
  if r.state == "running" then self.monitor = core.monitor.open(0, false, self.id.pid) end
  return self
end

function Run:look()
  if self.state == "running" and not process.alive(self.id) then self.state = folder.read(self.path).state end
  local rows = last_rows(self.path .. "/metrics.jsonl")
  local loss, point = newest(rows, "loss")
  local out = {name = self.name, state = self.state, loss = loss, step = newest(rows, "step"),
    val_exact = newest(rows, "val_exact"), val = newest_val(rows, self.main),
    images_per_s = recent_rate(rows), ranks = self.ranks, slowest_rank = newest_of_ranks(rows)}
  if self.state ~= "running" then return out end
  out.left_seconds = left(point)
  local now = self.monitor and self.monitor:sample() or {}
  out.pid, out.cpu, out.rss = self.id.pid, now.cpu, now.rss
  return out
end

-- ---- all running runs in runs/ ----

local function is_running(path)
  local settings = core.sys.kind(path .. "/settings.json") == "file" and json_file.read(path .. "/settings.json")
  return settings and process.alive(value.at(settings, "process"))
end

-- Adds those that have begun since the last time.
local function find_running(runs)
  for _, name in ipairs(core.sys.kind("runs") == "folder" and core.sys.list("runs") or {}) do
    local path = "runs/" .. name
    if not runs[path] and #runs < MOST_RUNS and is_running(path) then
      runs[path] = open_run(path)
      runs[#runs + 1] = runs[path]
    end
  end
end

-- Those that have ended were shown once more as such.
local function drop_ended(runs)
  for i = #runs, 1, -1 do
    if runs[i].state ~= "running" then runs[table.remove(runs, i).path] = nil end
  end
end

local function look_at_runs(runs)
  local out = {}
  for i, r in ipairs(runs) do out[i] = r:look() end
  return out
end

-- ---- showing ----

local function text_of(seen)
  local out = {}
  for i, g in ipairs(seen.gpus or {}) do out[i] = lines.gpu(g) end
  out[#out + 1] = lines.machine(seen.machine)
  for _, r in ipairs(seen.runs or {seen.run}) do out[#out + 1] = lines.run(r) end
  return out
end

-- The lines in the place of those shown before, of which there may have been more; the cursor stays below them.
local function redraw(list, former)
  local wide = core.sys.columns() - 1
  local out = {former > 0 and ("\27[%dA"):format(former) or ""}
  for _, line in ipairs(list) do out[#out + 1] = "\r" .. screen.clean(line:sub(1, wide)) .. "\27[K\n" end
  out[#out + 1] = "\27[J"
  core.sys.draw(table.concat(out))
end

local function show(o, seen, former)
  if o.json then core.sys.out(core.json_encode(seen) .. "\n") return 0 end
  local list = text_of(seen)
  if o.live then
    redraw(list, former)
  else
    for _, line in ipairs(list) do core.sys.out(("%s  %s\n"):format(seen.time, line)) end
  end
  return #list
end

-- What there is to see now: of one run, or of all that are running.
local function look(gpus, machine, run, runs)
  local seen = {time = core.sys.date(), machine = machine:sample(), run = run and run:look()}
  seen.machine.cpu, seen.machine.rss = nil, nil -- of capl monitor itself
  if #gpus > 0 then seen.gpus = look_at_gpus(gpus) end
  if #runs > 0 then seen.runs = look_at_runs(runs) end
  drop_ended(runs)
  return seen
end

local function watch(o, run)
  local gpus, why = open_gpus()
  if #gpus == 0 and not o.json then core.sys.out("no GPU: " .. why .. "\n") end
  local machine, runs, scanned, shown = open(false), {}, -math.huge, 0
  machine:sample() -- shares of processors are those since this moment
  if run and run.monitor then run.monitor:sample() end
  for nth = 1, o.count or math.huge do
    if not run and core.clock() - scanned >= RESCAN then
      find_running(runs)
      scanned = core.clock()
    end
    if not run or run.state == "running" then core.sys.sleep(nth == 1 and math.min(o.every, 0.2) or o.every) end
    shown = show(o, look(gpus, machine, run, runs), shown)
    if run and run.state ~= "running" then return end
  end
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "monitor"})
  if words[2] then core.error{code = "value", message = "capl monitor shows one run; usage: " .. job.usage} end
  if not (o.every >= 0.05 and o.every <= 3600) then
    core.error{code = "value", message = ("--every is a number of seconds from 0.05 to 3600, not %g"):format(o.every)}
  end
  o.live = not o.json and output.is_live()
  local run = words[1] and open_run(words[1])
  local how, err = core.sys.protect(function() watch(o, run) end)
  if how == "error" then error(err, 0) end
  return 0 -- Ctrl-C is how one ends it
end

return {main = main, options = spec, examples = {
  {"capl monitor runs/mine --every=5", "shows one run and the machine every five seconds"},
}}
