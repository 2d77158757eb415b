-- module.lua: the base of all layers and networks: parameters, buffers, children, state, printing.
--
-- Names are PyTorch's: "features.0.weight". A module's own parameters come before its children's, each in the order
-- of assignment.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local classes = require "module_class"
local sorted_keys = require "sorted_keys"

local is_module, is_tensor = classes.is_module, core.is_tensor

--- Base class of layers and networks; make your own with nn.class.
local Module = classes.class("Module")

--- Without an init of its own a module takes its fields from a table.
function Module:init(fields)
  if fields ~= nil then check.arg(1, self.__name, "table", fields) end
  for _, name in ipairs(sorted_keys(fields)) do self[name] = fields[name] end
end

--- What a call of the module computes: model(x) is model:forward(x). Every class of your own has one.
-- errs state: the class has none
function Module:forward()
  core.error{code = "state", op = self.__name, message = "the class has no forward method"}
end

Module.__call = function(self, ...)
  if observer.watch then return observer.watch(self, ...) end
  return self:forward(...)
end

-- ---- members ----

-- The members of a module; a class has none, and anything else is no module.
local function entries_of(self)
  local entries = type(self) == "table" and rawget(self, "_entries")
  if type(entries) == "table" then return entries end
  local class = type(self) == "table" and self.__module
  core.error{code = "value", path = false,
    message = ("a module is wanted, got %s"):format(class and "the class nn." .. tostring(self.__name)
    or core.typename(self)), hint = "call it on an object with a colon: nn.Linear(4, 2):parameters()"}
end

