-- optimizer.lua: what all optimisers share: parameter groups, the step's contract, clipping, state.
--
-- A subclass states its options, the op that does the arithmetic, and which state tensors a parameter has.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local hooks = require "hooks"
local schedule = require "optim.schedule"

local Optimizer = {}
Optimizer.__index = Optimizer

-- Options that are valid for every optimiser as a whole, not per group.
local common = {{"clip_norm", "number", default = 0}}

local function read_lr(lr)
  if schedule.is(lr) then return lr end
  if type(lr) == "number" and lr >= 0 and lr < math.huge then return lr end
  return nil
end

local function check_group(name, group)
  if not read_lr(group.lr) then
    check.fail(name, ("lr is a number from 0 on or a schedule, got %s"):format(
      type(group.lr) == "number" and ("%g"):format(group.lr) or core.typename(group.lr)))
  end
  if #group.params == 0 then check.fail(name, "there are no parameters", "give model:parameters()") end
  for i, p in ipairs(group.params) do
    if not core.is_tensor(p) then check.fail(name, ("parameter %d is a %s, not a tensor"):format(i, core.typename(p))) end
    if not p.is_leaf then check.fail(name, ("parameter %d is the result of an op; only leaves can be trained"):format(i)) end
  end
end

local function no_duplicates(name, groups)
  local seen = {}
  for _, group in ipairs(groups) do
    for _, p in ipairs(group.params) do
      if seen[p] then check.fail(name, "a parameter is in two groups") end
      seen[p] = true
    end
  end
end

-- params: a list of tensors, or of groups {params = …, lr = …, …}
local function read_groups(self, params, defaults)
  check.arg(1, self.name, "table", params)
  local groups = params
  if core.is_tensor(params[1]) or #params == 0 then groups = {{params = params}} end
  local out = {}
  for i, given in ipairs(groups) do
    check.arg(1, self.name, "table", given)
    local spec = {{"params", "table", required = true}}
    for k, entry in ipairs(self.spec) do
      spec[k + 1] = {default = defaults[entry[1]], required = entry.required, unpack(entry)}
    end
    out[i] = check.options(self.name, spec, given)
    check_group(self.name, out[i])
  end
  no_duplicates(self.name, out)
  return out
end

