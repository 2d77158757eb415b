-- strict.lua: globals at the prompt: warns of names that were never set and of those that a function sets by accident.
--
-- A warning is a note: the line runs as Lua defines it. Each name is reported once.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local scope = require "repl.scope"
local term = require "repl.term"

local strict = {}

local warned, locals = {}, {}
local silent = {_ = true, _all = true}

local function nearest(name)
  local all = {}
  for key in next, core.sys.environment() do
    if type(key) == "string" then all[#all + 1] = key end
  end
  return core.nearest(name, all)
end

local function warn_once(name, text)
  if warned[name] then return end
  warned[name] = true
  term.warn(text)
end

local function on_read(_, name)
  if scope.own[name] ~= nil then return scope.own[name] end
  if type(name) ~= "string" or silent[name] then return nil end
  if locals[name] then
    warn_once(name, ("'%s' is nil here: a local ends with the line that it was written in; leave `local` off at the " ..
      "prompt"):format(name))
    return nil
  end
  local like = not warned[name] and nearest(name)
  warn_once(name, ("'%s' was never set%s"):format(name, like and ("; did you mean '%s'?"):format(like) or ""))
  return nil
end

-- Who sets a global: "main" for a line itself; what the library does for it (scope.lua) is left out.
local function setter()
  for level = 3, 8 do
    local what, chunk, line = core.sys.prompt.caller(level)
    if not chunk or not chunk:find("^capl:") then return what, chunk, line end
  end
end

local function on_set(environment, name, value)
  rawset(environment, name, value)
  warned[name] = nil
  local what, chunk, line = setter()
  if what == "Lua" and type(name) == "string" then
    warned[name] = true
    local text = "%s:%d: a function makes the global '%s'; write `local %s` if it is for that function alone"
    term.warn(text:format(chunk, line, name, name))
  end
end

--- Notes the names that text declares as locals of its own line.
function strict.note_locals(text)
  local list = text:match("^%s*local%s+([%w_%s,]+)")
  local one = text:match("^%s*local%s+function%s+([%w_]+)")
  if one then locals[one] = true return end
  for name in (list or ""):gmatch("[%a_][%w_]*") do locals[name] = true end
end

--- Leaves the globals as recipes know them.
function strict.stop()
  local environment = core.sys.environment()
  local meta = core.sys.metatable(environment)
  if meta and meta.__index == on_read then setmetatable(environment, nil) end
end

--- Begins to look at the globals, unless they are looked at already by a recipe of its own.
function strict.begin()
  local environment = core.sys.environment()
  if core.sys.metatable(environment) == nil then
    setmetatable(environment, {__index = on_read, __newindex = on_set})
  else -- a recipe has its own; the prompt's names go among its globals
    for name, value in pairs(scope.own) do
      if rawget(environment, name) == nil then rawset(environment, name, value) end
    end
  end
end

return strict
