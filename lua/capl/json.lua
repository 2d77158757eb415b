-- json.lua: writes Lua values as JSON. Keys come out sorted, so equal values give equal text.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json = {}

local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}

--- Bytes that are no UTF-8 would make a text that no reader of JSON takes: each becomes U+FFFD.
function json.valid(text)
  if not text:find("[\128-\255]") then return text end
  local out, at = {}, 1
  while at <= #text do
    local head = text:byte(at)
    local more = head < 128 and 0 or head >= 194 and head < 224 and 1 or head >= 224 and head < 240 and 2
      or head >= 240 and head < 245 and 3
    local whole = more and text:match("^[\128-\191]*", at + 1):sub(1, more)
    local second = text:byte(at + 1) or 0
    local fine = whole and #whole == more and not (head == 224 and second < 160) and not (head == 237 and second > 159)
      and not (head == 240 and second < 144) and not (head == 244 and second > 143)
    out[#out + 1] = fine and text:sub(at, at + more) or "\239\191\189"
    at = at + (fine and more or 0) + 1
  end
  return table.concat(out)
end

local function quote(text)
  text = json.valid(text)
  return '"' .. text:gsub('[%c"\\]', function(c)
    return escapes[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local function number(x)
  if x ~= x or x == math.huge or x == -math.huge then return "null" end -- JSON knows no such numbers
  if x == math.floor(x) and math.abs(x) < 2 ^ 53 then return ("%d"):format(x) end
  local text = ("%.10g"):format(x) -- mostly enough; else as many digits as give the same number when it is read
  if tonumber(text) == x then return text end
  text = ("%.15g"):format(x)
  return tonumber(text) == x and text or ("%.17g"):format(x)
end

local write

local function list(value, indent)
  local parts = {}
  for i = 1, #value do parts[i] = write(value[i], indent) end
  return "[" .. table.concat(parts, ", ") .. "]"
end

local function object(value, indent)
  local keys, parts = {}, {}
  for key in pairs(value) do
    if type(key) ~= "string" then core.error{code = "value", message = "JSON keys are strings, not " .. type(key)} end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  local inner = indent and indent .. "  "
  for i, key in ipairs(keys) do
    parts[i] = (inner or "") .. quote(key) .. ": " .. write(value[key], inner)
  end
  if #parts == 0 then return "{}" end
  if not indent then return "{" .. table.concat(parts, ", ") .. "}" end
  return "{\n" .. table.concat(parts, ",\n") .. "\n" .. indent .. "}"
end

function write(value, indent)
  local kind = type(value)
  if kind == "string" then return quote(value) end
  if kind == "number" then return number(value) end
  if kind == "boolean" or kind == "nil" then return tostring(value) end
  if kind == "table" then return (#value > 0 and list or object)(value, indent) end
  core.error{code = "value", message = "JSON cannot hold a " .. kind}
end

--- A number's text with at most ten digits: enough for what was measured, and ten times as fast as all of them.
function json.short(x)
  if x == math.floor(x) and x < 2 ^ 53 and x > -2 ^ 53 then return ("%d"):format(x) end
  return ("%.10g"):format(x)
end

--- Text in quotes.
json.quote = quote

--- JSON text of a value. pretty: one key per line.
-- Tables with a first element are lists; empty tables are objects.
function json.encode(value, pretty)
  return write(value, pretty and "" or nil)
end

return json
