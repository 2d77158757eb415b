-- ending.lua: what every run leaves at its end, however it ends: a result.json with what its switches counted, its
-- page, and error.json when an error ended it.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json_file = require "json_file"
local sync = require "dist.sync"
local html = require "report.html"
local machine = require "train.machine"
local process = require "run.process"
local report = require "report"

local ending = {}

-- A run that is no real one, or has no folder yet, leaves nothing.
local function leaves_files(run) return run.mode == "run" and run.path ~= nil and run.steps > 0 end

-- How a run came to its end must not be hidden by what could not be written then.
local function attempt(run, what, fn, ...)
  local fine, result, more = pcall(fn, ...)
  if fine then return result, more end
  run:print(("note: %s was not written: %s"):format(what, tostring(result):match("[^\n]*")))
end

-- ---- result.json ----

-- What train.fit has written in this process; {} when there is nothing, or what an earlier start of this run left.
local function read_result(path)
  local found = json_file.read(path) or {}
  return (not found.process or process.same(found.process, process.this())) and found or {}
end

-- train.fit has written metrics; a custom training loop has not. Either way the counters are known only now.
local function complete_result(run, ended)
  local path = run.path .. "/result.json"
  local out = read_result(path)
  out.ended, out.steps = out.ended or ended, out.steps or run.steps
  out.features = out.features or run.features:counts()
  out.monitor = out.monitor or machine.totals(run)
  out.restarts = run.restart and run.restart.number
  out.ranks, out.expected = run.ranks, run.claim_result
  out.next, out.final, out.process = out.next or run:next_command(), run.final_values, process.this()
  local written, why = core.sys.write(path, core.json_encode(out, true) .. "\n")
  if not written then core.error{code = "io", message = why} end
end

-- ---- the page ----

local function write_page(run)
  local path, bytes = attempt(run, "report.html", report.write, run.path, nil, true)
  if path then run:print(("report: %s (%s)"):format(path, html.bytes(bytes))) end
end

local function close(run, ended)
  if not leaves_files(run) then return end
  attempt(run, "result.json", complete_result, run, ended)
  write_page(run)
end

--- Leaves result and page when a run comes to its end, before its last lines.
function ending.listen(run)
  run:on("finish", function() close(run, "done") end)
end

--- The same after Ctrl-C or SIGTERM.
function ending.stopped(run) close(run, "interrupted") end

--- error.json and the page of a run that an error ended.
function ending.failed(run, err)
  if not leaves_files(run) then return end
  local is_ours = core.is_error(err)
  local out = {message = is_ours and err.message or tostring(err), where = is_ours and err.where or nil,
    hint = is_ours and err.hint or nil, step = run.steps, ended_at = core.sys.date(), process = process.this()}
  out.message = out.message .. sync.here()
  -- on a full disk the error itself is what counts
  sync.write(run.path .. "/error.json", core.json_encode(out, true) .. "\n")
  write_page(run)
end

return ending
