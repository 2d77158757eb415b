-- groups.lua: optim.groups: the parameters of a model in groups, by their names and by how deep their layer is.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"
local names = require "nn.names"
local schedule = require "optim.schedule"

local OP = "optim.groups"

local spec = {
  {"lr", "number", "table", required = true}, {"layer_decay", "number", default = 1}, {"weight_decay", "number"},
  {"no_decay", "boolean", default = false}, {"rules", "table", default = {}},
}

local reserved = {match = true, lr_scale = true, params = true}

local function check_rule(rule, i)
  if type(rule) ~= "table" then
    check.fail(OP, ("rule %d is a %s, not a table {match = …, …}"):format(i, core.typename(rule)))
  end
  if rule.match == nil then
    check.fail(OP, ("rule %d has no match"):format(i), 'e.g. {match = "head.*", lr_scale = 10}')
  end
  if rule.lr and rule.lr_scale then check.fail(OP, ("rule %d has lr and lr_scale; give one"):format(i)) end
end

local function scaled(lr, factor)
  if factor == 1 then return lr end
  return schedule.is(lr) and schedule.scaled(lr, factor) or lr * factor
end

-- Number of the layer that a parameter belongs to, by its name, from 1; and how many layers there are. A layer is a
-- child of the model that has parameters; where there is one such child alone, a child of that.
local function depths(model)
  local at, prefix = model, ""
  while true do
    local with, only = 0, nil
    for name, child in at:named_children() do
      if #child:parameters() > 0 then with, only = with + 1, {name, child} end
    end
    if with ~= 1 or #only[2]:parameters() < #at:parameters() then break end
    at, prefix = only[2], prefix .. only[1] .. "."
  end
  local depth, count = {}, 0
  for name, child in at:named_children() do
    if #child:parameters() > 0 then
      count = count + 1
      depth[prefix .. name] = count
    end
  end
  return function(name)
    for start, number in pairs(depth) do
      if name:sub(1, #start + 1) == start .. "." then return number end
    end
    return count -- the model's own parameters go with its last layer
  end, count
end

-- What the rules say about a parameter: the settings of its group; later rules win.
local function settings_of(o, name, parameter, depth, count)
  local out = {lr = o.lr, weight_decay = o.weight_decay}
  if o.no_decay and parameter.ndim < 2 then out.weight_decay = 0 end
  local factor = o.layer_decay ^ (count - depth)
  for i, rule in ipairs(o.rules) do
    if o.matches[i][name] then
      for key, value in pairs(rule) do
        if not reserved[key] then out[key] = value end
      end
      factor = factor * (rule.lr_scale or 1)
    end
  end
  return out, factor
end

-- The same text for the same settings.
local function key_of(settings, factor)
  local parts = {("%.17g"):format(factor)}
  for key, value in pairs(settings) do parts[#parts + 1] = key .. "=" .. tostring(value) end
  table.sort(parts)
  return table.concat(parts, " ")
end

--- The parameters of a model in groups for an optimizer: optim.AdamW(optim.groups(model, {…})).
-- in   model
-- opts lr (number or schedule); layer_decay = 1 (a layer's rate is that of the next one times this; the last has lr);
--      weight_decay; no_decay = false (true: none for biases and norms, all that has one dimension); rules = list of
--      {match = a name, pattern with * or list of them, lr_scale = factor or lr = rate, weight_decay = …, any option of
--      the optimizer}: later rules win, factors multiply
-- out  list of groups {params, lr, …}, in the order of the model; frozen parameters are in them, too
-- errs value: a rule that no parameter's name fits
-- eg   #optim.groups(nn.Sequential{nn.Linear(2, 2), nn.Linear(2, 1)}, {lr = 1, layer_decay = 0.5})  --> 2
local function groups(model, opts)
  if not classes.is_module(model) then check.arg(1, "groups", "module", model) end
  local o = check.options(OP, spec, opts)
  if not (o.layer_decay > 0 and o.layer_decay <= 1) then
    check.fail(OP, ("layer_decay is above 0 and at most 1, got %g"):format(o.layer_decay))
  end
  o.matches = {}
  for i, rule in ipairs(o.rules) do
    check_rule(rule, i)
    o.matches[i] = names.matching(OP, model, rule.match)
  end
  local depth_of, count = depths(model)
  local out, by_key = {}, {}
  for name, parameter in model:named_parameters() do
    local settings, factor = settings_of(o, name, parameter, depth_of(name), count)
    local key = key_of(settings, factor)
    if not by_key[key] then
      settings.lr, settings.params = scaled(settings.lr, factor), {}
      by_key[key] = settings
      table.insert(out, settings)
    end
    table.insert(by_key[key].params, parameter)
  end
  return out
end

return groups
