-- compare.lua: two records side by side, of two cards or two commits: rows by section and what, their values and ratio.
-- SPDX-License-Identifier: Apache-2.0
local read_json = require "read_json"
local record = require "record"

local function rows_of(path)
  local text = record.text(path) or error(path .. " cannot be read", 0)
  local fine, whole = pcall(read_json, text)
  if fine and type(whole) == "table" and whole.rows then return whole.rows, whole.calls or {} end
  return record.read(path)
end

local function title(path, calls)
  local call = calls[1] or {}
  return ("%s: commit %s, %s"):format(path, call.commit or "unknown", call.card or "unknown card")
end

local function line(row, other)
  local name = ("%-10s %-40s"):format(row.section, row.what)
  if not other then return name .. " only in one" end
  if row.status ~= other.status then return ("%s %s | %s: DIFFERS"):format(name, row.status, other.status) end
  if row.ms and other.ms then
    return ("%s %10.3f ms %10.3f ms  ratio %.3f"):format(name, row.ms, other.ms, other.ms / row.ms)
  end
  return ("%s %s"):format(name, row.value == other.value and row.value or row.value .. " | " .. other.value)
end

--- Prints both. -> exit status: 1 when a row has another status in the second
return function(first, second)
  local a, a_calls = rows_of(first)
  local b, b_calls = rows_of(second)
  print(title(first, a_calls) .. "\n" .. title(second, b_calls))
  local of, differ = {}, 0
  for _, row in ipairs(b) do of[row.section .. "\0" .. row.what] = row end
  for _, row in ipairs(a) do
    local key = row.section .. "\0" .. row.what
    local other = of[key]
    of[key] = nil
    if other and other.status ~= row.status then differ = differ + 1 end
    print(line(row, other))
  end
  for _, row in ipairs(b) do
    if of[row.section .. "\0" .. row.what] then print(line(row)) end
  end
  print(("%d rows with another status"):format(differ))
  return differ == 0 and 0 or 1
end
