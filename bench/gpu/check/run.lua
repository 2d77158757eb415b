-- run.lua: programs of a call: their logs, the time that is left, what their failure makes of a row.
-- SPDX-License-Identifier: Apache-2.0
local child = require "child"
local read_json = require "read_json"
local record = require "record"

local run = {NO_GPU = {}, root = os.getenv("CAPL_CHECK_ROOT"), capl = os.getenv("CAPL_CHECK_CAPL"),
  luajit = os.getenv("CAPL_CHECK_LUAJIT"), python = os.getenv("PYTHON") or "python3"}

local function sh(words)
  return child.run(words, {out = "/dev/null", seconds = 30}).status == 0
end

--- Begins a call: the folder, its scratch, the first line.
function run.open(o)
  run.o = o
  if not sh{"mkdir", "-p", o.out .. "/logs", o.out .. "/scratch"} then error(o.out .. " cannot be written", 0) end
  child.run({"realpath", o.out}, {out = o.out .. "/scratch/path", seconds = 10})
  run.out = record.text(o.out .. "/scratch/path"):match("[^\n]+")
  run.work = run.out .. "/scratch" -- runs/ stay out of the tree
  local commit = os.getenv("CAPL_CHECK_COMMIT")
  record.open(run.out, {commit = commit, date = os.date("!%Y-%m-%dT%H:%M:%SZ"), sections = o.sections,
    seconds = o.seconds, quick = o.quick, steps = o.steps, rounds = o.rounds, card = run.card()})
  print(("capl at commit %s; results go to %s"):format(commit, run.out))
end

--- Name, driver and clocks of the first GPU, as nvidia-smi says.
function run.card()
  local path = run.work .. "/card"
  local done = child.run({"nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw",
    "--format=csv,noheader"}, {out = path, seconds = 20})
  return done.status == 0 and record.text(path):match("[^\n]+") or nil
end

function run.left() return run.o.seconds - (child.clock() - record.start) end

--- The end of a call.
function run.close()
  sh{"rm", "-rf", run.work}
  local status = record.close(run.stopped or "done")
  sh{"tar", "-C", run.out:match("^(.*)/"), "-czf", run.out .. ".tar.gz", run.out:match("[^/]+$")}
  return status
end

--- Whether there are that many seconds; else the row is "not run".
function run.fits(section, what, seconds)
  if run.stopped then return false end
  if run.left() >= seconds then return true end
  record.row(section, what, "not run", ("needs about %.0f s, %.0f s are left"):format(seconds, math.max(0, run.left())))
  return false
end

--- The last line of a text with something in it.
function run.last(text)
  local out = ""
  for line in (text or ""):gmatch("[^\n]+") do
    if line:find("%S") then out = line end
  end
  return out:sub(1, 300)
end

local function log_name(section, what)
  return ("%s/logs/%s-%s"):format(run.out, section, (what:gsub("[^%w._-]+", "_")))
end

--- Runs a program for a row. o: env, seconds (estimate; nothing is run without them), json: its output is JSON
-- -> its output, or nil after a row that says why there is none; and {status, seconds}, path of the log
function run.program(section, what, words, o)
  if not run.fits(section, what, o.needs or 5) then return nil end
  local log = log_name(section, what)
  local done = child.run(words,
    {out = log .. ".out", err = log .. ".log", env = o.env, folder = run.work, seconds = run.left()})
  local out = record.text(log .. ".out") or ""
  if done.status == 0 then return out, done, log end
  if done.why == "signal" then
    run.stopped = "ended by a signal"
    record.row(section, what, "not run", run.stopped)
  elseif done.why == "time" then record.row(section, what, "not run", "cut off: the time was up")
  else
    local err = run.last(record.text(log .. ".log"))
    record.row(section, what, "failed", err ~= "" and err or run.last(out), {log = log .. ".log", status = nil})
  end
  return nil, done, log
end

--- As run.program, of capl; words may begin with --trust.
function run.capl_program(section, what, words, o)
  return run.program(section, what, {run.capl, unpack(words)}, o or {})
end

--- PyTorch, with its own libraries: those of capl's bundle are not in its way.
function run.torch(section, what, words, o)
  local path = os.getenv("CAPL_CHECK_LIBRARY_PATH")
  o.env = {LD_LIBRARY_PATH = path ~= "" and path or false}
  return run.program(section, what, {run.python, unpack(words)}, o)
end

--- Whether PyTorch sees a GPU here; asked once.
function run.has_torch()
  if run.torch_there == nil then
    local path = os.getenv("CAPL_CHECK_LIBRARY_PATH")
    run.torch_there = child.run({run.python, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())"},
      {out = "/dev/null", env = {LD_LIBRARY_PATH = path ~= "" and path or false}, seconds = 120}).status == 0
  end
  return run.torch_there
end

--- The objects of a text that has one in each line, or one over many lines.
function run.objects(text)
  local fine, whole = pcall(read_json, text)
  if fine and type(whole) == "table" then return {whole} end
  local out = {}
  for line in text:gmatch("[^\n]+") do
    local good, value = pcall(read_json, line)
    if good and type(value) == "table" then out[#out + 1] = value end
  end
  return out
end

--- Whether a program is on the PATH.
function run.has(program) return sh{"sh", "-c", "command -v " .. program} end

--- The middle of a list, its least and its greatest.
function run.median(list)
  local s = {unpack(list)}
  table.sort(s)
  return s[math.ceil(#s / 2)], s[1], s[#s]
end

return run
