-- members.lua: the names in a library or of an object, and what each of them is.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local blocks = require "docs.blocks"
local places = require "docs.places"
local readonly = require "readonly"

local own = readonly.own

local members = {}

--- The entries of a table, also of one that is sealed against recipes.
local function contents(t) return readonly.contents[t] or t end

members.contents = contents

--- Table of a library; of an object: nil where only its file lists its methods.
function members.table_of(place)
  if place.methods then
    require "init" -- which adds those that are written in Lua
    return place.methods
  end
  if not place.about or place.class then return nil end
  local value = require(place.module)
  return place.field and value[place.field] or value
end

local function is_class(value) return type(value) == "table" and own(value, "__module") == true end

local function is_callable(value)
  if type(value) == "function" or is_class(value) then return true end
  local meta = type(value) == "table" and core.sys.metatable(value)
  return type(meta) == "table" and meta.__call ~= nil
end

--- "function", "class", "table" or "value".
function members.kind(value)
  if is_class(value) then return "class" end
  if is_callable(value) then return "function" end
  return type(value) == "table" and "table" or "value"
end

-- Methods that a file defines: {name = line}.
local function defined_in(module, class)
  local out = {}
  for i, line in ipairs(blocks.of(module).lines) do
    local name = line:match("^%s*function " .. class .. "[.:]([%w_]+)%s*%(")
    if name and not out[name] then out[name] = i end
  end
  return out
end

local constructors = {new = true, init = true}

local function methods_of(place)
  local out = {}
  for _, module in ipairs(place.modules) do
    for name, line in pairs(defined_in(module, place.class)) do
      local shown = place.all or (place.only and (" " .. place.only .. " "):find(" " .. name .. " ", 1, true))
        or (not place.only and blocks.above(module, line, name))
      if places.is_public(name) and shown and not constructors[name] then out[#out + 1] = name end
    end
  end
  return out
end

local function keys_of(place, out)
  for name in next, contents(members.table_of(place)) do
    if places.is_public(name) then out[#out + 1] = name end
  end
  if place.name == "capl" then
    for name in pairs(require "lazy") do
      if own(members.table_of(place), name) == nil then out[#out + 1] = name end
    end
  end
  if place.name == "tensor" then
    for _, name in ipairs(places.properties) do out[#out + 1] = name end
  end
  return out
end

--- Sorted names in a library or of an object.
function members.of(place)
  local out = place.class and methods_of(place) or keys_of(place, {})
  table.sort(out)
  return out
end

--- Value of a name in a library; nil for none, and for objects.
function members.value(place, name)
  local owner = not place.class and members.table_of(place)
  if not owner then return nil end
  local value = own(owner, name)
  local later = value == nil and place.name == "capl" and require("lazy")[name]
  if not later then return value end
  value = require(later[1])
  if later[2] then value = value[later[2]] end
  return value
end

--- The module in whose file a class or another table with functions is made.
function members.home(class)
  for _, name in ipairs{"init", "_forward", "forward", "extra", "update", "new"} do
    local module = core.defined(own(class, name))
    if module then return module end
  end
end

--- How a member is written: "nn.Conv2d", "tensor:sum", "tensor.shape".
function members.written(place, name)
  local is_method = place.class or place.name == "tensor"
  for _, property in ipairs(places.properties) do
    if place.name == "tensor" and property == name then is_method = false end
  end
  return place.name .. (is_method and ":" or ".") .. name
end

return members
