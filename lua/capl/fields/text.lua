-- text.lua: texts over a charset: a character at each place, or time steps read by CTC.
-- SPDX-License-Identifier: Apache-2.0
local symbols = require "fields.symbols"

local text = {name = "text", meter = "text", metric = "exact", is_share = true, answers = "texts"}

local LONGEST = 32 -- characters of a label

function text.labels(x) return x.charset ~= nil and x.charset ~= "" and x.length ~= nil end

function text.options(x) return {output = "text", charset = x.charset, length = x.length} end

function text.facts(given, loader)
  local out = {output = "text", decoding = given.decoding or "argmax", charset = loader.charset}
  if out.decoding == "argmax" then
    out.length = loader.length
    return out
  end
  out.blank = symbols.count(loader.charset)
  out.length_min, out.length_max = loader.length_min or loader.length, loader.length
  return out
end

function text.spell(x, ids) return symbols.spell(x.charset, ids) end

function text.reads(meta)
  local least, most = meta.length_min or meta.length, meta.length_max or meta.length
  return ("texts of %s of %s"):format(least == most and tostring(most) or least .. " to " .. most,
    symbols.shown(symbols.list(meta.charset)))
end

function text.decoding(meta)
  return (meta.decoding or "argmax") .. (meta.blank and (", blank is class %d"):format(meta.blank) or "")
end

function text.columns(reading) return {reading.text, ("%.4f"):format(reading.confidence)} end

-- Four places, as the lines of text have.
local function rounded(list)
  local out = {}
  for i, value in ipairs(list) do out[i] = math.floor(1e4 * value + 0.5) / 1e4 end
  return out[1] and out or nil
end

function text.json(reading)
  return {text = reading.text, confidence = reading.confidence, chars = rounded(reading.sure)}
end

-- A charset in which every character stands for itself: a '-' in the middle would be read as a range.
local function without_ranges(charset)
  return charset:find("-", 1, true) and charset:gsub("%-", "") .. "-" or charset
end

function text.source(info, o)
  -- a text of another length is a wrong one, no bad label
  return {label = o.label or "auto", charset = without_ranges(info.charset),
    length = info.decoding == "ctc" and {1, LONGEST} or info.length}
end

function text.expects(info)
  return ("the model reads %s of %s"):format(info.decoding == "ctc" and "texts" or info.length .. " characters",
    symbols.shown(symbols.list(info.charset)))
end

function text.counted(info) return {charset = info.charset} end

function text.count(meter, reading, truth, id) meter:count(reading.text, truth, reading.confidence, id) end

return text
