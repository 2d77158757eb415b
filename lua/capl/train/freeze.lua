-- freeze.lua: train.freeze: parameters that keep their values for a while, and batch norm that keeps its statistics.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local Run = require "run"
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

--- Keeps parameters of a model from being trained: they get no gradients, which saves the work for them.
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
  Run.current().features:add_own{name = OP, what = "values that were not trained", count = function() return count end}
  return self
end

--- Lets what was frozen be trained again.
function Frozen:unfreeze()
  for _, p in ipairs(self.parameters) do p:requires_grad_(true) end
  for _, module in ipairs(self.norms) do module.frozen = false end
  self.parameters, self.norms = {}, {}
end

return freeze
