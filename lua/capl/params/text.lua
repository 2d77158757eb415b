-- text.lua: the settings of a recipe as its text has them, without running it: names, defaults, choices, presets; for completion.
--
-- What is computed there is not known here; a name that is missed is only not offered.
-- SPDX-License-Identifier: Apache-2.0
local docs = require "params.docs"

local text_of = {}

-- Strings and comments as blanks of the same length, so that braces and commas in them count for nothing.
local function masked(text)
  local function blank(s) return (s:gsub("[^\n]", " ")) end
  text = text:gsub("\\.", "  "):gsub('"[^"\n]*"', blank):gsub("'[^'\n]*'", blank)
  return (text:gsub("%-%-[^\n]*", blank))
end

-- The fields of a table constructor, outermost level only: function(key, value) for each; value as it is written.
local function each_field(body, call)
  local mask = masked(body)
  local depth, from = 0, 1
  for i = 1, #mask + 1 do
    local c = mask:sub(i, i)
    if c == "{" or c == "(" then depth = depth + 1
    elseif c == "}" or c == ")" then depth = depth - 1 end
    if depth == 0 and (c == "," or c == ";" or c == "") then
      local key, at = mask:sub(from, i - 1):match("^%s*([%a_][%w_]*)%s*=%s*()")
      if key then call(key, (body:sub(from + at - 1, i - 1):match("^(.-)%s*$"))) end
      from = i + 1
    end
  end
end

local function words_in(list)
  local out = {}
  for _, quoted, bare in list:gmatch("(['\"]?)([^'\",{}]+)%1()") do
    local word = quoted:match("^%s*(.-)%s*$")
    if bare and word ~= "" then out[#out + 1] = word end
  end
  return out
end

-- A default as a type of value: {choices = …} or {flag = true} or {}.
local function kind_of(value)
  local list = value:match("^capl%.choice%s*(%b{})") or value:match("^capl%.choice%s*%(%s*(%b{})")
  if list then return {choices = words_in(list)} end
  return {flag = value == "true" or value == "false" or nil}
end

--- The settings in a recipe's text: {{key, default = as written, doc, choices, flag}}, names of presets.
function text_of.settings(text)
  local mask = masked(text)
  local from, to = mask:match("capl%.params%s*%(?%s*()%b{}()")
  local settings, presets = {}, {}
  if not from then return settings, presets end
  local about = docs.settings(text)
  each_field(text:sub(from + 1, to - 2), function(key, value)
    if key == "presets" then
      each_field(value:match("^{(.*)}$") or "", function(name) presets[#presets + 1] = name end)
      return
    end
    local setting = kind_of(value)
    setting.key, setting.default, setting.doc = key, value, about[key]
    settings[#settings + 1] = setting
  end)
  return settings, presets
end

return text_of
