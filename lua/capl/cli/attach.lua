-- attach.lua: `capl attach [RUN]`: a prompt inside a run that trains, on this machine and of this user.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json_file = require "json_file"
local options = require "cli.options"
local process = require "run.process"
local remote = require "repl.remote"
local screen = require "report.screen"

local sys = core.sys

local LIST = "capl attach lists the runs to attach to"
local KEYS = "lr(x) sets the learning rate, step(n) trains, save() saves, go() or Ctrl-D continues the run, stop() " ..
  "ends it"

-- ---- which run ----

local function all()
  local out = {}
  for _, entry in ipairs(sys.client_runs()) do
    local info = json_file.decode(entry.text) or {}
    info.pid, info.silent = entry.pid, entry.text == nil
    out[#out + 1] = info
  end
  table.sort(out, function(a, b) return a.pid < b.pid end)
  return out
end

local function text_of(value) return type(value) == "string" and screen.clean(value) or "–" end

-- The folder of a run, from where this is called if it lies below that, so that it can be typed.
local function place_of(info)
  local here = sys.getenv("PWD")
  local folder = text_of(info.folder)
  if type(info.here) ~= "string" or folder:sub(1, 1) == "/" or info.here == here then return folder end
  return info.here .. "/" .. folder
end

local function list()
  local runs = all()
  if #runs == 0 then
    sys.out("no run of yours trains on this machine\n")
    return 0
  end
  local rows = {{"process", "run", "recipe", "started"}}
  for i, info in ipairs(runs) do
    local started = type(info.started) == "string" and info.started:gsub("T", " "):gsub("Z$", "") or nil
    local place = info.folder and place_of(info) or "before its first step"
    if info.silent then place = "does not answer: kill -CONT, if it is stopped" end
    rows[i + 1] = {("%d"):format(info.pid), place, text_of(info.recipe), text_of(started)}
  end
  for _, line in ipairs(screen.lines(rows, 4, {[1] = true})) do sys.out(line .. "\n") end
  sys.out("capl attach RUN, or the number of the process, gives a prompt inside one\n")
  return 0
end

local function settings_of(folder)
  local text = sys.read(folder .. "/settings.json")
  if not text then return nil end
  return json_file.decode(text) or {}
end

-- How a run that is not alive has ended.
local function ended(folder)
  local how = (json_file.read(folder .. "/result.json") or {}).ended
  if sys.kind(folder .. "/error.json") == "file" then return "an error has ended it" end
  return how and how ~= "interrupted" and "it is finished" or how and "it was stopped"
    or "it was killed, or its machine went down"
end

local function process_of(folder)
  local settings = settings_of(folder)
  if not settings then
    core.fail(("%s is no run's folder, or the run has not made its first step"):format(folder), LIST)
  end
  local p = settings.process
  if type(p) ~= "table" or type(p.pid) ~= "number" then
    core.fail(("%s does not contain the process id"):format(folder))
  end
  if p.boot and process.this() and p.boot ~= process.this().boot then
    core.fail(("%s runs on another machine, or did before this one was started"):format(folder),
      "attach on the machine where it trains")
  end
  if not process.alive(p) then
    core.fail(("%s does not train: %s"):format(folder, ended(folder)),
      ("capl report %s shows its results"):format(folder))
  end
  return p.pid
end

-- -> process number, what to call it
local function find(word)
  local folder = word:gsub("(.)/+$", "%1")
  if sys.kind(folder) == "folder" then return process_of(folder), folder end
  if sys.kind("runs/" .. folder) == "folder" then return process_of("runs/" .. folder), "runs/" .. folder end
  if word:match("^%d+$") then return tonumber(word), "process " .. word end
  local names = {}
  for _, name in ipairs(sys.kind("runs") == "folder" and sys.list("runs") or {}) do names[#names + 1] = name end
  local near = core.nearest(folder:match("([^/]+)$") or folder, names)
  core.fail(("there is no run '%s'%s"):format(word, near and ("; did you mean '%s'?"):format(near) or ""), LIST)
end

-- ---- going in ----

local passed_on = {"TERM", "COLORTERM", "NO_COLOR", "LANG", "LC_ALL", "LC_CTYPE", "KITTY_WINDOW_ID", "TERM_PROGRAM"}

local function hello()
  local out = {utf8 = sys.prompt.utf8(), columns = sys.isatty(1) and sys.columns() or 0}
  for _, name in ipairs(passed_on) do out[name] = sys.getenv(name) end
  return core.json_encode(out)
end

local function visit(word, verbose)
  local pid, name = find(word)
  local greeting, why = remote.enter(pid, hello(),
    function() sys.err(("%s: waiting for the end of its step\n"):format(name)) end)
  if not greeting then
    if why == "interrupted" then return 130 end
    core.fail(("cannot attach to %s: %s"):format(name, why),
      why:find("already") and "one at a time"
      or "its user is another one, or it trains no more; capl attach lists the runs")
  end
  if not sys.isatty(0) then sys.out(greeting .. "\n") end
  local status = sys.client_prompt(greeting .. "\n" .. KEYS, verbose)
  remote.leave()
  sys.out("detached: " .. (remote.goodbye() or "the run is gone") .. "\n")
  return status
end

local function main(job)
  local _, words = options.read(job.args, {}, {command = "attach"})
  if words[2] then core.fail("capl attach takes one run; usage: " .. job.usage) end
  if not words[1] then return list() end
  return visit(words[1], job.verbose)
end

return {main = main, options = {}}