--- A class of optimisers. spec: its options as in check.arguments. update(self, group, batch, attrs): runs the op.
function Optimizer.class(name, spec)
  local class = {name = "optim." .. name, spec = spec}
  class.__index = class
  class.__tostring = Optimizer.__tostring
  return setmetatable(class, {
    __index = Optimizer,
    __call = function(_, params, opts)
      local self = setmetatable({state = {}, steps = 0, skipped = 0}, class)
      local all = {}
      for i, entry in ipairs(spec) do all[i] = {default = entry.default, unpack(entry)} end -- required of each group only
      for _, entry in ipairs(common) do all[#all + 1] = entry end
      local options = check.options(class.name, all, opts)
      self.clip_norm = options.clip_norm
      self.groups = read_groups(self, params, options)
      if class.check_parameters then class.check_parameters(self.groups) end
      self.lr = self:lr_of(self.groups[1])
      return self
    end,
  })
end

--- The learning rate a group will use in the next step.
function Optimizer:lr_of(group)
  return schedule.is(group.lr) and group.lr:lr(self.steps, self.position) or group.lr
end

--- Says which share of the run is over, 0 to 1, for schedules over the whole "run". train.fit does it before each step.
function Optimizer:set_position(share)
  if check.arg(1, "set_position", "number", share) < 0 or share > 1 then
    check.bad(1, "set_position", ("a share from 0 to 1 expected, got %g"):format(share))
  end
  self.position = share
  self.lr = self:lr_of(self.groups[1])
end

--- Sets the learning rate of all groups, or of one: opt:set_lr(1e-3), opt:set_lr(1e-3, 2).
function Optimizer:set_lr(lr, index)
  if not read_lr(lr) then check.bad(1, "set_lr", "a number from 0 on or a schedule expected") end
  for i, group in ipairs(self.groups) do
    if index == nil or i == index then group.lr = lr end
  end
  self.lr = self:lr_of(self.groups[1])
end

--- Forgets all gradients; their memory is free at once.
function Optimizer:zero_grad()
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do p:zero_grad() end
  end
end

-- ---- the step ----

-- Handles of all gradients by parameter.
local function take_grads(self)
  local grads = {}
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do grads[p] = p.grad end
  end
  return grads
end

-- Factor that brings the norm of all gradients to at most clip_norm; nil when the norm is not finite.
local function clip_factor(self, grads)
  local list = {}
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do list[#list + 1] = grads[p] end
  end
  if #list == 0 then return 1 end
  local norm_tensor = core.op.grad_norm(list)
  local norm = norm_tensor:item()
  norm_tensor:free()
  self.grad_norm = norm
  if norm ~= norm or norm == math.huge then return nil end
  return math.min(1, self.clip_norm / (norm + 1e-6))
end

-- Parameters with a gradient, by the number of steps they have made: {count = {params}}.
local function by_age(self, group, grads)
  local batches = {}
  for _, p in ipairs(group.params) do
    if grads[p] then
      local s = self.state[p]
      if not s then
        s = {step = 0}
        self.state[p] = s
      end
      batches[s.step] = batches[s.step] or {}
      table.insert(batches[s.step], p)
    end
  end
  return batches
end

-- A state tensor of p, zeros at first. It outlives scopes.
local function state_tensor(self, p, name)
  local s = self.state[p]
  if not s[name] then
    s[name] = core.zeros(p.shape, {dtype = p.dtype == "f64" and "f64" or "f32", device = p.device}):keep()
  end
  return s[name]
end

--- For subclasses: params, grads and states of a batch in the order the op wants.
function Optimizer:inputs(batch, grads, names)
  local list, n = {}, #batch
  for i, p in ipairs(batch) do
    list[i], list[n + i] = p, grads[p]
    for k, name in ipairs(names) do
      list[(k + 1) * n + i] = name and state_tensor(self, p, name) or false
    end
  end
  return list
end

-- Returns whether the step was done.
local function update(self)
  local grads = take_grads(self)
  local scale = self.clip_norm > 0 and clip_factor(self, grads) or (self.clip_norm <= 0 and 1 or nil)
  if scale then
    for _, group in ipairs(self.groups) do
      local lr = self:lr_of(group)
      for age, batch in pairs(by_age(self, group, grads)) do
        self:update(group, batch, grads, {lr = lr, age = age, grad_scale = scale})
        for _, p in ipairs(batch) do self.state[p].step = age + 1 end
      end
    end
  else
    self.skipped = self.skipped + 1
  end
  for _, grad in pairs(grads) do grad:free() end
  self.steps = self.steps + 1
  if not self.position then self.lr = self:lr_of(self.groups[1]) end -- of the next step; set_position does it otherwise
  return scale ~= nil
end

--- The arithmetic of a step alone: for loops over several optimisers, whose common step ends elsewhere.
function Optimizer:apply() return core.no_grad(update, self) end

local function ended(self)
  core.step_end()
  hooks.step(self)
end

--- One step with the gradients as they are; the training step ends here. With clip_norm the gradients' common norm is
-- held to it, and a step whose norm is not finite is skipped and counted in opt.skipped.
function Optimizer:step()
  self:apply()
  ended(self)
end

--- loss:backward(), step, zero_grad.
function Optimizer:backward_step(loss)
  check.arg(1, "backward_step", "tensor", loss):backward()
  self:apply()
  self:zero_grad()
  ended(self)
end

-- ---- state ----

local function ordered_params(self)
  local out = {}
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do out[#out + 1] = p end
  end
  return out
end

--- {steps, groups = options of each, state = by number of the parameter: {step, name = tensor}}
function Optimizer:state_dict()
  local out = {steps = self.steps, groups = {}, state = {}}
  for i, group in ipairs(self.groups) do
    out.groups[i] = {}
    for key, value in pairs(group) do
      if key ~= "params" and not schedule.is(value) then out.groups[i][key] = value end
    end
  end
  for i, p in ipairs(ordered_params(self)) do out.state[i] = self.state[p] or {step = 0} end
  return out
end

--- Continues from a state_dict of an optimiser with the same groups; tensors are copied.
-- errs value: other numbers of groups or parameters
function Optimizer:load_state_dict(state)
  check.arg(1, "load_state_dict", "table", state)
  local params = ordered_params(self)
  if #state.groups ~= #self.groups or #state.state ~= #params then
    check.fail(self.name, ("the state has %d groups and %d parameters, the optimiser %d and %d"):format(
      #state.groups, #state.state, #self.groups, #params))
  end
  for i, group in ipairs(self.groups) do
    for key, value in pairs(state.groups[i]) do
      if not (key == "lr" and schedule.is(group.lr)) then group[key] = value end
    end
  end
  self.steps, self.state = state.steps, {}
  for i, p in ipairs(params) do
    local s = {}
    for key, value in pairs(state.state[i]) do s[key] = core.is_tensor(value) and value:clone():keep() or value end
    self.state[p] = s
  end
  self.lr = self:lr_of(self.groups[1])
end

Optimizer.__tostring = function(self)
  return ("%s(%d groups, %d parameters, lr %g)"):format(self.name, #self.groups, #ordered_params(self), self.lr)
end

return Optimizer
