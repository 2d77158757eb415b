-- freeze.lua: train.freeze, parameters that a step does not change, and the key freeze of train.fit.
-- SPDX-License-Identifier: Apache-2.0
local _, observer = ...

local Run = require "run"
local check = require "check"
local classes = require "module_class"
local names = require "nn.names"

local OP = "train.freeze"

local Frozen = {}
Frozen.__index = Frozen

-- Batch norm layers all of whose parameters are among the frozen ones.
local function norms_of(model, parameters)
  local out = {}
  for path, module in model:named_modules() do
    if module.__name:match("^BatchNorm") then
      local weight = path == "" and "weight" or path .. "." .. "weight"
      if parameters[weight] then out[#out + 1] = module end
    end
  end
  return out
end

--- Freezes parameters of a model: they get no gradients, which saves their computation.
-- in   model; names: of parameters or of modules ("features", "0.weight"), patterns with *, or a list of them
-- opts batch_norm = true: batch norm layers among them also keep their running statistics, and use them in training
-- out  an object: unfreeze() undoes it, count = values that are frozen, tensors = parameters
-- errs value: a name that no parameter has; nothing would be left to train
-- eg   capl.train.freeze(nn.Sequential{nn.Linear(2, 3), nn.Linear(3, 1)}, "0").count  --> 9
local function freeze(model, what, opts)
  if not classes.is_module(model) then check.arg(1, "freeze", "module", model) end
  local o = check.options(OP, {{"batch_norm", "boolean", default = true}}, opts)
  local matched = names.matching(OP, model, what)
  local self, left = setmetatable({parameters = {}, norms = {}, count = 0, tensors = 0}, Frozen), 0
  for name, p in model:named_parameters() do
    if matched[name] and p.requires_grad then
      table.insert(self.parameters, p)
      self.count, self.tensors = self.count + p:numel(), self.tensors + 1
    elseif p.requires_grad then
      left = left + 1
    end
  end
  if left == 0 then check.fail(OP, "all parameters would be frozen: nothing is left to train") end
  for _, p in ipairs(self.parameters) do
    p:zero_grad()
    p:requires_grad_(false)
  end
  for _, module in ipairs(o.batch_norm and norms_of(model, matched) or {}) do
    if not module.frozen then table.insert(self.norms, module) end
    module.frozen = true
  end
  local count = self.count
  Run.of(observer).features:add_own{name = OP, what = "values that were not trained",
    count = function() return count end}
  return self
end

--- Lets what was frozen be trained again.
function Frozen:unfreeze()
  for _, p in ipairs(self.parameters) do p:requires_grad_(true) end
  for _, module in ipairs(self.norms) do module.frozen = false end
  self.parameters, self.norms = {}, {}
end

-- ---- the callback of train.fit ----

local KEY = "train.fit: freeze"

local Callback = {}
Callback.__index = Callback

local spec = {
  {"names", "string", "table", required = true}, {"steps", "whole"}, {"epochs", "whole"},
  {"batch_norm", "boolean", default = true},
}

-- "0", {"0", "1"}, {names = …, epochs = 2} or a list of such tables -> list of such tables
local function entries_of(given)
  if type(given) == "string" or type(given[1]) == "string" then return {{names = given}} end
  if given[1] == nil and next(given) ~= nil then return {given} end
  return given
end

local function read_entry(o, given)
  local entry = check.options(KEY, spec, given)
  if entry.steps and entry.epochs then check.fail(KEY, "steps and epochs are both given; give one") end
  for _, unit in ipairs{"steps", "epochs"} do
    if entry[unit] and entry[unit] < 1 then check.fail(KEY, ("%s is at least 1, got %d"):format(unit, entry[unit])) end
  end
  if next(names.matching(KEY, o.model, entry.names)) == nil then check.fail(KEY, "the list of names is empty") end
  return entry
end

local function read(o)
  if o.freeze == nil or o.freeze == false then return end
  if o.freeze == true then
    check.fail(KEY, "says which parameters", 'e.g. freeze = "features", or {names = "features", epochs = 2}')
  end
  local entries = {}
  for i, given in ipairs(entries_of(o.freeze)) do entries[i] = read_entry(o, given) end
  if #entries == 0 then check.fail(KEY, "names is missing", 'e.g. freeze = {names = "features", epochs = 2}') end
  o.freeze = entries
end

local function new(fit)
  if not fit.o.freeze then return nil end
  local counter = {n = 0}
  fit.run:add_feature{name = "freeze", what = "steps with frozen parameters", count = function() return counter.n end}
  return setmetatable({fit = fit, frozen = {}, counter = counter}, Callback)
end

-- Whether an entry holds in the step behind so many that are done.
local function holds(fit, entry, done)
  if entry.steps then return done < entry.steps end
  if entry.epochs then return math.max(fit.epoch, 1) <= entry.epochs end
  return true
end

local function names_text(entry)
  return type(entry.names) == "string" and entry.names or table.concat(entry.names, ", ")
end

-- What was frozen in the last step of a resumed run is unfrozen before the next one, as it was in that run.
function Callback:begin()
  for _, entry in ipairs(self.fit.o.freeze) do
    if holds(self.fit, entry, math.max(self.fit.step - 1, 0)) then
      local object = self.fit.run.features:apart(freeze, self.fit.model, entry.names, {batch_norm = entry.batch_norm})
      table.insert(self.frozen, {entry = entry, object = object})
    end
  end
end

function Callback:lines()
  local out = {}
  for i, f in ipairs(self.frozen) do
    local e = f.entry
    local long = e.steps and ("for %d steps"):format(e.steps) or e.epochs and ("for %d epochs"):format(e.epochs)
      or "always"
    out[i] = ("freeze: %s: %d parameters, %s%s"):format(names_text(e), f.object.count, long,
      #f.object.norms > 0 and "; batch norm keeps its statistics" or "")
  end
  return out
end

--- For schedule.png. per_epoch: steps of an epoch.
function Callback:moments(per_epoch)
  local out = {}
  for _, entry in ipairs(self.fit.o.freeze) do
    local steps = entry.steps or entry.epochs and entry.epochs * per_epoch
    if steps then out[#out + 1] = {x = steps + 1, label = names_text(entry) .. " unfrozen"} end
  end
  return out
end

function Callback:before_step()
  local fit = self.fit
  for i = #self.frozen, 1, -1 do
    local f = self.frozen[i]
    if not holds(fit, f.entry, fit.step) then
      f.object:unfreeze()
      table.remove(self.frozen, i)
      local text = ("unfrozen: %s"):format(names_text(f.entry))
      fit.record:event(fit:at(), text)
      self.fit.run:print(("step %d: %s"):format(fit.step + 1, text))
    end
  end
  if #self.frozen > 0 then self.counter.n = self.counter.n + 1 end
end

--- The model is as trainable after the run as it was before.
function Callback:close()
  for _, f in ipairs(self.frozen) do f.object:unfreeze() end
end

function Callback:state() return {steps = self.counter.n} end
function Callback:set_state(state) self.counter.n = state.steps end
function Callback.state_shape() return {steps = "count"} end

return {name = "freeze", spec = {{"freeze", "string", "table", "boolean"}},
  read = read, new = new, freeze = freeze}
