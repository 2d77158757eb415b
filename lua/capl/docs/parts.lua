-- parts.lua: a docstring taken apart: what it is called as, its words, and the labelled parts in, out, opts, init,
-- errs, paper, eg.
-- SPDX-License-Identifier: Apache-2.0
local parts = {}

local labels = {["in"] = true, out = true, opts = true, init = true, errs = true, eg = true, paper = true}

local function trim(text) return (text:gsub("^%s+", ""):gsub("%s+$", "")) end

--- {text = what stands before the first label, {label, text}, …} of a docstring's text.
function parts.read(text)
  local out, words = {}, {}
  local at
  for line in (text .. "\n"):gmatch("(.-)\n") do
    local label, rest = line:match("^(%l+)%s+(.*)$")
    if label and labels[label] and (label ~= "in" or line:match("^in%s%s+") or at) then
      at = {label = label, lines = {rest}}
      out[#out + 1] = at
    elseif at then
      at.lines[#at.lines + 1] = trim(line)
    else
      words[#words + 1] = line
    end
  end
  out.text = trim(table.concat(words, "\n"))
  for _, part in ipairs(out) do
    part.text = trim(table.concat(part.lines, part.label == "eg" and "\n" or " "))
    part.lines = nil
  end
  return out
end

--- Texts of the parts with a label.
function parts.with(read, label)
  local out = {}
  for _, part in ipairs(read) do
    if part.label == label then out[#out + 1] = part.text end
  end
  return out
end

--- A text as a pattern that stands for itself.
function parts.escape(text) return (text:gsub("%p", "%%%0")) end

-- "fname(a, {b})" at the start of a position in text, over several lines.
local function call_at(text, at)
  local call = text:match("^[%w_.:]+%s?%b()", at) or text:match("^[%w_.:]+%b{}", at)
  return call and (call:gsub("%s+", " "))
end

-- A call of the name in the docstring itself: "nn.Conv2d(in_channels, …)".
local function written_call(text, name)
  local last = name:match("([%w_]+)$")
  local from = 1
  while true do
    local at = text:find("%f[%w_][%w_.:]*%f[%w_]" .. parts.escape(last) .. "[%({]", from)
    if not at then return nil end
    local call = call_at(text, at)
    if call and call:match("^[%w_.:]+"):match("([%w_]+)$") == last then return call end
    from = at + 1
  end
end

local takes_table = {opts = true, given = true, o = true, options = true}

-- Parameters in a line of code: "function Module:train(on)" -> "on".
local function parameters(line)
  local list = (line or ""):match("function%s*[%w_.:]*%s*(%b())")
  return list and list:sub(2, -2):gsub("%.%.%.", "…")
end

-- A call of the name anywhere in the words, or that of the name they begin with: "capl.zeros(size, …), and so ones,
-- empty".
local function text_call(text, last)
  local own = text:match("%f[%w_][%w_]+[:.]" .. parts.escape(last) .. "(%b())")
  local first, words = text:match("^[%w_.:]+(%b())([^\n]*)")
  local named = first and words:match("%f[%w_]" .. parts.escape(last) .. "%f[^%w_]")
  return own and last .. own or named and last .. first
end

--- How a name is called: as its docstring writes it, else as its definition says. owner: "x" of a method of tensors.
function parts.signature(name, read, line, owner)
  local last = name:match("([%w_]+)$")
  local call = written_call(read.text:match("[^\n]*"), name)
    or written_call(table.concat(parts.with(read, "opts"), " "), name)
  local given = parameters(line)
  if not call and given then
    if owner and line:match("function [%w_]+%.") then given = given:gsub("^[%w_]+,?%s*", "") end -- methods.sum(x, dim)
    call = last .. (takes_table[given] and "{…}" or "(" .. given .. ")")
  end
  if not call then call = text_call(read.text, last) end
  if not call then return name end
  local arguments = call:match("([%({].*)$")
  return (owner and owner .. ":" .. last or name) .. arguments
end

--- The words without the call that they begin with, when the signature says it.
function parts.words(read, name)
  local last = parts.escape(name:match("([%w_]+)$"))
  local text = read.text
  local rest = text:match("^[%w_.:]*" .. last .. "%b():%s+(.*)$") or text:match("^[%w_.:]*" .. last .. "%b{}:%s+(.*)$")
    or text:match("^[%w_.:]*" .. last .. ":%s+(.*)$")
  return rest and (rest:gsub("^%l%l", function(two) return two:sub(1, 1):upper() .. two:sub(2) end):gsub("^a ", "A "))
    or text
end

--- The first sentence of the words.
function parts.summary(words)
  local line = words:gsub("\n", " ")
  return line:match("^(.-%.)%s") or line
end

return parts
