-- folder.lua: what a run's folder contains. Files only, never a live process; the run may still be running or have been
-- killed.
--
-- A file that is missing, cut or foreign costs its part of the report and a note, never the rest.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json_file = require "json_file"
local process = require "run.process"
local value = require "report.value"

local folder = {}

local MOST_LINES = 1000000 -- of metrics.jsonl
local END_BYTES = 50000 -- of it, when only its end is wanted

-- ---- files ----

local function note(r, text) r.notes[#r.notes + 1] = text end

-- The JSON object in a file of the folder; {} when there is none.
local function read_object(r, name)
  local path = r.path .. "/" .. name
  if core.sys.kind(path) ~= "file" then return {} end
  local text, why = core.sys.read(path)
  local found = json_file.decode(text)
  if found then
    r.files[name] = true
    return found
  end
  note(r, ("%s could not be read: %s"):format(name, why or "it holds no JSON object"))
  return {}
end

-- Calls take(object) for each line that holds one.
local function each_line(r, name, take)
  local path = r.path .. "/" .. name
  if core.sys.kind(path) ~= "file" then return end
  local text, why = core.sys.read(path)
  if not text then return note(r, ("%s could not be read: %s"):format(name, why)) end
  r.files[name] = true
  if r.brief and #text > END_BYTES then text = text:sub(-END_BYTES):gsub("^[^\n]*\n", "") end
  local bad, count = 0, 0
  for line in text:gmatch("[^\n]+") do
    local object = json_file.decode(line)
    if object then take(object) else bad = bad + 1 end
    count = count + 1
    if count == MOST_LINES then break end
  end
  if bad > 0 then note(r, ("%s: %d line%s could not be read"):format(name, bad, bad > 1 and "s" or "")) end
end

-- ---- metrics ----

-- A resumed run repeats steps: the later line counts.
local function drop_from(list, step)
  while list[1] and list[#list].step >= step do list[#list] = nil end
end

local function is_evaluation(row)
  for key in pairs(row) do
    if type(key) == "string" and (key:match("^val_") or key:match("^plain_val_")) then return true end
  end
  return false
end

-- A second line about the evaluation of a step, such as that of the weights without averages, belongs to the first.
local function join(list, row)
  local last = list[#list]
  if not last or last.step ~= row.step then return false end
  for key, found in pairs(row) do last[key] = found end
  return true
end

local function take_row(r, row)
  row.step = value.number(row, "step") or r.step
  if value.text(row, "event") then
    table.insert(r.events, row)
    return
  end
  local list = is_evaluation(row) and r.evaluations or r.points
  if row.plain_val_loss == nil or not join(r.evaluations, row) then
    drop_from(list, row.step)
    list[#list + 1] = row
  end
  r.step = math.max(row.step, 0)
  r.seconds = value.number(row, "seconds") or r.seconds
end

-- Steps that were done again have moved the end back, and with it the evaluations behind it.
local function drop_undone(r)
  local last = 0
  for _, list in ipairs{r.points, r.evaluations} do
    if list[1] then last = math.max(last, list[#list].step) end
  end
  r.step = last
end

-- ---- state ----

local sentences = {
  steps = "all steps are done", max_time = "its time box is over", interrupted = "it was interrupted",
  done = "the recipe came to its end",
}

-- An error of an earlier start of this run is over when the run has been started again.
local function error_of(r)
  local e = read_object(r, "error.json")
  return value.text(e, "message") and process.same(e.process, r.settings.process) and e or nil
end

local function is_running(r)
  return process.alive(r.settings.process) and not (r.ending and process.same(r.settings.process, process.this()))
end

local function state_of(r)
  if is_running(r) then return "running" end
  local ended, steps = value.text(r.result, "ended"), value.number(r.result, "steps")
  local is_old = steps and r.step > steps -- the run was resumed after this result
  if r.error then return "failed", "it ended with an error" end
  if ended and not is_old then
    return ended == "interrupted" and "stopped" or "finished", sentences[ended] or ended:gsub("_", " ")
  end
  if not r.files["settings.json"] then return "unknown" end
  return "killed", "nothing was written at its end"
end

-- ---- the run ----

--- Raises unless path is a run's folder.
function folder.check(path)
  local kind = core.sys.kind(path)
  if kind == "folder" then
    for _, name in ipairs{"settings.json", "metrics.jsonl", "result.json"} do
      if core.sys.kind(path .. "/" .. name) == "file" then return end
    end
  end
  local why = not kind and "there is no such folder" or kind == "file" and "it is a file" or
    "it has no settings.json, metrics.jsonl or result.json"
  core.error{code = "io", message = ("%s is not the folder of a run: %s"):format(path, why),
    hint = "a run's folder is runs/NAME; 'capl runs' lists those below runs/"}
end

--- Everything that the files of a run's folder say.
-- in   path; opts: ending = true when it is this process whose run is at its end; brief = true: of a run with a
--      result.json, only the end of metrics.jsonl
-- out  {path, name, settings, result, evaluation (objects, {} when missing), points, evaluations (rows of metrics.jsonl
--      with ascending steps), events, error, step, seconds, state = "running", "finished", "stopped", "failed",
--      "killed" or "unknown", why, notes = what could not be read, files = {name = true}}
function folder.read(path, opts)
  path = path:gsub("(.)/+$", "%1")
  folder.check(path)
  local r = {path = path, name = path:match("([^/]+)$") or path, notes = {}, files = {}, step = 0, ending = opts
    and opts.ending}
  for _, list in ipairs{"points", "evaluations", "events"} do r[list] = {} end
  for _, part in ipairs{"settings", "result", "evaluation"} do r[part] = read_object(r, part .. ".json") end
  r.brief = opts and opts.brief and r.files["result.json"]
  each_line(r, "metrics.jsonl", function(row) take_row(r, row) end)
  drop_undone(r)
  r.error = error_of(r)
  r.state, r.why = state_of(r)
  return r
end

return folder
