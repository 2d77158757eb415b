-- complete.lua: what can follow at the prompt: names, fields, methods, names of options inside {…}, files inside
-- strings.
--
-- Looks without running code (names.lua). Option names come from the docstring of the function that the {…} is for.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local names = require "repl.names"
local term = require "repl.term"

local complete = {}

local keywords = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true " ..
  "until while"):gmatch("%a+") do
  keywords[word] = "keyword"
end

local MOST_SHOWN = 300

-- ---- where the cursor is ----

-- Walks over text: open = list of the brackets that are open, each {sign, position}; quote, start = of the string that
-- is open, if one is.
local function scan(text)
  local open, at = {}, 1
  while at <= #text do
    local c = text:sub(at, at)
    local long = text:match("^%[(=*)%[", at)
    if text:find("^%-%-", at) then
      local level = text:match("^%-%-%[(=*)%[", at)
      local _, stop = text:find(level and "]" .. level .. "]" or "\n", at, true)
      if not stop then return open, "comment" end
      at = stop + 1
    elseif long then
      local _, stop = text:find("]" .. long .. "]", at, true)
      if not stop then return open, "long" end
      at = stop + 1
    elseif c == '"' or c == "'" then
      local stop = at + 1
      while stop <= #text and text:sub(stop, stop) ~= c do stop = stop + (text:sub(stop, stop) == "\\" and 2 or 1) end
      if stop > #text then return open, c, at + 1 end
      at = stop + 1
    else
      if c == "(" or c == "{" or c == "[" then open[#open + 1] = {c, at} end
      if c == ")" or c == "}" or c == "]" then open[#open] = nil end
      at = at + 1
    end
  end
  return open
end

-- ---- candidates ----

local function common_start(list)
  local start = list[1]
  for i = 2, #list do
    while list[i]:sub(1, #start) ~= start do start = start:sub(1, -2) end
  end
  return start
end

-- Of names = {name = what to add when it is the only one}, those that begin with start.
local function answer(start, found)
  local list = {}
  for name in pairs(found) do
    if name:sub(1, #start) == start then list[#list + 1] = name end
  end
  if #list == 0 then return "" end
  table.sort(list)
  local insert = common_start(list):sub(#start + 1)
  while insert:find("[\128-\191]$") and #list > 1 do insert = insert:sub(1, -2) end -- no half characters
  if insert:find("[\194-\244]$") then insert = insert:sub(1, -2) end
  if #list == 1 then return insert .. found[list[1]] end
  if insert ~= "" then return insert end
  local _, columns = term.size()
  local more = #list - MOST_SHOWN
  for i = #list, MOST_SHOWN + 1, -1 do list[i] = nil end
  for i, name in ipairs(list) do list[i] = term.plain(name) end
  return "", names.columns(list, columns) .. (more > 0 and ("\n%s %d more"):format(term.dots(), more) or "")
end

local function endings(kinds)
  for name, kind in pairs(kinds) do kinds[name] = kind == "function" and "(" or "" end
  return kinds
end

local function complete_member(head, separator, last)
  local owner = names.at(head)
  if owner == nil then return "" end
  local kinds = names.fields(owner)
  if separator == ":" then
    for name, kind in pairs(kinds) do
      if kind ~= "function" then kinds[name] = nil end
    end
  end
  return answer(last, endings(kinds))
end

local function complete_global(last)
  local kinds = endings(names.globals())
  for name in pairs(keywords) do kinds[name] = "" end
  return answer(last, kinds)
end

-- ---- options ----

-- {name = true} of the options of a function, from its docstring or, for what the prompt alone has, from its page.
local function options_of(name)
  local out = {}
  local own = require("repl.globals").doc(name)
  local known = not own and require("docs.index").of(name)
  for _, option in ipairs(known and known.options or {}) do out[option.name] = true end
  for list in (own or ""):match("^[^\n]*"):gmatch("{([%w_, ]+)}") do
    for option in list:gmatch("[%w_]+") do out[option] = true end
  end
  return out
end

-- Name of the function whose {…} the cursor is in, nil elsewhere: "nn.Conv2d{", "data.loader({", "model:fit{".
local function function_before(text, open)
  local brace = open[#open]
  if not brace or brace[1] ~= "{" then return nil end
  local before = text:sub(1, brace[2] - 1)
  local name = before:match("([%a_][%w_.:]*)%s*$")
  local bracket = open[#open - 1]
  if not name and bracket and bracket[1] == "(" then name = text:sub(1, bracket[2] - 1):match("([%a_][%w_.:]*)%s*$") end
  return name and not keywords[name] and name or nil
end

-- Options come first and alone where some fit: inside {…} a name is one of them nearly always.
local function complete_option(text, open, last)
  if not text:sub(1, #text - #last):find("[{,]%s*$") then return nil end
  local name = function_before(text, open)
  if not name then return nil end
  local found, any = {}, false
  for option in pairs(options_of(name)) do
    found[option] = " = "
    any = any or option:sub(1, #last) == last
  end
  if any then return answer(last, found) end
end

-- ---- files ----

local function complete_file(typed, quote)
  local folder, last = typed:match("^(.*/)([^/]*)$")
  folder, last = folder or "", last or typed
  local place = folder == "" and "." or folder
  if place:sub(1, 2) == "~/" and core.sys.getenv("HOME") then place = core.sys.getenv("HOME") .. place:sub(2) end
  local fine, list = pcall(core.sys.list, place)
  if not fine or type(list) ~= "table" then return "" end
  local found = {}
  for _, name in ipairs(list) do
    local hidden = name:sub(1, 1) == "." and last:sub(1, 1) ~= "."
    local writable = not name:find("[%c\\\"']") -- others would need signs of their own
    if not hidden and writable then
      local is_folder = core.sys.kind((place == "." and "" or place) .. name) == "folder"
      found[name] = is_folder and "/" or quote
    end
  end
  return answer(last, found)
end

-- ---- all ----

--- text to insert behind text, and a list to show (nil = none)
function complete.text(text)
  local page = text:match("^%s*%?%s*([%w_.:]*)$")
  local open, quote, start = scan(text)
  if quote == "comment" or quote == "long" then return "" end
  if quote then return complete_file(text:sub(start), quote) end
  local word = page or text:match("[%w_.:%[%]]*$"):match("[%a_][%w_]*[%w_.:]*$") or text:match("[%w_]*$")
  local indexed = not page and text:match("([%a_][%w_.:]*%[%d+%][%w_.:%[%]]*)$")
  if indexed then word = indexed:gsub("%[(%d+)%]", ".[%1]") end
  local head, separator, last = word:match("^(.*)([.:])([%w_]*)$")
  if head and head ~= "" then return complete_member(head, separator, last) end
  if text:find("[%w_%)%]\"'][.:][%w_]*$") then return "" end -- of a value that is not known before it is computed
  local insert, list = complete_option(text, open, word)
  if insert then return insert, list end
  return complete_global(word)
end

return complete
