-- options.lua: the options that a function takes in a table: names, types, defaults, and what its docstring says of
-- them.
--
-- Names and types come from what the function itself reads its options with, as it stands in its file; so no list can
-- name an option that is not there.
-- SPDX-License-Identifier: Apache-2.0
local blocks = require "docs.blocks"
local parts = require "docs.parts"

local options = {}

local function is_for(written, name)
  return written == name or written == name:match("([%w_]+)$") or written == name:match("([%w_]+%.[%w_]+)$")
end

-- The list behind "local spec = " or in the call itself.
local function list_of(text, from)
  local word = text:match("^%s*([%w_.]+)", from)
  if not word then return text:match("^%s*(%b{})", from) end
  return text:match("%f[%w_]" .. parts.escape(word) .. "%s*=%s*(%b{})")
end

-- The list that a function's arguments or options are read with, by the name that its messages say.
local function find_list(text, name)
  local said = text:match('local OP = "([%w_.]+)"')
  for at, op, behind in text:gmatch('check%.[argumentops]+%(()([%w_." ]+),()') do
    local written = op:match('^"(.-)"$') or (op == "OP" and said) or (op:match("%.%. name$") and name)
      or (op:match("__name$") and name)
    if written and is_for(written, name) then
      local list = text:sub(at):match("^[^,]+,%s*opts,%s*(%b{})") or list_of(text, behind)
      if list then return list end
    end
  end
  local last = name:match("([%w_]+)$")
  return text:match('elementwise%("' .. parts.escape(last) .. '", "[%w_]+", (%b{})')
end

-- {"kernel_size", "whole", "table", default = 3} -> {name, types, default, required}
local function read_entry(text)
  local body = text:sub(2, -2)
  local name = body:match('^"([%w_]+)"')
  if not name then return nil end
  local types = {}
  for word in body:gsub("default%s*=.*$", ""):gmatch('"([%w_]+)"') do types[#types + 1] = word end
  table.remove(types, 1)
  local default = body:match("default%s*=%s*(%b{})") or body:match('default%s*=%s*("[^"]*")')
    or body:match("default%s*=%s*([^,}]+)")
  return {name = name, types = types, default = default, required = body:match("required%s*=%s*true") ~= nil}
end

local function read_list(list)
  local out = {}
  for text in list:sub(2, -2):gmatch("%b{}") do out[#out + 1] = read_entry(text) end
  if #out == 0 then
    for name in list:gmatch('"([%w_]+)"') do out[#out + 1] = {name = name, types = {}} end
  end
  return out
end

-- What the docstring says behind a name, up to the next option.
local function meaning(text, name)
  local at = text:find("%f[%w_]" .. parts.escape(name) .. "%f[^%w_]%s*[=:(]")
    or text:find("%f[%w_]" .. parts.escape(name) .. "%f[^%w_]")
  if not at then return nil end
  local rest = text:sub(at):gsub("%s+", " ")
  local depth = 0
  for i = 1, #rest do
    local c = rest:sub(i, i)
    if c:match("[%({%[]") then depth = depth + 1 elseif c:match("[%)}%]]") then depth = depth - 1 end
    if depth < 0 or (depth == 0 and (c == ";" or (c == "," and rest:match("^, [%w_]+ ?[=:(]", i)))) then
      return rest:sub(1, i - 1)
    end
  end
  return rest
end

-- "lr = 1e-3, betas = {0.9, 0.999}" of a docstring.
local function read_words(text)
  local out, known = {}, {}
  for name, value in text:gmatch("%f[%w_]([%a_][%w_]*) = ([^,;)]*)") do
    if not known[name] then
      known[name] = true
      out[#out + 1] = {name = name, types = {}, default = value:match('^"[^"]*"') or value:match("^[%w_.+-]+")}
    end
  end
  return out
end

-- 0.01 as it is, lists as they are written.
local function written(value)
  if type(value) ~= "table" then
    return type(value) == "string" and ('"%s"'):format(value) or (tostring(value):gsub("e([+-])0", "e%1"))
  end
  local out = {}
  for i, v in ipairs(value) do out[i] = written(v) end
  return "{" .. table.concat(out, ", ") .. "}"
end

--- "(a, b, {c = 1})": a call with these options, for classes whose docstring shows none.
function options.call(list)
  local needed, named = {}, {}
  for _, option in ipairs(list) do
    local to = option.required and needed or named
    to[#to + 1] = option.required and option.name or option.name .. (option.default and " = " .. option.default or "")
  end
  if #named > 0 then needed[#needed + 1] = "{" .. table.concat(named, ", ") .. "}" end
  return "(" .. table.concat(needed, ", ") .. ")"
end

--- The same from the list of a class that keeps it.
function options.of_spec(spec, words)
  local out = {}
  for i, entry in ipairs(spec) do
    out[i] = {name = entry[1], types = {unpack(entry, 2)}, required = entry.required,
      default = entry.default ~= nil and written(entry.default) or nil, text = meaning(words, entry[1])}
  end
  return out
end

--- The options of a function: list of {name, types, default (as it is written), required, text}.
-- in   name; module of its file, nil: unknown; words: the opts part of its docstring
function options.of(name, module, words)
  local text = module and table.concat(blocks.of(module).lines, "\n") or ""
  local list = find_list(text, name)
  local out = list and read_list(list) or {}
  if #out == 0 then out = read_words(words) end
  for _, option in ipairs(out) do option.text = meaning(words, option.name) end
  return out
end

return options
