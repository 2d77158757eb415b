-- shaping.lua: layers that only change sizes, and modules by name.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"
local Module = require "nn.module"

local shaping = {}

--- One dim becomes several; one of the sizes may be -1.
-- opts nn.Unflatten(dim, {size, …})
-- eg   nn.Unflatten(2, {3, -1})(capl.zeros(2, 12)):size(3)  --> 4
shaping.Unflatten = classes.class("Unflatten", Module)
shaping.Unflatten.pure = true

function shaping.Unflatten:init(...)
  local o = check.arguments("nn.Unflatten",
    {positional = 2, {"dim", "whole", required = true}, {"sizes", "table", required = true}}, ...)
  self.dim, self.sizes = o.dim, {}
  for i, size in ipairs(o.sizes) do self.sizes[i] = check.arg(2, "Unflatten", "whole", size) end
  if #self.sizes == 0 then check.bad(2, "Unflatten", "at least one size expected") end
end

-- The sizes with the one that was left open.
local function sizes_for(self, n)
  local known, open, out = 1, nil, {}
  for i, size in ipairs(self.sizes) do
    out[i] = size
    if size ~= -1 then known = known * size
    elseif open then check.fail("nn.Unflatten", "only one of the sizes may be -1")
    else open = i end
  end
  if open and known > 0 then out[open] = math.floor(n / known) end
  local total = 1
  for _, size in ipairs(out) do total = total * size end
  if total ~= n then
    core.error{code = "shape", op = "nn.Unflatten",
      message = ("dim %d of x has size %d, the sizes %s do not make that"):format(
      self.dim, n, table.concat(self.sizes, " x "))}
  end
  return out
end

function shaping.Unflatten:forward(x)
  if not core.is_tensor(x) then check.arg(1, "Unflatten", "tensor", x) end
  local dim, sizes = check.dim(1, "Unflatten", self.dim, x.ndim), {}
  for d, size in ipairs(x.shape) do
    if d ~= dim then sizes[#sizes + 1] = size end
    if d == dim then
      for _, part in ipairs(sizes_for(self, size)) do sizes[#sizes + 1] = part end
    end
  end
  local y = core.op.reshape(x, {size = sizes})
  return y
end

function shaping.Unflatten:extra() return ("dim %d, %s"):format(self.dim, table.concat(self.sizes, " x ")) end

--- Zeros around images (N, C, H, W); negative numbers cut.
-- opts nn.ZeroPad2d(n) or nn.ZeroPad2d{left, right, top, bottom}
-- eg   nn.ZeroPad2d{1, 2, 0, 3}(capl.zeros(1, 1, 4, 4)):size(4)  --> 7
shaping.ZeroPad2d = classes.class("ZeroPad2d", Module)
shaping.ZeroPad2d.pure = true

function shaping.ZeroPad2d:init(padding)
  local p = type(padding) == "number" and {padding, padding, padding, padding} or padding
  if type(p) ~= "table" or #p ~= 4 then check.bad(1, "ZeroPad2d", "a number or {left, right, top, bottom} expected") end
  self.padding = {}
  for i = 1, 4 do self.padding[i] = check.arg(1, "ZeroPad2d", "whole", p[i]) end
end

function shaping.ZeroPad2d:forward(x)
  local y = x:pad(self.padding)
  return y
end

function shaping.ZeroPad2d:extra() return table.concat(self.padding, ", ") end

--- Modules by name: dict.NAME is one of them; it has no forward.
-- in   nn.ModuleDict{name = layer, …}, in the order of the names; or nn.ModuleDict{{"name", layer}, …}, in this order
-- eg   nn.ModuleDict{head = nn.Linear(4, 2)}.head(capl.zeros(3, 4)):size(2)  --> 2
shaping.ModuleDict = classes.class("ModuleDict", Module)

function shaping.ModuleDict:init(modules)
  modules = modules == nil and {} or check.arg(1, "ModuleDict", "table", modules)
  local names = {}
  for name in pairs(modules) do
    if type(name) == "string" then names[#names + 1] = name end
  end
  table.sort(names)
  for i, pair in ipairs(modules) do
    if type(pair) ~= "table" then
      check.fail("nn.ModuleDict", ("entry %d is {\"name\", layer}, got %s"):format(i, core.typename(pair)))
    end
    self:add(pair[1], pair[2])
  end
  for _, name in ipairs(names) do self:add(name, modules[name]) end
end

--- Adds a module under a name; returns the ModuleDict.
function shaping.ModuleDict:add(name, module)
  check.arg(1, "ModuleDict", "string", name)
  if shaping.ModuleDict[name] ~= nil then
    check.bad(1, "ModuleDict", ("'%s' is a method of modules, take another name"):format(name))
  end
  self:add_module(name, module)
  return self
end

function shaping.ModuleDict:forward() -- luacheck: no self
  core.error{code = "state", op = "ModuleDict", message = "a table of modules is not called; call its entries"}
end

return shaping
