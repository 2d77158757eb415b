-- write_json.lua: JSON text of Lua values, without capl; keys come out sorted. Tables with a first element are lists.
-- SPDX-License-Identifier: Apache-2.0
local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}

local function quote(text)
  return '"' .. text:gsub('[%c"\\]', function(c) return escapes[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

local function number(x)
  if x ~= x or x == math.huge or x == -math.huge then return "null" end
  if x == math.floor(x) and math.abs(x) < 2 ^ 53 then return ("%d"):format(x) end
  local text = ("%.15g"):format(x)
  return tonumber(text) == x and text or ("%.17g"):format(x)
end

local write

local function object(value, indent)
  local keys, parts, inner = {}, {}, indent and indent .. "  "
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys)
  for i, key in ipairs(keys) do parts[i] = (inner or "") .. quote(key) .. ": " .. write(value[key], inner) end
  if #parts == 0 then return "{}" end
  if not indent then return "{" .. table.concat(parts, ", ") .. "}" end
  return "{\n" .. table.concat(parts, ",\n") .. "\n" .. indent .. "}"
end

local function list(value, indent)
  local parts = {}
  for i = 1, #value do parts[i] = write(value[i], indent) end
  return "[" .. table.concat(parts, ", ") .. "]"
end

function write(value, indent)
  local kind = type(value)
  if kind == "string" then return quote(value) end
  if kind == "number" then return number(value) end
  if kind == "boolean" then return tostring(value) end
  if kind == "table" then return (#value > 0 and list or object)(value, indent) end
  error("JSON cannot hold a " .. kind, 0)
end

--- pretty: one key per line.
return function(value, pretty) return write(value, pretty and "" or nil) end
