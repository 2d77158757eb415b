-- join.lua: several optimisers as one: each has its own parameters and settings, the step is common.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local hooks = require "hooks"

local Joined = {name = "optim.join"}
Joined.__index = Joined

local function no_shared_parameters(optimizers)
  local owner = {}
  for i, opt in ipairs(optimizers) do
    for _, group in ipairs(opt.groups) do
      for _, p in ipairs(group.params) do
        if owner[p] then
          check.fail("optim.join", ("a parameter belongs to optimisers %d and %d"):format(owner[p], i))
        end
        owner[p] = i
      end
    end
  end
end

--- Several optimisers that step together, e.g. Muon for the matrices and AdamW for everything else.
-- in   a list of optimisers without common parameters; lr of the whole is that of the first
-- out  an optimiser: step, backward_step, zero_grad, set_lr(lr, index of the optimiser), state_dict, load_state_dict
-- errs value: not a list of optimisers; a parameter in two of them
local function join(optimizers)
  check.arg(1, "join", "table", optimizers)
  if #optimizers == 0 then check.fail("optim.join", "the list of optimisers is empty") end
  for i, opt in ipairs(optimizers) do
    if type(opt) ~= "table" or not opt.groups or not opt.apply then
      check.fail("optim.join", ("entry %d is a %s, not an optimiser"):format(i, core.typename(opt)))
    end
  end
  no_shared_parameters(optimizers)
  local self = setmetatable({optimizers = optimizers, groups = {}, steps = 0, skipped = 0}, Joined)
  for _, opt in ipairs(optimizers) do
    for _, group in ipairs(opt.groups) do self.groups[#self.groups + 1] = group end
  end
  self.lr = optimizers[1].lr
  return self
end

local function each(self, method, ...)
  for _, opt in ipairs(self.optimizers) do opt[method](opt, ...) end
  self.lr = self.optimizers[1].lr
end

function Joined:zero_grad() each(self, "zero_grad") end
function Joined:set_position(share) each(self, "set_position", share) end

--- Sets the learning rate of one of the optimisers; of all of them without index.
function Joined:set_lr(lr, index)
  for i, opt in ipairs(self.optimizers) do
    if index == nil or i == index then opt:set_lr(lr) end
  end
  self.lr = self.optimizers[1].lr
end

function Joined:apply()
  local skipped = 0
  for _, opt in ipairs(self.optimizers) do
    opt:apply()
    skipped = skipped + opt.skipped
  end
  self.steps, self.skipped, self.lr = self.steps + 1, skipped, self.optimizers[1].lr
end

function Joined:step()
  self:apply()
  core.step_end()
  hooks.step(self)
end

function Joined:backward_step(loss)
  check.arg(1, "backward_step", "tensor", loss):backward()
  self:apply()
  self:zero_grad()
  core.step_end()
  hooks.step(self)
end

--- {steps, optimizers = the state_dict of each}
function Joined:state_dict()
  local out = {steps = self.steps, optimizers = {}}
  for i, opt in ipairs(self.optimizers) do out.optimizers[i] = opt:state_dict() end
  return out
end

function Joined:load_state_dict(state)
  if type(state.optimizers) ~= "table" or #state.optimizers ~= #self.optimizers then
    check.fail("optim.join", ("the state is of %d optimisers, there are %d"):format(
      type(state.optimizers) == "table" and #state.optimizers or 1, #self.optimizers))
  end
  for i, opt in ipairs(self.optimizers) do opt:load_state_dict(state.optimizers[i]) end
  self.steps, self.lr = state.steps, self.optimizers[1].lr
end

Joined.__tostring = function(self)
  local parts = {}
  for i, opt in ipairs(self.optimizers) do parts[i] = tostring(opt) end
  return "optim.join{" .. table.concat(parts, ", ") .. "}"
end

return join
