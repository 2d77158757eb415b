-- lines.lua: files of lines that a run writes while it goes: cut back to the step that it resumes from.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json_file = require "json_file"

local lines = {}

-- Lines that end with a newline; a killed machine may leave half of one.
local function whole_lines(text)
  local out = {}
  text = text:match("^.*\n") or "" -- a long half line would be tried from each of its bytes on
  for line in text:gmatch("([^\n]*)\n") do out[#out + 1] = line end
  return out
end

-- nil: there is no such file. What is there and cannot be read must not pass for that: it would be written anew.
local function text_of(path)
  if not core.sys.kind(path) then return nil end
  local text, why = core.sys.read(path)
  return text or core.error{code = "io", message = why, path = false}
end

--- A file of JSON objects, one per line, as tables; what cannot be read is left out. nil: there is no such file.
function lines.read(path)
  local text = text_of(path)
  if not text then return nil end
  local out = {}
  for _, line in ipairs(whole_lines(text)) do out[#out + 1] = json_file.decode(line) end
  return out
end

-- Keeps the lines for which keep(line) holds.
local function filter(path, keep)
  local text = text_of(path)
  if not text then return end
  local out = {}
  for _, line in ipairs(whole_lines(text)) do
    if keep(line, #out) then out[#out + 1] = line .. "\n" end
  end
  local kept = table.concat(out)
  if kept == text then return end
  local done, why = core.sys.write(path, kept)
  if not done then core.error{code = "io", message = why, path = false} end
end

--- Drops the lines of steps after `step`, and lines that are no JSON.
function lines.cut(path, step)
  filter(path, function(line)
    local value = json_file.decode(line)
    return value and (tonumber(value.step) or 0) <= step
  end)
end

return lines
