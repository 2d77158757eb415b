-- text.lua: texts over a charset: a character at each place, or time steps read by CTC.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local symbols = require "fields.symbols"

local text = {name = "text", is_spelled = true, is_first = true, meter = "text", metric = "exact",
  is_share = true, answers = "texts",
  confused = {"character", "characters", "characters"},
  pretrains = "recipes/finetune.lua, which pretrains on generated captchas"}

local LONGEST = 32 -- characters of a label

text.options = {{"charset", "string"}, {"length", "whole"}, {"decoding", "string"}}

--- How the output of a text model is read; capl.model and meters take one.
text.decodings = {"argmax", "ctc"}

function text.check(op, given)
  if given.length and given.length < 1 then check.fail(op, ("length is 1 or more, got %d"):format(given.length)) end
  if given.decoding == nil then return end
  check.one_of(op, "decoding", given.decoding, text.decodings)
  if given.decoding == "ctc" and (type(given.charset) ~= "string" or given.charset == "") then
    check.fail(op, 'decoding = "ctc" needs the charset', "the loader has it: charset = train.charset")
  end
end

function text.labels(x) return x.charset ~= nil and x.charset ~= "" and x.length ~= nil end

function text.default(x) return {output = "text", charset = x.charset, length = x.length} end

function text.facts(given, loader)
  local out = {decoding = given.decoding or "argmax", charset = loader.charset}
  if out.decoding == "argmax" then
    out.length = loader.length
    return out
  end
  out.blank = symbols.count(loader.charset)
  out.length_min, out.length_max = loader.length_min or loader.length, loader.length
  return out
end

function text.spell(x, ids) return symbols.spell(x.charset, ids) end

function text.reads(d)
  local least, most = d.length_min or d.length, d.length_max or d.length
  return ("texts of %s of %s"):format(least == most and tostring(most) or least .. " to " .. most,
    symbols.shown(symbols.list(d.charset)))
end

function text.decoding(d)
  return (d.decoding or "argmax") .. (d.blank and (", blank is class %d"):format(d.blank) or "")
end

local NEVER = -10000 -- of ddddocr.c

local function classes_of(d)
  local count = symbols.count(d.charset)
  return d.blank and count + 1 or count
end

--- Scores (n,T,K) as the ONNX file for ddddocr gives them: (n,T',K+1), the blank first.
function text.as_ddddocr(scores, d)
  local n, K, op = scores:size(1), classes_of(d), core.op
  local y = op.reshape(scores, {size = {n, -1, K}})
  if d.blank then
    return op.concat(op.narrow(y, {dim = 3, start = K, length = 1}), op.narrow(y, {dim = 3, start = 1, length = K - 1}),
      {dim = 3})
  end
  local T = y:size(2)
  local function filled(width, value) return op.affine(core.zeros({n, T, 1, width}), {shift = value}) end
  local place = op.concat(filled(1, NEVER), op.reshape(y, {size = {n, T, 1, K}}), {dim = 4})
  local between = op.concat(filled(1, 0), filled(K, NEVER), {dim = 4})
  return op.reshape(op.concat(place, between, {dim = 3}), {size = {n, 2 * T, K + 1}})
end

--- Scores of an ONNX file without the rows of certain blanks.
function text.sure_scores(y)
  return core.op.mul(y, core.op.cast(core.op.gt(y, core.tensor(NEVER / 2)), {dtype = "f32"}))
end

--- Of scores of an ONNX file: how many classes a place has, and which one is the blank; nil: none is.
function text.places(_, d, ddddocr)
  return classes_of(d) + (ddddocr and not d.blank and 1 or 0), ddddocr and 0 or d.blank
end

function text.columns(out) return {out.text, ("%.4f"):format(out.confidence)} end

-- Four places, as the lines of text have.
local function rounded(list)
  local out = {}
  for i, value in ipairs(list) do out[i] = math.floor(1e4 * value + 0.5) / 1e4 end
  return out[1] and out or nil
end

function text.json(out) return {text = out.text, confidence = out.confidence, chars = rounded(out.sure)} end

-- A charset in which every character stands for itself: a '-' in the middle would be read as a range.
local function without_ranges(charset)
  return charset:find("-", 1, true) and charset:gsub("%-", "") .. "-" or charset
end

function text.source(d, o)
  -- a text of another length is a wrong one, no bad label
  return {label = o.label or "auto", charset = without_ranges(d.charset),
    length = d.decoding == "ctc" and {1, LONGEST} or d.length}
end

function text.expects(d)
  return ("the model reads %s of %s"):format(d.decoding == "ctc" and "texts" or d.length .. " characters",
    symbols.shown(symbols.list(d.charset)))
end

function text.whole(set) return "exact", set.length end

function text.counted(d) return {charset = d.charset} end

function text.count(meter, out, truth, id)
  meter:count(out.text, truth, out.confidence, id)
  return out.text == truth
end

return text
