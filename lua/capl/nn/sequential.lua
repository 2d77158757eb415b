-- sequential.lua: layers one after the other, and which of them are joined into a fused op.
--
-- BatchNorm2d, ReLU, MaxPool2d(2) in a row run as bn_act_pool, BatchNorm2d and ReLU as bn_act: the same numbers,
-- one pass over memory instead of three; BatchNorm2d and SiLU, too (engine/bind/core/peephole.c). Linear and ReLU run
-- as linear_act. capl.fuse(false) switches it off.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local classes = require "module_class"
local readonly = require "readonly"
local Module = require "nn.module"
local BatchNorm = require "nn.batchnorm"
local Linear = require "nn.linear"
local activation = require "nn.activation"
local pooling = require "nn.pooling"

local is_module = classes.is_module

--- Layers one after the other.
-- in   nn.Sequential{layer, …} or nn.Sequential(layer, …); children are named "0", "1", … as in PyTorch
-- eg   nn.Sequential{nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)}(capl.zeros(3, 4)):size(2)  --> 2
local Sequential = classes.class("Sequential", Module)

function Sequential:init(...)
  rawset(self, "_layers", {})
  local first = ...
  local layers = select("#", ...) == 1 and not is_module(first) and check.arg(1, "Sequential", "table", first) or {...}
  for _, layer in ipairs(check.list("nn.Sequential", layers)) do self:add(layer) end
end

--- Appends a layer; returns the Sequential.
function Sequential:add(layer)
  local layers = self._layers
  if not is_module(layer) then
    check.fail("nn.Sequential", ("layer %d is a %s, not a module"):format(#layers + 1, core.typename(layer)),
      type(layer) == "table" and readonly.own(layer, "__module") and ("call the class: nn.%s()"):format(layer.__name)
      or nil)
  end
  layers[#layers + 1] = layer
  rawset(self, "_pure", nil)
  self:add_module(tostring(#layers - 1), layer)
  return self
end

-- seq[1] is the first layer.
Sequential.__index = function(self, key)
  if type(key) == "number" then
    local layers = rawget(self, "_layers")
    return layers and layers[key < 0 and #layers + 1 + key or key]
  end
  return Sequential[key]
end

--- Number of layers.
function Sequential:count() return #self._layers end

local function is_plain_pool(layer)
  return getmetatable(layer) == pooling.MaxPool2d and layer:is_two_by_two()
end

-- The fused op that covers the layers from i on, and how many they are; nil for none.
local function fusable(layers, i)
  local class = getmetatable(layers[i])
  if not observer.fuse or (class ~= BatchNorm.BatchNorm2d and class ~= Linear) then return nil end
  if not layers[i + 1] or getmetatable(layers[i + 1]) ~= activation.ReLU then return nil end
  if class == Linear and observer.watch then return nil end -- who looks at layers one by one sees both
  if class == Linear then return "linear_act", 2 end
  if layers[i + 2] and is_plain_pool(layers[i + 2]) then return "bn_act_pool", 3 end
  return "bn_act", 2
end

-- Layers of ours neither keep their input nor their output.
local function is_pure(layer)
  local class = getmetatable(layer)
  if class ~= Sequential then return readonly.own(class, "pure") or false end
  if layer._pure == nil then
    local pure = true
    for _, child in ipairs(layer._layers) do pure = pure and is_pure(child) end
    rawset(layer, "_pure", pure)
  end
  return layer._pure
end

-- A tensor between two layers of ours is released as soon as the second has run, instead of when Lua collects;
-- what the backward pass needs, the tape holds. mine: nobody else can hold x.
function Sequential:forward(x)
  local layers, i, mine = self._layers, 1, false
  while i <= #layers do
    local layer, fused, count = layers[i], fusable(layers, i)
    local y
    if fused then y = layer:fused(x, fused) else y = layer(x) end
    local pure, same = is_pure(layer), rawequal(x, y)
    if mine and pure and not same then x:free() end
    mine = pure and (mine or not same)
    x, i = y, i + (count or 1)
  end
  return x
end

--- A list of modules, registered by index; it has no forward.
-- eg   #nn.ModuleList{nn.Linear(2, 2), nn.Linear(2, 2)}:children()  --> 2
local ModuleList = classes.class("ModuleList", Sequential)

function ModuleList:forward()
  core.error{code = "state", op = "ModuleList", message = "a list is not called; call its entries"}
end

return {Sequential = Sequential, ModuleList = ModuleList}
