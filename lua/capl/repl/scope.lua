-- scope.lua: the names that a line at the prompt sees: the locals of a frame somebody looks at, globals, the prompt's
-- own.
--
-- A frame is {get(self, name) -> found, value; set(self, name, value) -> done; names(self) -> list}. Without one, lines
-- are loaded into the environment of recipes as it is.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local scope = {
  own = {}, -- names of the prompt itself, behind all others
}

local frame -- the one whose names are in effect

local function lookup(_, name)
  if type(name) == "string" then
    local found, value = frame:get(name)
    if found then return value end
  end
  local globals = core.sys.environment()
  local value = rawget(globals, name)
  if value == nil then value = scope.own[name] end
  if value == nil then return globals[name] end
  return value
end

local function assign(_, name, value)
  if type(name) == "string" and frame:set(name, value) then return end
  core.sys.environment()[name] = value
end

local names = setmetatable({}, {__index = lookup, __newindex = assign, __metatable = false})

--- A name of the prompt's own.
function scope.add(name, value) scope.own[name] = value end

--- Lets the names of a frame be in effect; nil: of none.
function scope.use(of) frame = of end

--- The environment in which a line is loaded.
function scope.environment() return frame and names or core.sys.environment() end

--- What a name means, without running anything of a recipe: for TAB.
function scope.get(name)
  if frame then
    local found, value = frame:get(name)
    if found then return value end
  end
  local value = rawget(core.sys.environment(), name)
  if value == nil and frame then value = scope.own[name] end
  return value
end

--- Calls each(name, value) for all names of the frame in effect, and of the prompt's own beside it.
function scope.each(each)
  if not frame then return end
  for name, value in pairs(scope.own) do each(name, value) end
  for _, name in ipairs(frame:names()) do
    local _, value = frame:get(name)
    each(name, value)
  end
end

return scope
