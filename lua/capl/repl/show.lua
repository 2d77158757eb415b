-- show.lua: a value as the prompt prints it: strings quoted inside tables, tables sorted and cut, cycles named.
-- SPDX-License-Identifier: Apache-2.0
local show = {}

local MAX_ITEMS, MAX_DEPTH, WIDTH = 40, 4, 100

local write

local function key_text(key)
  if type(key) == "string" and key:match("^[%a_][%w_]*$") then return key end
  return "[" .. write(key, MAX_DEPTH, {}) .. "]"
end

local function sorted_keys(t)
  local keys = {}
  for key in next, t do
    local in_list = type(key) == "number" and key >= 1 and key <= #t and key % 1 == 0
    if not in_list then keys[#keys + 1] = key end
  end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

local function parts_of(t, depth, seen)
  local parts = {}
  local function add(text)
    if #parts <= MAX_ITEMS then parts[#parts + 1] = #parts < MAX_ITEMS and text or "…" end
    return #parts <= MAX_ITEMS
  end
  for i = 1, #t do
    if not add(write(t[i], depth + 1, seen)) then return parts end
  end
  for _, key in ipairs(sorted_keys(t)) do
    if not add(key_text(key) .. " = " .. write(rawget(t, key), depth + 1, seen)) then return parts end
  end
  return parts
end

local function join(parts, depth)
  local line = "{" .. table.concat(parts, ", ") .. "}"
  if #line + 2 * depth <= WIDTH and not line:find("\n") then return line end
  local indent = ("  "):rep(depth + 1)
  return "{\n" .. indent .. table.concat(parts, ",\n" .. indent) .. "\n" .. ("  "):rep(depth) .. "}"
end

local function has_own_text(t)
  local meta = getmetatable(t)
  return type(meta) == "table" and meta.__tostring ~= nil or (meta ~= nil and type(meta) ~= "table")
end

function write(value, depth, seen)
  local kind = type(value)
  if kind == "string" then return depth > 0 and ("%q"):format(value) or value end
  if kind ~= "table" or has_own_text(value) then return tostring(value) end
  if seen[value] then return "<cycle>" end
  if depth >= MAX_DEPTH then return "{…}" end
  seen[value] = true
  local text = join(parts_of(value, depth, seen), depth)
  seen[value] = nil
  return text
end

--- Text of any value.
function show.value(value) return write(value, 0, {}) end

return show
