-- strict_json.lua: reads JSON that strangers wrote: small, flat, every key once, and told by line where it is not.
--
-- core.json_decode takes what it can; of two equal keys one wins silently, and then two readers of a manifest may disagree
-- about what it says. Here anything odd is refused.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local strict = {}

local MOST_BYTES, MOST_DEPTH, MOST_ITEMS = 1048576, 12, 20000

local Reader = {}
Reader.__index = Reader

local function fail(r, message)
  local _, lines = r.text:sub(1, r.at - 1):gsub("\n", "")
  core.error{code = "format", message = ("%s:%d: %s"):format(r.name, lines + 1, message), path = false}
end

function Reader:skip() self.at = self.text:find("[^ \t\r\n]", self.at) or #self.text + 1 end

function Reader:next_char()
  self:skip()
  return self.text:sub(self.at, self.at)
end

local escapes = {['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t"}

-- UTF-8 of a code point
local function utf8(code)
  if code < 0x80 then return string.char(code) end
  if code < 0x800 then return string.char(0xc0 + math.floor(code / 64), 0x80 + code % 64) end
  if code < 0x10000 then return string.char(0xe0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64) end
  return string.char(0xf0 + math.floor(code / 262144), 0x80 + math.floor(code / 4096) % 64, 0x80 + math.floor(code / 64) % 64,
    0x80 + code % 64)
end

-- \uXXXX, or two of them that are one character
local function unicode(r)
  local code = tonumber(r.text:match("^u(%x%x%x%x)", r.at) or "", 16)
  if not code then fail(r, "\\u has four hexadecimal digits behind it") end
  r.at = r.at + 5
  if code >= 0xd800 and code < 0xdc00 then
    local low = tonumber(r.text:match("^\\u(%x%x%x%x)", r.at) or "", 16)
    if not low or low < 0xdc00 or low > 0xdfff then fail(r, "half of a character") end
    r.at = r.at + 6
    return utf8(0x10000 + (code - 0xd800) * 1024 + low - 0xdc00)
  end
  if code >= 0xdc00 and code < 0xe000 then fail(r, "half of a character") end
  return utf8(code)
end

local function escaped(r)
  local c = r.text:sub(r.at, r.at)
  if c == "u" then return unicode(r) end
  if not escapes[c] then fail(r, "an unknown escape in a text") end
  r.at = r.at + 1
  return escapes[c]
end

local function read_string(r)
  local parts = {}
  r.at = r.at + 1
  while true do
    local stop = r.text:find('[%c"\\]', r.at)
    if not stop then fail(r, "a text has no end") end
    parts[#parts + 1] = r.text:sub(r.at, stop - 1)
    local c = r.text:sub(stop, stop)
    r.at = stop + 1
    if c == '"' then return table.concat(parts) end
    if c ~= "\\" then r.at = stop fail(r, "a control character in a text") end
    parts[#parts + 1] = escaped(r)
  end
end

local function read_number(r)
  local text = r.text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", r.at)
  local value = text and tonumber(text)
  if not value or text:match("^-?0%d") or math.abs(value) == math.huge then fail(r, "no number that can be read") end
  r.at = r.at + #text
  return value
end

local read

local function count(r)
  r.items = r.items + 1
  if r.items > MOST_ITEMS then fail(r, ("more than %d values"):format(MOST_ITEMS)) end
end

-- Calls one() for each item up to the closing sign.
local function items(r, close, one)
  r.at = r.at + 1
  if r:next_char() == close then r.at = r.at + 1 return end
  while true do
    count(r)
    one()
    local c = r:next_char()
    r.at = r.at + 1
    if c == close then return end
    if c ~= "," then r.at = r.at - 1 fail(r, ("'%s' or ',' is missing"):format(close)) end
  end
end

local function read_object(r, depth)
  local out = {}
  items(r, "}", function()
    if r:next_char() ~= '"' then fail(r, "a key in quotes is missing") end
    local key = read_string(r)
    if out[key] ~= nil then fail(r, ("the key \"%s\" is there twice"):format(key)) end
    if r:next_char() ~= ":" then fail(r, ("':' is missing behind \"%s\""):format(key)) end
    r.at = r.at + 1
    out[key] = read(r, depth)
  end)
  return out
end

local function read_list(r, depth)
  local out = {}
  items(r, "]", function() out[#out + 1] = read(r, depth) end)
  return out
end

local words = {["true"] = true, ["false"] = false}

function read(r, depth)
  if depth > MOST_DEPTH then fail(r, ("nested deeper than %d"):format(MOST_DEPTH)) end
  local c = r:next_char()
  if c == "{" then return read_object(r, depth + 1) end
  if c == "[" then return read_list(r, depth + 1) end
  if c == '"' then return read_string(r) end
  if c:match("[%d-]") then return read_number(r) end
  local word = r.text:match("^%a+", r.at)
  if word == nil or words[word] == nil then fail(r, word == "null" and "null stands for nothing here" or "no value") end
  r.at = r.at + #word
  return words[word]
end

--- Reads an object.
-- in   text; name: of the file, for messages
-- out  tables, texts, numbers, true and false
-- errs format: not JSON, a key twice, null, nested too deep, too large; each names the line
function strict.decode(text, name)
  local r = setmetatable({text = text, name = name, at = 1, items = 0}, Reader)
  if #text > MOST_BYTES then fail(r, ("%d bytes, more than the %d that make sense here"):format(#text, MOST_BYTES)) end
  if r:next_char() ~= "{" then fail(r, "no JSON object") end
  local value = read(r, 0)
  if r:next_char() ~= "" then fail(r, "something behind the object") end
  return value
end

return strict
