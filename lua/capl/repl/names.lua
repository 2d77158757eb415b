-- names.lua: what values have and what they are called: fields behind read-only tables, names of library functions.
--
-- Looks without running code: __index functions are not called. What a library table shows is asked of C.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local scope = require "repl.scope"
local session = require "repl.session"
local sorted_keys = require "sorted_keys"
local term = require "repl.term"

local contents = require("readonly").contents -- of tables that are read-only for recipes

local names = {}

local DEEPEST = 12

local libraries = {"capl", "nn", "optim", "data", "augment", "plot", "train", "string", "table", "math", "bit",
  "coroutine"}

-- ---- fields ----

local properties = {"shape", "dtype", "device", "ndim", "grad", "requires_grad", "is_leaf"} -- of tensors

-- The table that value looks further in, or nil.
local function next_behind(value)
  local meta = core.sys.metatable(value)
  if type(meta) ~= "table" then return nil end
  local behind = rawget(meta, "__index")
  -- an object whose class looks in more places: what is known is the class (readonly.lua)
  if type(behind) == "function" then
    local class = rawget(meta, "__metatable")
    return type(class) == "table" and class or rawget(meta, "__module") and meta or nil
  end
  return type(behind) == "table" and behind or nil
end

--- Calls each(table) for a value and the tables behind it.
function names.behind(value, each)
  if core.is_tensor(value) then return each(core.tensor_methods) end
  if type(value) == "string" then return each(string) end
  for _ = 1, DEEPEST do
    if type(value) == "table" then each(value) end
    value = next_behind(value)
    if value == nil then return end
  end
end

--- value.name as far as it can be seen without running code.
function names.field(value, name)
  local found
  names.behind(value, function(t)
    if found == nil then found = rawget(t, name) end
  end)
  return found
end

--- {name = kind of value} of all that follows `value.`
function names.fields(value)
  local out = {}
  names.behind(value, function(t)
    for key, member in next, t do
      if type(key) == "string" and key:match("^%a[%w_]*$") and out[key] == nil then out[key] = type(member) end
    end
  end)
  if core.is_tensor(value) then
    for _, name in ipairs(properties) do out[name] = "value" end
  end
  local globals = core.sys.environment()
  if rawequal(value, rawget(globals, "capl")) then -- what is loaded when first asked for
    for name in pairs(require "lazy") do out[name] = out[name] or type(rawget(globals, name) or names.fields) end
  end
  return out
end

--- What a name means by itself: a local of the function looked at, a global, one of the prompt's own.
function names.global(name)
  local value = scope.get(name)
  if value == nil then return scope.own[name] end
  return value
end

--- {name = kind of value} of all that means something by itself.
function names.globals()
  local out = names.fields(core.sys.environment())
  for name, value in pairs(scope.own) do out[name] = out[name] or type(value) end
  scope.each(function(name, value) out[name] = type(value) end)
  return out
end

--- The value that a path like "model.fc.weight" leads to, from the globals on; nil without one.
function names.at(path)
  local value
  for name in path:gmatch("[^.:]+") do
    local index = name:match("^%[(%d+)%]$")
    if value == nil then
      value = names.global(name)
    elseif index and core.is_module(value) then
      value = value:children()[tonumber(index)]
    else
      value = names.field(value, index and tonumber(index) or name)
    end
    if value == nil then return nil end
  end
  return value
end

-- ---- what things are called ----

local called -- function or table -> "nn.Conv2d"

local function note(path, value, depth)
  local kind = type(value)
  if (kind ~= "function" and kind ~= "table") or called[value] then return end
  called[value] = path
  if kind ~= "table" or depth == 0 then return end
  names.behind(value, function(t)
    if rawequal(t, value) or not called[t] then called[t] = called[t] or path end
    for key, member in next, t do
      if type(key) == "string" and key:match("^%a[%w_]*$") then note(path .. "." .. key, member, depth - 1) end
    end
  end)
end

local function table_of_names()
  if called then return called end
  called = setmetatable({}, {__mode = "k"})
  local environment = core.sys.environment()
  for _, name in ipairs(libraries) do called[rawget(environment, name) or false] = name end
  for _, name in ipairs(libraries) do
    local library = rawget(environment, name)
    called[library or false] = nil
    note(name, library, 2)
  end
  for key, value in next, environment do
    if type(value) == "function" and not called[value] and session.was_there(key, value) then called[value] = key end
  end
  for name, value in pairs(scope.own) do called[value] = name end
  for key, value in next, core.tensor_methods do
    if not called[value] then called[value] = "tensor:" .. key end
  end
  return called
end

--- Name of a library's function or table, nil for others.
function names.of(value) return table_of_names()[value] end

--- Whether value is one of the tables of the library, like nn.
function names.is_library(value)
  local environment = core.sys.environment()
  for _, name in ipairs(libraries) do
    if rawequal(rawget(environment, name), value) then return true end
  end
  return contents[value] ~= nil
end

-- ---- texts ----

-- Widths of the columns when list is written in so many lines, and what they take with two spaces between them.
local function widths_of(list, lines)
  local widths, all = {}, -2
  for i, name in ipairs(list) do
    local column = math.ceil(i / lines)
    widths[column] = math.max(widths[column] or 0, term.width(name))
  end
  for _, width in ipairs(widths) do all = all + width + 2 end
  return widths, all
end

--- names in columns that fill the terminal's width, sorted downwards, as `ls` has them
function names.columns(list, width)
  local lines = 1
  local widths, all = widths_of(list, lines)
  while all > width and lines < #list do
    lines = lines + 1
    widths, all = widths_of(list, lines)
  end
  local out = {}
  for row = 1, lines do
    local parts = {}
    for i = row, #list, lines do
      local last = i + lines > #list
      parts[#parts + 1] = last and list[i]
        or list[i] .. (" "):rep(widths[math.ceil(i / lines)] - term.width(list[i]) + 2)
    end
    out[row] = table.concat(parts)
  end
  return table.concat(out, "\n")
end

--- What the prompt prints for a table of the library: the names in it.
function names.library_text(value)
  local list = sorted_keys(names.fields(value))
  local _, columns = term.size()
  local own = names.of(value) or "library"
  return term.paint("head", own) .. term.paint("dim", (": %d names; ?%s.NAME explains one"):format(#list, own))
    .. "\n" ..
    names.columns(list, columns)
end

--- What the prompt prints for a function: its name or where it was written, and its parameters.
function names.function_text(value)
  local name = names.of(value)
  if name then
    return term.paint("kind", "function ") .. name
      .. term.paint("dim", "  (?" .. name:gsub("^tensor:", "") .. " explains it)")
  end
  local parameters, chunk, line = core.sys.prompt.parameters(value)
  if not parameters then return term.paint("kind", "function") .. " of C" end
  for i, parameter in ipairs(parameters) do
    if parameter:find("^%(") then parameters[i] = "?" end
  end
  return term.paint("kind", "function") .. ("(%s)"):format(table.concat(parameters, ", ")) ..
    term.paint("dim", "  " .. term.plain(chunk:match("([^/]*)$")) .. ":" .. line)
end

return names
