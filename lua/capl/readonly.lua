-- readonly.lua: library tables that recipes read but cannot change, at every depth, and classes that they cannot get
-- hold of.
--
-- A table is sealed where it is: what it holds moves behind it (contents), and it stays empty itself, with a metatable
-- that reads there and refuses writes. So it remains the same value for everybody, and to the library nothing changes.
-- The pairs, next and rawget of recipes see through it.
--
-- A class is a table that is the __index of its objects. Its objects would lead to it (object.__index, getmetatable),
-- and whoever changes a class changes what the library itself calls. So the first setmetatable of the library with a
-- class makes another table for its objects (metas), which has the metamethods and leads nowhere: what getmetatable
-- says is the class to the library, and to recipes when it is one of those that they may read.
-- Classes that a recipe makes with nn.class are its own and stay open.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local getmetatable, setmetatable, next, rawequal, rawget, rawset, type = getmetatable, setmetatable, next, rawequal,
  rawget, rawset, type
local insert, remove, sort = table.insert, table.remove, table.sort

local readonly = {}

local weak = {__mode = "k"}
local contents = setmetatable({}, weak) -- sealed table or class -> where its entries are
local metas = setmetatable({}, weak) -- class -> metatable of its objects
local sealed = setmetatable({}, weak) -- tables that recipes may read -> true
local open = setmetatable({}, weak) -- classes and metatables of recipes -> true

readonly.contents = contents
readonly.is_library = setmetatable({}, weak) -- tables with a metatable of their own that are no objects (missing.lua)

local function is_metamethod(key) return type(key) == "string" and key:sub(1, 2) == "__" end

-- ---- classes ----

-- The entries of t go behind it. Metamethods stay in a class too: objects made before have it as their metatable.
local function empty(t, is_class)
  local behind, former = {}, getmetatable(t)
  for key, value in next, t do
    if not is_class or not rawequal(value, t) then behind[key] = value end
  end
  for key in next, behind do
    if not is_class or not is_metamethod(key) then t[key] = nil end
  end
  contents[t] = behind
  local meta = {__index = behind}
  for key, value in next, former or {} do
    if key ~= "__index" and key ~= "__newindex" then meta[key] = value end
  end
  local further = former and former.__index
  if further then setmetatable(behind, {__index = type(further) == "table" and contents[further] or further}) end
  setmetatable(t, meta)
  return behind, meta
end

local function is_class(t) return metas[t] ~= nil or rawget(t, "__index") ~= nil end

-- Prepares a class and those it comes from: -> the metatable of its objects.
local function prepare(class)
  local parent = getmetatable(class) and getmetatable(class).__index
  if type(parent) == "table" and not metas[parent] and is_class(parent) then prepare(parent) end
  local behind, meta = empty(class, true)
  local of_objects = {__metatable = class}
  for key, value in next, class do of_objects[key] = value end
  if rawget(class, "__index") == class then class.__index, of_objects.__index = behind, behind end
  function meta.__newindex(_, key, value)
    if is_metamethod(key) then
      rawset(class, key, value)
      of_objects[key] = value
    end
    behind[key] = value
  end
  metas[class] = of_objects
  return of_objects
end

--- The library's setmetatable.
function readonly.setmetatable(t, meta)
  if meta == nil then return setmetatable(t, meta) end
  local of_objects = metas[meta]
  if not of_objects and not open[meta] and rawget(meta, "__index") == meta then of_objects = prepare(meta) end
  -- an object that changes its class
  if getmetatable(t) ~= nil then return core.set_metatable(t, of_objects or meta) end
  return setmetatable(t, of_objects or meta)
end

--- What a table itself has under key, also when it is sealed.
function readonly.own(t, key)
  local value = rawget(t, key)
  if value == nil and contents[t] then return rawget(contents[t], key) end
  return value
end

--- A metamethod of a class.
function readonly.metamethod(class, key)
  local of_objects = metas[class]
  return rawget(of_objects or class, key)
end

--- A class that is a recipe's own from now on.
function readonly.leave_open(class)
  open[class] = true
  return class
end

--- Whether a class is a recipe's own.
function readonly.is_open(class) return open[class] == true end

-- ---- tables that recipes read ----

local function refuse(_, key)
  core.error{code = "value", message = ("library tables are read-only: '%s' cannot be set"):format(
    type(key) == "string" and key or type(key)), hint = "keep your own values in local variables or tables of your own"}
end

-- Lists cannot be read through another table: recipes get one of their own.
local function copy(list, seen)
  if seen[list] then return seen[list] end
  local out = {}
  seen[list] = out
  for key, value in next, list do
    out[key] = type(value) == "table" and not getmetatable(value) and copy(value, seen) or value
  end
  return out
end

local kept = setmetatable({}, weak) -- tables of core, which the library calls through without a detour

-- What recipes are given for value.
local function given(value)
  if type(value) ~= "table" or sealed[value] then return value end
  local meta = getmetatable(value)
  if rawget(value, 1) ~= nil and meta == nil then return copy(value, {}) end
  if kept[value] then
    local out = {}
    for key, entry in next, value do out[key] = entry end
    return readonly.public(setmetatable(out, meta))
  end
  local object = meta and not is_class(value) and (metas[meta] or type(rawget(meta, "__index")) == "function")
  return object and not readonly.is_library[value] and value or readonly.public(value)
end

--- Seals a table that recipes may read, with all below it -> the same table.
function readonly.public(t)
  if sealed[t] then return t end
  sealed[t] = true
  local class = is_class(t)
  if class and not metas[t] then prepare(t) end
  if not contents[t] then empty(t, class) end
  for key in next, t do t[key] = nil end
  local meta = getmetatable(t)
  meta.__newindex, meta.__metatable = refuse, false
  local behind = contents[t]
  for key, value in next, behind do behind[key] = given(value) end
  return t
end

local ready = false -- there is an environment of recipes
local globals, load_parts -- that environment, and what loads those of its parts that were not used yet

--- Recipes may look through t: if it is their environment, all its parts are loaded.
function readonly.whole(t)
  if globals == nil or not rawequal(t, globals) then return end
  globals = nil
  load_parts()
end

--- The environment is made: core's own tables are left as they are, all else that is asked for is sealed.
function readonly.begin(environment, load)
  ready, globals, load_parts = true, environment, load
  local function keep(t)
    if kept[t] then return end
    kept[t] = true
    for _, value in next, t do
      if type(value) == "table" then keep(value) end
    end
  end
  keep(core)
end

--- For what is loaded when first asked for -> what a recipe gets.
function readonly.late(value)
  if not ready then return value end
  return given(value)
end

-- ---- functions of recipes ----

local own = {}
readonly.functions = own

function own.setmetatable(t, meta)
  readonly.whole(t)
  if type(meta) == "table" and not metas[meta] and not contents[meta] then open[meta] = true end
  return setmetatable(t, meta)
end

--- Metatables that are the recipe's own, and classes that it may read; false for others of the library.
function own.getmetatable(value)
  if type(value) ~= "table" then return nil end
  readonly.whole(value)
  local meta = getmetatable(value)
  if type(meta) ~= "table" or open[meta] or sealed[meta] then return meta end
  return false
end

function own.rawget(t, key)
  readonly.whole(t)
  local behind = contents[t]
  return rawget(behind or t, key)
end

local function writable(t, key)
  if t ~= nil and contents[t] then refuse(t, key) end
  return t
end

function own.insert(t, ...) return insert(writable(t, "a list"), ...) end
function own.remove(t, ...) return remove(writable(t, "a list"), ...) end
function own.sort(t, ...) return sort(writable(t, "a list"), ...) end

return readonly
