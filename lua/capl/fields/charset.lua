-- charset.lua: charsets that stand in a file of their own: charset = "@FILE".
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local symbols = require "fields.symbols"

local charset = {}

local MARK = "^\239\187\191" -- of the order of bytes, which some editors write at the front
local WIDE_BLANK = "\227\128\128" -- U+3000

local function read_file(where, path)
  local text, why = core.sys.read(path)
  if not text then
    core.error{code = "io", op = where, message = "charset: " .. why,
      hint = "a charset that begins with @ names a file; to mean the character @, write it at another place"}
  end
  return symbols.fold(symbols.check(where, path, text), "keep"):gsub(MARK, "")
end

-- Symbol -> the line where it is; raises for one that is there twice.
local function lines_of(where, path, text)
  local line_of, line = {}, 0
  for row in (text .. "\n"):gmatch("(.-)\n") do
    line = line + 1
    for _, symbol in ipairs(symbols.of((row:gsub("%s+", ""):gsub(WIDE_BLANK, "")))) do
      local before = line_of[symbol]
      if before then
        check.fail(where, ("charset: %s:%d: '%s' is there twice, %s"):format(path, line, symbol,
          before == line and "both times in this line" or "first in line " .. before))
      end
      line_of[symbol] = line
      line_of[#line_of + 1] = symbol
    end
  end
  return line_of
end

--- A charset as the engine reads it: of "@FILE" the symbols in that UTF-8 file, in their order, without blanks and line
-- breaks. Everything else stays as it is.
-- errs io: the file cannot be read; value: it is empty, no UTF-8, or has a symbol twice (the message names the line)
function charset.read(where, spec)
  if type(spec) ~= "string" or not spec:find("^@.") then return spec end
  local path = spec:sub(2)
  local found = table.concat(lines_of(where, path, read_file(where, path)))
  if found == "" then check.fail(where, ("charset: %s has no symbol"):format(path)) end
  return found:find("-", 1, true) and "-" .. found:gsub("%-", "") or found -- at the front it is no range
end

return charset
