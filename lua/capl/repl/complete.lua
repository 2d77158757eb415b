-- complete.lua: names that can follow at the prompt. Looks without running code: __index functions are not called.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local scope = require "repl.scope"

local complete = {}

local keywords = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true " ..
  "until while"):gmatch("%a+") do
  keywords[word] = "keyword"
end

--- Calls each(table) for a value and the tables behind it.
local function behind(value, each)
  for _ = 1, 10 do
    if type(value) == "table" then each(value) end
    local meta = core.sys.metatable(value)
    if type(meta) ~= "table" then
      if type(value) == "string" then return each(string) end
      return
    end
    value = rawget(meta, "__index")
    if type(value) ~= "table" then return end
  end
end

local function field(value, name)
  local found
  behind(value, function(t)
    if found == nil then found = rawget(t, name) end
  end)
  return found
end

local function owner_of(path)
  local value
  for name in path:gmatch("[^.:]+") do
    if value == nil then value = scope.get(name) else value = field(value, name) end
    if value == nil then return nil end
  end
  return value
end

local function candidates(word)
  local head, separator, last = word:match("^(.*)([.:])([%w_]*)$")
  local names = {}
  local owner = core.sys.environment()
  if head then
    owner = owner_of(head)
    if owner == nil then return {}, last, names end
  else
    last = word
    for name, kind in pairs(keywords) do names[name] = kind end
    scope.each(function(name, value) names[name] = type(value) end)
  end
  behind(owner, function(t)
    for key, value in next, t do
      if type(key) == "string" and key:match("^%a[%w_]*$") then names[key] = type(value) end
    end
  end)
  local out = {}
  for name, kind in pairs(names) do
    if name:sub(1, #last) == last and (separator ~= ":" or kind == "function") then out[#out + 1] = name end
  end
  table.sort(out)
  return out, last, names
end

local function common_start(list)
  local start = list[1]
  for i = 2, #list do
    while list[i]:sub(1, #start) ~= start do start = start:sub(1, -2) end
  end
  return start
end

--- text to insert after word, and a list to show (nil = none)
function complete.word(word)
  local list, last, kinds = candidates(word)
  if #list == 0 then return "" end
  local insert = common_start(list):sub(#last + 1)
  if #list == 1 and kinds[list[1]] == "function" then insert = insert .. "(" end
  if #list > 1 and insert == "" then return "", table.concat(list, "  ") end
  return insert
end

return complete
