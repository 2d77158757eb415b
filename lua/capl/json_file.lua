-- json_file.lua: JSON in files that others have written, perhaps up to the moment they were killed: what cannot be read
-- is nil.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json_file = {}

--- The table that a text holds; nil for other text, and for none.
-- errs nomem: which is nothing about the text
function json_file.decode(text)
  local ok, value = pcall(core.json_decode, text or "")
  if not ok and core.is_error(value) and value.code == "nomem" then error(value, 0) end
  return ok and type(value) == "table" and value or nil
end

--- The table in a file; nil when there is none.
function json_file.read(path) return json_file.decode(core.sys.read(path)) end

--- The tables of a text that has one on each line; other lines are left out.
function json_file.lines(text)
  local out = {}
  for line in (text or ""):gmatch("[^\n]+") do out[#out + 1] = json_file.decode(line) end
  return out
end

return json_file
