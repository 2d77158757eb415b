-- symbols.lua: texts and charsets as lists of symbols, which are the Unicode code points of UTF-8.
--
-- A charset is a string with every symbol once; the class of a symbol is its place, from 0 on. Bytes that are no UTF-8
-- are symbols of one byte, so that names of files that nobody has checked pass through; symbols.check refuses them.
-- string.lower and string.upper change ASCII letters alone: symbols.fold knows those of all scripts.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local symbols = {}

local REMEMBERED = 16 -- charsets whose lists are kept
local SHOWN = 100 -- symbols that a message names

-- The first byte of a symbol of several bytes -> how many follow, least and most of the second one.
local lead = {}
for byte = 0xC2, 0xDF do lead[byte] = {1, 0x80, 0xBF} end
for byte = 0xE0, 0xEF do lead[byte] = {2, byte == 0xE0 and 0xA0 or 0x80, byte == 0xED and 0x9F or 0xBF} end
for byte = 0xF0, 0xF4 do lead[byte] = {3, byte == 0xF0 and 0x90 or 0x80, byte == 0xF4 and 0x8F or 0xBF} end

-- Bytes of the symbol at a place that holds a byte above 127; nil where it is no UTF-8.
local function size_at(text, at)
  local first = lead[text:byte(at)]
  local second = first and text:byte(at + 1)
  if not second or second < first[2] or second > first[3] then return nil end
  for k = 2, first[1] do
    local byte = text:byte(at + k)
    if not byte or byte < 0x80 or byte > 0xBF then return nil end
  end
  return 1 + first[1]
end

--- The symbols of a text, in its order; a byte that is no UTF-8 is one, too.
function symbols.of(text)
  local out, n, at = {}, 0, 1
  while at <= #text do
    local size = text:byte(at) < 128 and 1 or size_at(text, at) or 1
    n = n + 1
    out[n], at = text:sub(at, at + size - 1), at + size
  end
  return out
end

--- How many symbols a text has.
function symbols.length(text) return text:find("[\128-\255]") and #symbols.of(text) or #text end

--- Raises unless a text is UTF-8; what: as the message calls it.
-- errs value: the first wrong byte and its place
function symbols.check(op, what, text)
  if not text:find("[\128-\255]") then return text end
  local at = 1
  for _, symbol in ipairs(symbols.of(text)) do
    local byte = symbol:byte()
    if #symbol == 1 and byte > 127 then
      check.fail(op, ("%s is no UTF-8: byte %d is 0x%02X"):format(what, at, byte), "save it in UTF-8")
    end
    at = at + #symbol
  end
  return text
end

--- A text as labels are kept: in normal form C, letters of any script as case = "keep" | "upper" | "lower" says. One
-- that is no UTF-8 stays as it is.
function symbols.fold(text, case)
  local fine, folded = pcall(core.data.fold, text, case)
  return fine and folded or text
end

--- The symbols of a charset that fonts draw alike: list of sets, {"0O"}.
function symbols.lookalikes(charset) return core.data.lookalikes(charset) end

local usable = {}

--- The first symbol of a text that no charset can hold, such as a blank; nil without one. The engine knows the rule.
function symbols.unusable(text)
  for _, symbol in ipairs(symbols.of(text)) do
    if usable[symbol] == nil then usable[symbol] = pcall(core.data.charset, symbol) end
    if not usable[symbol] then return symbol end
  end
end

--- A list of symbols, or of words about them, for messages: a long one is cut and ends in "… and 2400 more".
function symbols.shown(list, between)
  local text = table.concat(list, between, 1, math.min(SHOWN, #list))
  return #list > SHOWN and ("%s… and %d more"):format(text, #list - SHOWN) or text
end

-- ---- charsets ----

local known, count = {}, 0

-- {list, class_of} of a charset; made once for the last few.
local function entry_of(charset)
  local entry = known[charset]
  if entry then return entry end
  if count == REMEMBERED then known, count = {}, 0 end
  entry = {list = symbols.of(charset), class_of = {}}
  for i, symbol in ipairs(entry.list) do entry.class_of[symbol] = i - 1 end
  known[charset], count = entry, count + 1
  return entry
end

--- The symbols of a charset: that of class k is at k + 1. Not to be changed.
function symbols.list(charset) return entry_of(charset).list end

--- How many symbols a charset has: the classes of a model that reads its texts.
function symbols.count(charset) return #entry_of(charset).list end

--- Symbol -> its class, from 0 on. Not to be changed.
function symbols.class_of(charset) return entry_of(charset).class_of end

--- What classes spell, such as those of a row of targets; a class that the charset does not have (-1, a blank) gives
-- nothing.
function symbols.spell(charset, classes)
  local list, out = symbols.list(charset), {}
  for _, class in ipairs(classes) do out[#out + 1] = list[class + 1] end
  return table.concat(out)
end

return symbols
