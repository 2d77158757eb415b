-- ending.lua: what every run leaves at its end, however it ends: its page, and error.json when an error ended it.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local html = require "report.html"
local json = require "run.json"
local process = require "run.process"
local report = require "report"
local run = require "run"

local ending = {}

-- A run that is no real one, or has no folder yet, leaves nothing.
local function leaves_files() return run.mode == "run" and run.path ~= nil and run.steps > 0 end

-- A page that cannot be made must not hide how the run ended.
local function write_page()
  local fine, path, bytes = pcall(report.write, run.path)
  if fine then
    run.print(("report: %s (%s)"):format(path, html.bytes(bytes)))
  else
    run.print("note: report.html was not written: " .. tostring(path):match("[^\n]*"))
  end
end

--- The page; called before the last lines of a run.
function ending.page()
  if leaves_files() then write_page() end
end

--- error.json and the page of a run that an error ended.
function ending.failed(err)
  if not leaves_files() then return end
  local is_ours = core.is_error(err)
  local out = {message = is_ours and err.message or tostring(err), where = is_ours and err.where or nil,
    hint = is_ours and err.hint or nil, step = run.steps, ended_at = core.sys.date(), process = process.this()}
  core.sys.write(run.path .. "/error.json", json.encode(out, true) .. "\n") -- on a full disk the error itself is what counts
  write_page()
end

return ending
