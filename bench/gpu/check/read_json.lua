-- read_json.lua: reads JSON text into Lua values, without capl: null is nil. Errors on what is no JSON.
-- SPDX-License-Identifier: Apache-2.0
local escapes = {b = "\b", f = "\f", n = "\n", r = "\r", t = "\t"}
local words = {["true"] = true, ["false"] = false}
local value

local function fail(text, at) error(("no JSON at byte %d: %s"):format(at, text:sub(at, at + 20)), 0) end
local function skip(text, at) return text:find("[^%s]", at) or #text + 1 end

local function utf8(hex)
  local n = tonumber(hex, 16)
  if n < 128 then return string.char(n) end
  if n < 2048 then return string.char(192 + math.floor(n / 64), 128 + n % 64) end
  return string.char(224 + math.floor(n / 4096), 128 + math.floor(n / 64) % 64, 128 + n % 64)
end

local function quoted(text, at)
  local ends = at + 1
  while text:sub(ends, ends) ~= '"' do
    if ends > #text then fail(text, at) end
    ends = ends + (text:sub(ends, ends) == "\\" and 2 or 1)
  end
  local inner = text:sub(at + 1, ends - 1):gsub("\\u(%x%x%x%x)", utf8):gsub("\\(.)", function(c)
    return escapes[c] or c end)
  return inner, ends + 1
end

local function list(text, at)
  local out, n = {}, 0
  at = skip(text, at + 1)
  if text:sub(at, at) == "]" then return out, at + 1 end
  while true do
    n = n + 1
    out[n], at = value(text, at)
    at = skip(text, at)
    local c = text:sub(at, at)
    if c == "]" then return out, at + 1 end
    if c ~= "," then fail(text, at) end
    at = at + 1
  end
end

local function object(text, at)
  local out = {}
  at = skip(text, at + 1)
  if text:sub(at, at) == "}" then return out, at + 1 end
  while true do
    at = skip(text, at)
    if text:sub(at, at) ~= '"' then fail(text, at) end
    local key, after = quoted(text, at)
    at = skip(text, after)
    if text:sub(at, at) ~= ":" then fail(text, at) end
    out[key], at = value(text, at + 1)
    at = skip(text, at)
    local c = text:sub(at, at)
    if c == "}" then return out, at + 1 end
    if c ~= "," then fail(text, at) end
    at = at + 1
  end
end

function value(text, at)
  at = skip(text, at)
  local c = text:sub(at, at)
  if c == "{" then return object(text, at) end
  if c == "[" then return list(text, at) end
  if c == '"' then return quoted(text, at) end
  local word = text:match("^[%a]+", at)
  if word == "null" then return nil, at + 4 end
  if word and words[word] ~= nil then return words[word], at + #word end
  local number = text:match("^-?[%d.eE+-]+", at)
  if not tonumber(number) then fail(text, at) end
  return tonumber(number), at + #number
end

return function(text)
  local out, at = value(text, 1)
  if skip(text, at) <= #text then fail(text, at) end
  return out
end