local function register(self, name, kind)
  entries_of(self)
  if self._named[name] then return end
  self._named[name] = kind
  local entries = self._entries
  entries[#entries + 1] = {name = name, kind = kind}
end

-- Called for fields that are new.
Module.__newindex = function(self, name, value)
  if rawget(self, "_entries") == nil then
    rawset(self, name, value)
  elseif is_module(value) then
    register(self, name, "module")
  elseif is_tensor(value) and value.requires_grad and value.is_leaf then
    register(self, name, "parameter")
    classes.owners[value] = classes.owners[value] or self
    value:keep()
  end
  rawset(self, name, value)
end

--- Registers a tensor that belongs to the state but is not trained, like running statistics.
function Module:register_buffer(name, tensor)
  register(self, check.arg(1, "register_buffer", "string", name), "buffer")
  rawset(self, name, check.arg(2, "register_buffer", "tensor", tensor):keep())
end

--- Registers a child under a name.
function Module:add_module(name, child)
  if not is_module(child) then check.arg(2, "add_module", "module", child) end
  register(self, check.arg(1, "add_module", "string", name), "module")
  rawset(self, name, child)
end

-- Calls visit(name, value) for the members of a kind that are set.
local function each(self, kind, visit)
  for _, entry in ipairs(entries_of(self)) do
    local value = rawget(self, entry.name)
    if entry.kind == kind and value ~= nil then visit(entry.name, value) end
  end
end

-- Modules in order, parents first: list of {path, module}; each module once.
local function walk(self, path, out, seen)
  if seen[self] then return out end
  seen[self] = true
  out[#out + 1] = {path, self}
  each(self, "module", function(name, child) walk(child, path == "" and name or path .. "." .. name, out, seen) end)
  return out
end

local function iterate(list)
  local i = 0
  return function()
    i = i + 1
    if list[i] then return list[i][1], list[i][2] end
  end
end

-- Tensors of a kind with their full names; a shared tensor under its first name.
local function collect(self, kind, shared_too)
  local out, seen = {}, {}
  for _, entry in ipairs(walk(self, "", {}, {})) do
    local path, module = entry[1], entry[2]
    each(module, kind, function(name, tensor)
      if seen[tensor] and not shared_too then return end
      seen[tensor] = true
      out[#out + 1] = {path == "" and name or path .. "." .. name, tensor}
    end)
  end
  return out
end

--- for name, module in model:named_modules() do: the model itself ("") and all below it
function Module:named_modules() return iterate(walk(self, "", {}, {})) end

--- for name, child in module:named_children() do
function Module:named_children()
  local out = {}
  each(self, "module", function(name, child) out[#out + 1] = {name, child} end)
  return iterate(out)
end

--- List of the direct children.
-- eg   #nn.Sequential{nn.ReLU(), nn.ReLU()}:children()  --> 2
function Module:children()
  local out = {}
  each(self, "module", function(_, child) out[#out + 1] = child end)
  return out
end

--- for name, parameter in model:named_parameters() do
function Module:named_parameters() return iterate(collect(self, "parameter")) end

--- List of all parameters, for an optimizer.
-- eg   #nn.Linear(2, 3):parameters()  --> 2
function Module:parameters()
  local out = {}
  for i, entry in ipairs(collect(self, "parameter")) do out[i] = entry[2] end
  return out
end

--- for name, buffer in model:named_buffers() do
function Module:named_buffers() return iterate(collect(self, "buffer")) end

--- Number of trainable values.
-- eg   nn.Linear(2, 3):parameter_count()  --> 9
function Module:parameter_count()
  local n = 0
  for _, p in ipairs(self:parameters()) do n = n + p:numel() end
  return n
end

-- ---- modes ----

--- Training behaviour on (or off) for the module and all below it: dropout, batch statistics.
-- eg   nn.Dropout():eval():train().training  --> true
function Module:train(on)
  if on == nil then on = true end
  for _, entry in ipairs(walk(self, "", {}, {})) do entry[2].training = check.arg(1, "train", "boolean", on) end
  return self
end

--- Evaluation behaviour: the same as train(false).
-- eg   nn.Dropout():eval().training  --> false
function Module:eval() return self:train(false) end

--- Calls fn(module) for all modules below, then for this one.
function Module:apply(fn)
  check.arg(1, "apply", "function", fn)
  for _, child in ipairs(self:children()) do child:apply(fn) end
  fn(self)
  return self
end

--- Releases all gradients.
function Module:zero_grad(opts)
  check.nothing("zero_grad", opts)
  for _, p in ipairs(self:parameters()) do p:zero_grad() end
end

--- Gradients wanted (or not) for all parameters: requires_grad_(false) freezes the module.
-- eg   nn.Linear(2, 3):requires_grad_(false).weight.requires_grad  --> false
function Module:requires_grad_(on)
  for _, p in ipairs(self:parameters()) do p:requires_grad_(on == nil or on) end
  return self
end

-- Exchanges a tensor for its converted copy; who holds the handle, like an optimizer, sees the new one.
local function convert(tensor, what)
  local wanted = tensor.requires_grad
  local new = core.no_grad(tensor.to, tensor, what)
  if rawequal(new, tensor) then return end
  new:requires_grad_(wanted)
  core.swap(tensor, new)
  new:free()
end

local floats = {f32 = true, f16 = true, bf16 = true, f64 = true}

--- Moves the model to a device ("cpu") or its floating tensors to a dtype ("f64"); batch norm stays above 16 bits.
-- eg   nn.Linear(2, 3):to("f64").weight.dtype  --> f64
function Module:to(what)
  check.arg(1, "to", "string", what)
  local dtype, low = core.is_dtype(what), what:match("16$") or what == "half"
  for _, entry in ipairs(walk(self, "", {}, {})) do
    local module = entry[2]
    local function visit(_, tensor)
      if not dtype or (floats[tensor.dtype] and not (low and module.keeps_f32)) then convert(tensor, what) end
    end
    each(module, "parameter", visit)
    each(module, "buffer", visit)
  end
  return self
end

-- ---- state ----

local function state_entries(self)
  for _, entry in ipairs(walk(self, "", {}, {})) do
    if entry[2].before_save then entry[2]:before_save() end
  end
  local out = collect(self, "parameter", true)
  for _, entry in ipairs(collect(self, "buffer", true)) do out[#out + 1] = entry end
  return out
end

--- Table name -> tensor of all parameters and buffers, sharing memory with the model, outside the graph.
-- eg   nn.Linear(2, 3):state_dict().weight:size(1)  --> 3
function Module:state_dict()
  local out = {}
  for _, entry in ipairs(state_entries(self)) do out[entry[1]] = entry[2]:detach() end
  return out
end

local function shape_text(tensor) return "(" .. table.concat(tensor.shape, ",") .. ")" end

local function same_shape(a, b) return shape_text(a) == shape_text(b) end

local function add_names(lines, title, names)
  if #names == 0 then return end
  table.sort(names)
  local shown = {}
  for i = 1, math.min(#names, 8) do shown[i] = names[i] end
  if #names > 8 then shown[9] = ("… %d more"):format(#names - 8) end
  lines[#lines + 1] = title .. ": " .. table.concat(shown, ", ")
end

--- Takes all values from a table name -> tensor, as state_dict gives it.
-- opts strict = true: names must match exactly
-- out  {missing = names, unexpected = names}
-- errs shape: names or shapes that do not match; nothing is changed then
function Module:load_state_dict(state, opts)
  check.arg(1, "load_state_dict", "table", state)
  local strict = check.options("load_state_dict", {{"strict", "boolean", default = true}}, opts).strict
  local missing, unexpected, wrong, known = {}, {}, {}, {}
  local entries = state_entries(self)
  for _, entry in ipairs(entries) do
    local name, tensor, given = entry[1], entry[2], state[entry[1]]
    known[name] = true
    if given == nil then
      missing[#missing + 1] = name
    elseif not is_tensor(given) then
      check.fail("load_state_dict", ("%s must be a tensor, got %s"):format(name, core.typename(given)))
    elseif not same_shape(given, tensor) then
      wrong[#wrong + 1] = ("%s is %s, given %s"):format(name, shape_text(tensor), shape_text(given))
    end
  end
  for name in pairs(state) do
    if not known[name] then unexpected[#unexpected + 1] = tostring(name) end
  end
  if #wrong > 0 or (strict and #missing + #unexpected > 0) then
    local lines = {}
    add_names(lines, "missing", strict and missing or {})
    add_names(lines, "unexpected", strict and unexpected or {})
    add_names(lines, "other shape", wrong)
    core.error{code = "shape", op = "load_state_dict", message = "the state does not fit " .. self.__name,
      context = table.concat(lines, "\n")}
  end
  core.no_grad(function()
    for _, entry in ipairs(entries) do
      if state[entry[1]] then entry[2]:copy_(state[entry[1]]) end
    end
  end)
  for _, entry in ipairs(walk(self, "", {}, {})) do
    if entry[2].after_load then entry[2]:after_load() end
  end
  table.sort(missing)
  table.sort(unexpected)
  return {missing = missing, unexpected = unexpected}
end

-- ---- printing ----

--- One line about the layer's settings: "1 -> 64, 3x3". Overridden by layers.
function Module:extra() return "" end

--- "Conv2d(1 -> 64, 3x3)"
-- eg   nn.Linear(2, 3):describe()  --> Linear(2 -> 3)
function Module:describe()
  local extra = self:extra()
  return extra == "" and self.__name or ("%s(%s)"):format(self.__name, extra)
end

Module.__tostring = function(self)
  local lines = {}
  each(self, "module", function(name, child)
    lines[#lines + 1] = ("  (%s): %s"):format(name, (tostring(child):gsub("\n", "\n  ")))
  end)
  if #lines == 0 then
    local extra = self:extra()
    return ("%s(%s)"):format(self.__name, extra)
  end
  return self.__name .. "(\n" .. table.concat(lines, "\n") .. "\n)"
end

-- Names and modules on the way from module down to target, or nil.
local function find_path(module, target, seen)
  if rawequal(module, target) then return {} end
  if seen[module] then return nil end
  seen[module] = true
  local found
  each(module, "module", function(name, child)
    local rest = not found and find_path(child, target, seen)
    if rest then
      table.insert(rest, 1, {name, child})
      found = rest
    end
  end)
  return found
end

-- The layer path of an error, from the modules whose functions run (innermost first) and the outermost's name.
core.describe_with(function(modules, root_name)
  if #modules == 0 then return nil end
  local root, target = modules[#modules], modules[1]
  local way = find_path(root, target, {})
  local parts = {root_name ~= "" and root_name ~= "self" and root_name or root.__name}
  if not way then
    for i = #modules - 1, 1, -1 do parts[#parts + 1] = modules[i].__name end
    return table.concat(parts, " > ")
  end
  if #way == 0 then
    return root_name ~= "" and root_name ~= "self" and root_name .. " " .. root:describe() or root:describe()
  end
  for i, step in ipairs(way) do
    local name, module = step[1], step[2]
    local index = tonumber(name)
    local text = i == #way and module:describe() or module.__name
    parts[#parts + 1] = index and ("[%d] %s"):format(index + 1, text) or name .. " " .. text
  end
  return table.concat(parts, " > ")
end)

return Module
