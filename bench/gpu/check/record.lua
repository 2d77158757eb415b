-- record.lua: what was measured: results.jsonl, a line as soon as it is known, and the report that is made of it.
--
-- A line is {kind = "row", section, what, status = "passed" | "failed" | "not run", value = text, ms = main metric,
-- metrics, elapsed_s, seconds}; a call begins with {kind = "call", commit, …} and ends with {kind = "end", why}. Of
-- rows with the same section and what the last one counts.
-- SPDX-License-Identifier: Apache-2.0
local child = require "child"
local read_json = require "read_json"
local write_json = require "write_json"

local record = {seen = {}, start = child.clock()}
record.before = record.start

--- The text of a file, nil without one.
function record.text(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read("*a")
  file:close()
  return text
end

local function put(path, text, how)
  local file = assert(io.open(path, how))
  assert(file:write(text))
  file:close()
end

--- Lines of JSON of a file; one that was cut off is left out.
function record.lines(path)
  local out = {}
  for line in (record.text(path) or ""):gmatch("[^\n]+") do
    local fine, value = pcall(read_json, line)
    if fine and type(value) == "table" then out[#out + 1] = value end
  end
  return out
end

local function append(line) put(record.folder .. "/results.jsonl", write_json(line) .. "\n", "a") end

--- A call begins: DIR takes lines of one commit only.
function record.open(folder, call)
  record.folder = folder
  for _, line in ipairs(record.lines(folder .. "/results.jsonl")) do
    if line.kind == "call" and line.commit ~= call.commit then
      error(("%s has rows of commit %s, this is %s; give another --out=DIR"):format(folder, line.commit, call.commit),
        0)
    end
  end
  call.kind = "call"
  append(call)
end

--- Writes a row down, and shows it.
function record.row(section, what, status, value, more)
  local now = child.clock()
  local row = {kind = "row", section = section, what = what, status = status, value = value,
    elapsed_s = now - record.start, seconds = now - record.before}
  for key, x in pairs(more or {}) do row[key] = x end
  record.before, record.seen[section] = now, true
  append(row)
  print(("%-10s %-8s %-40s %s"):format(section, status, what, value))
  io.stdout:flush()
end

--- Rows in the order in which they came first, each as it was last; calls; why the last call ended.
function record.read(path)
  local rows, at, calls, ended = {}, {}, {}, nil
  for _, line in ipairs(record.lines(path)) do
    if line.kind == "call" then calls[#calls + 1], ended = line, nil
    elseif line.kind == "end" then ended = line.why
    elseif line.kind == "row" then
      local key = line.section .. "\0" .. line.what
      at[key] = at[key] or #rows + 1
      rows[at[key]] = line
    end
  end
  return rows, calls, ended
end

--- The row of a section so far, nil without; of earlier calls in the same folder too.
function record.find(section, what)
  for _, row in ipairs((record.read(record.folder .. "/results.jsonl"))) do
    if row.section == section and row.what == what and row.status == "passed" then return row end
  end
end

--- Whether this call has a row of the section.
function record.any(section) return record.seen[section] end

--- report.json and the table out of results.jsonl. -> exit status: 0 all passed, 1 something failed, 3 something did
-- not run
function record.report(folder)
  local rows, calls, ended = record.read(folder .. "/results.jsonl")
  local counts = {passed = 0, failed = 0, ["not run"] = 0}
  print("--- all")
  for _, row in ipairs(rows) do
    counts[row.status] = counts[row.status] + 1
    print(("%-10s %-8s %-40s %s"):format(row.section, row.status, row.what, row.value))
  end
  ended = ended or "killed"
  local report = {commit = calls[1] and calls[1].commit, calls = calls, ended = ended, rows = rows, counts = counts}
  put(folder .. "/report.json", write_json(report, true) .. "\n", "w")
  print(("passed %d, failed %d, not run %d%s"):format(counts.passed, counts.failed, counts["not run"],
    ended == "done" and "" or "; the last call did not end by itself: " .. ended))
  if counts.failed > 0 then return 1 end
  if counts["not run"] > 0 or ended ~= "done" or counts.passed == 0 then return 3 end
  print("all passed")
  return 0
end

--- The end of a call, and its report.
function record.close(why)
  append{kind = "end", why = why}
  return record.report(record.folder)
end

return record
