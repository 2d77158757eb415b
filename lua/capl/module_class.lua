-- module_class.lua: classes of modules. An instance's metatable is its class; a class looks further in its parent.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local readonly = require "readonly"

local inherited = {"__call", "__tostring", "__newindex"} -- metamethods are not found through __index

local function construct(class, ...)
  local self = setmetatable({_entries = {}, _named = {}, training = true}, class)
  class.init(self, ...)
  return self
end

--- A new class of modules. name: for printing. parent: a class, nn.Module unless said.
-- Its init(self, …) gets the constructor's arguments; modules and tensors that require grad, assigned to fields
-- there, become children and parameters in that order.
-- eg  local Net = nn.class("Net")
-- eg  function Net:init() self.fc = nn.Linear(10, 2) end
-- eg  function Net:forward(x) return self.fc(x):relu() end
local function class(name, parent)
  if type(name) ~= "string" then check.arg(1, "class", "string", name) end
  local new = {__name = name, __module = true, __metatable = nil}
  if parent then
    if type(parent) ~= "table" or not parent.__module then check.arg(2, "class", "class", parent) end
    for _, key in ipairs(inherited) do new[key] = readonly.metamethod(parent, key) end
  end
  local lookup = parent and readonly.metamethod(parent, "__index")
  new.__index = new
  if type(lookup) == "function" then
    new.__index = function(self, key)
      local value = new[key]
      if value ~= nil then return value end
      return lookup(self, key)
    end
  end
  return setmetatable(new, {__index = parent, __call = construct})
end

--- Whether value is a module (an instance, not a class).
-- eg   nn.is_module(nn.ReLU())  --> true
local function is_module(value)
  if type(value) ~= "table" then return false end
  local meta = getmetatable(value)
  return type(meta) == "table" and readonly.own(meta, "__module") == true
end

core.is_module = is_module
return {class = class, is_module = is_module,
  owners = setmetatable({}, {__mode = "kv"})} -- parameter -> the module it was first assigned to
