-- optimizer.lua: what all optimizers share: parameter groups, the step's contract, clipping, state.
--
-- A subclass states its options, the op that does the arithmetic, and which state tensors a parameter has.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local Control = require "optim.control"
local check = require "check"
local clip = require "optim.clip"
local dist = require "dist"
local parameters_of = require "parameters"
local schedule = require "optim.schedule"

local Optimizer = {}

-- Options that are valid for every optimizer as a whole, not per group.
local common = {{"clip_norm", "number", default = 0}, {"clip_value", "number", default = 0},
  {"loss_scale", "string", "table", default = "auto"}}

-- Numbers that live on the device until somebody asks.
local on_device = {
  skipped = function(self) return self.control and self.control:read().skipped or self.former.skipped or 0 end,
  grad_norm = function(self) return self.control and self.control:read().norm end,
  loss_scale = function(self) return self.control and self.control:read().loss_scale or self.former.loss_scale end,
  clipped = function(self) return self.control and self.control:clipped() or 0 end,
  growths = function(self) return self.control and self.control:read().growths or self.former.growths or 0 end,
}

-- Of PyTorch's optimizers, and what there is instead.
local instead = {
  param_groups = "opt.groups has the options of each; opt.lr and opt:set_lr(lr[, group]) the learning rates",
  add_param_group = "give all groups when it is made: optim.SGD({{params = …, lr = …}, …})",
}

local function read_lr(lr)
  if schedule.is(lr) then return lr end
  if type(lr) == "number" and lr >= 0 and lr < math.huge then return lr end
  return nil
end

-- entry of a spec with another default.
local function entry_with(entry, default)
  local out = {}
  for key, value in pairs(entry) do out[key] = value end
  out.default = default
  return out
end

local function check_group(name, group)
  if not read_lr(group.lr) then
    check.fail(name, ("lr must be a number from 0 on or a schedule, got %s"):format(
      type(group.lr) == "number" and ("%g"):format(group.lr) or core.typename(group.lr)))
  end
  if #group.params == 0 then check.fail(name, "there are no parameters", "give model:parameters()") end
  for i, p in ipairs(group.params) do
    if not core.is_tensor(p) then
      check.fail(name, ("parameter %d is a %s, not a tensor"):format(i, core.typename(p)))
    end
    if not p.is_leaf then
      check.fail(name, ("parameter %d is the result of an op; only leaves can be trained"):format(i))
    end
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
  check.list(self.name, check.arg(1, self.name, "table", params),
    "options are a second table; groups are tables in the list")
  local groups = params
  if core.is_tensor(params[1]) or #params == 0 then groups = {{params = params}} end
  local out = {}
  for i, given in ipairs(groups) do
    check.arg(1, self.name, "table", given)
    local spec = {{"params", "table", required = true}}
    for k, entry in ipairs(self.spec) do spec[k + 1] = entry_with(entry, defaults[entry[1]]) end
    out[i] = check.options(self.name, spec, given)
    check_group(self.name, out[i])
    if self.check_group then self.check_group(out[i]) end
  end
  no_duplicates(self.name, out)
  return out
end

--- A class of optimizers. spec: its options as in check.arguments. update(self, group, batch, attrs): runs the op.
function Optimizer.class(name, spec)
  local class = {name = "optim." .. name, spec = spec}
  class.__index = function(self, key)
    local read = on_device[key]
    if read then return read(self) end
    if instead[key] then check.fail(class.name, ("there is no %s"):format(key), instead[key]) end
    return class[key]
  end
  class.__tostring = Optimizer.__tostring
  return setmetatable(class, {
    __index = Optimizer,
    __call = function(_, params, opts)
      local self = setmetatable({state = {}, steps = 0, former = {}}, class)
      local all = {}
      for i, entry in ipairs(spec) do
        all[i] = entry_with(entry, entry.default)
        all[i].required = nil -- of each group only
      end
      for _, entry in ipairs(common) do all[#all + 1] = entry end
      local options = check.options(class.name, all, opts)
      self.given = opts or {} -- what the recipe itself said
      self.clip_looks, self.lr_factor = 0, 1
      self:set_clip{norm = options.clip_norm, value = options.clip_value}
      self.scale = Control.read_option(class.name, options.loss_scale)
      self.groups = read_groups(self, params, options)
      if class.check_parameters then class.check_parameters(self.groups) end
      self.lr = self:lr_of(self.groups[1])
      if dist.parallel then dist.parallel.attach(self) end
      return self
    end,
  })
end

--- The learning rate a group will use in the next step.
function Optimizer:lr_of(group)
  local lr = schedule.is(group.lr) and group.lr:lr(self.steps, self.position) or group.lr
  return lr * self.lr_factor
end

--- Multiplies the learning rates of all groups and schedules; optim.lr_factor computes the factor for a batch size.
function Optimizer:set_lr_factor(factor)
  if not (check.arg(1, "set_lr_factor", "number", factor) > 0 and factor < math.huge) then
    check.bad(1, "set_lr_factor", ("a number above 0 expected, got %g"):format(factor))
  end
  self.lr_factor = factor
  self.lr = self:lr_of(self.groups[1])
end

--- Clips the gradients of later steps: norm, their total norm; or value, each element. 0 is off.
function Optimizer:set_clip(opts) clip.set(self, opts) end

--- Sets the completed share of the run, 0 to 1, for schedules over the whole "run". train.fit does it before each step.
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

--- Releases all gradients and their memory.
function Optimizer:zero_grad(opts)
  check.nothing(self.name .. ": zero_grad", opts)
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do p:zero_grad() end
  end
  self.scaled, self.unscaled = false, false
end

-- ---- the step ----

-- Handles of all gradients: by parameter, and as a list.
local function take_grads(self)
  local grads, list = {}, {}
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do
      grads[p] = p.grad
      list[#list + 1] = grads[p]
    end
  end
  return grads, list
end

-- The numbers of a step are kept on the device where the host must not wait for them, and where they decide something.
local function wants_control(self, with)
  return self.control or with or self.scaled or self.guard or self.clip_norm > 0 or self.clip_value > 0 or
    self.groups[1].params[1].device:match("^cuda") ~= nil
end

-- From now on the state of a parameter says by how many steps it is behind the control.
local function make_control(self)
  local f, steps = self.former, 0
  for _, s in pairs(self.state) do steps = math.max(steps, s.step) end
  self.control = Control.new{device = self.groups[1].params[1].device, groups = #self.groups, scale = self.scale,
    steps = steps, skipped = f.skipped, loss_scale = f.loss_scale, tracker = f.tracker, growths = f.growths}
end

--- The step control, made at first use.
function Optimizer:ensure_control()
  if not self.control then observer:before_launch(make_control, self) end
  return self.control
end

-- Steps a parameter has made, if that is known without its control.
local function state_of(self, p)
  local s = self.state[p]
  if not s then
    s = {step = 0}
    self.state[p] = s
  end
  return s
end

-- A parameter comes (back) to the step, or leaves it. The number of steps may have to be asked for, which is no part of
-- a step that is watched or captured.
local function comes(s, control) s.behind, s.step = control:steps() - s.step, nil end
local function goes(s, control) s.step, s.behind = control:steps() - s.behind, nil end

-- Parameters with a gradient by the number of steps they have made, or with a control: that they are behind.
-- -> {number = {params}}. Only a parameter that comes or goes may make the host ask the device.
local function batches_of(self, group, grads)
  local batches, control = {}, self.control
  for _, p in ipairs(group.params) do
    local s = self.state[p]
    if grads[p] then
      s = state_of(self, p)
      if control and not s.behind then observer:before_launch(comes, s, control) end
      local key = control and s.behind or s.step
      batches[key] = batches[key] or {}
      table.insert(batches[key], p)
    elseif s and s.behind then
      observer:before_launch(goes, s, control)
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

--- Allocates the states of all parameters now instead of at the first step.
function Optimizer:make_states()
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do
      if p.requires_grad then
        state_of(self, p)
        for _, name in pairs(self:state_names(group)) do
          if name then state_tensor(self, p, name) end
        end
      end
    end
  end
end

--- For subclasses: params, grads and states of a batch in the order the op wants, then the control if there is one.
function Optimizer:inputs(batch, grads, names, how)
  local list, n = {}, #batch
  for i, p in ipairs(batch) do
    list[i], list[n + i] = p, grads[p]
    for k, name in ipairs(names) do
      list[(k + 1) * n + i] = name and state_tensor(self, p, name) or false
    end
  end
  list[(#names + 2) * n + 1] = how.control and how.control.vector
  return list
end

local function rates(self)
  local out = {}
  for i, group in ipairs(self.groups) do out[i] = self:lr_of(group) end
  return out
end

-- Writes the learning rates of this step to the device. A recorded step does not do it: it is done before each of its
-- launches.
local function write_rates(self) core.no_grad(Control.set_rates, self.control, rates(self)) end

-- Decides on the device whether and how this step is made. guard: one that is not finite is left out, whoever asks.
local function decide(self, list, with)
  local norm = (self.clip_norm > 0 or self.scaled or self.guard) and core.op.grad_norm(list) or nil
  self.control:decide(norm, {max_norm = self.clip_norm, scaled = self.scaled, common = with})
  if norm then norm:free() end
  if self.clip_value > 0 then core.scope(clip.hold, list, self.clip_value / self.control:multiplier()) end
end

-- What a batch's op wants to know: the numbers themselves, or the control and where in it they are.
local function numbers(self, i, key)
  if self.control then
    return {lr = 0, step = 1, first = false, control = self.control, group = i - 1, behind = key}
  end
  return {lr = self:lr_of(self.groups[i]), step = key + 1, first = key == 0, group = 0, behind = 0}
end

local function update_groups(self, gradients)
  local grads, batches = unpack(gradients)
  for i, group in ipairs(self.groups) do
    for key, batch in pairs(batches[i]) do
      self:update(group, batch, grads, numbers(self, i, key))
      if not self.control then
        for _, p in ipairs(batch) do self.state[p].step = key + 1 end
      end
    end
  end
end

-- Counts a step and forgets how its gradients were made.
local function count(self)
  self.steps, self.scaled, self.unscaled = self.steps + 1, false, false
  if self.clip_norm > 0 or self.clip_value > 0 then self.clip_looks = self.clip_looks + 1 end
  if not self.position then self.lr = self:lr_of(self.groups[1]) end -- of the next step; set_position does it otherwise
end

-- with: the control of several optimizers that step together
local function update(self, with)
  local grads, list = take_grads(self)
  if wants_control(self, with) then
    self:ensure_control()
    observer:before_launch(write_rates, self)
  end
  if #list > 0 then
    local batches = {}
    for i, group in ipairs(self.groups) do batches[i] = batches_of(self, group, grads) end
    if self.control then
      decide(self, list, with)
      update_groups(self, {grads, batches})
    else -- the numbers of the step are in its ops, so no device can repeat them
      observer:before_launch(update_groups, self, {grads, batches})
    end
  end
  for _, grad in ipairs(list) do grad:free() end
  observer:each_time(count, self)
end

--- For optim.join: the arithmetic of a step that several optimizers make together; with: their common control, if any.
function Optimizer:apply_with(with) core.no_grad(update, self, with) end

--- The update of a step alone: for loops over several optimizers with a common end of the step.
function Optimizer:apply()
  if dist.parallel then dist.parallel.finish(self) end
  observer:gradients(self)
  self:apply_with(nil)
end

local function notify(self)
  core.step_end()
  observer:step(self)
end
local function ended(self) observer:each_time(notify, self) end

--- One update with the current gradients; the training step ends here. With clip_norm the gradients' common norm is
-- held to it, and a step whose norm is not finite is skipped and counted in opt.skipped.
function Optimizer:step(closure)
  check.nothing(self.name .. ": step", closure)
  self:apply()
  ended(self)
end

--- loss:backward() with loss scaling: where gradients pass through fp16, the loss is multiplied by the loss scale, and
-- the next opt:step() divides by it. For loops that sum the gradients of several losses before a step.
function Optimizer:backward(loss) Control.backward(self, check.arg(1, "backward", "tensor", loss)) end

--- loss:backward(), step, zero_grad. Gradients that pass through fp16 are scaled: opt.loss_scale doubles after 2000
-- good steps and halves when a gradient is not finite; such a step changes nothing and is counted in opt.skipped.
function Optimizer:backward_step(loss)
  Control.backward(self, check.arg(1, "backward_step", "tensor", loss), true)
  self:apply()
  self:zero_grad()
  ended(self)
end

-- ---- state ----

-- State of a parameter with the number of its steps.
local function saved_state(self, p)
  local out = {step = 0}
  for key, value in pairs(self.state[p] or {}) do out[key] = value end
  if out.behind then out.step, out.behind = self.control:steps() - out.behind, nil end
  return out
end

--- {steps, groups = options of each, state = by number of the parameter: {step, name = tensor}, skipped, and after fp16
-- loss_scale, tracker = good steps since it changed, growths}
function Optimizer:state_dict()
  local f = self.control and self.control:read() or self.former
  local out = {steps = self.steps, groups = {}, state = {}, skipped = f.skipped or 0, loss_scale = f.loss_scale,
    tracker = f.loss_scale and f.tracker, growths = f.loss_scale and f.growths}
  for i, group in ipairs(self.groups) do
    out.groups[i] = {}
    for key, value in pairs(group) do
      if key ~= "params" and not schedule.is(value) then out.groups[i][key] = value end
    end
    if schedule.is(group.lr) then out.groups[i].schedule = group.lr:state() end
  end
  for i, p in ipairs(parameters_of(self)) do out.state[i] = saved_state(self, p) end
  return out
end

--- Continues from a state_dict of an optimizer with the same groups; tensors are copied.
-- errs value: other numbers of groups or parameters
function Optimizer:load_state_dict(state)
  check.arg(1, "load_state_dict", "table", state)
  local params = parameters_of(self)
  if #state.groups ~= #self.groups or #state.state ~= #params then
    check.fail(self.name, ("the state has %d groups and %d parameters, the optimizer %d and %d"):format(
      #state.groups, #state.state, #self.groups, #params))
  end
  for i, group in ipairs(self.groups) do
    for key, value in pairs(state.groups[i]) do
      if key == "schedule" then
        if schedule.is(group.lr) then group.lr:set_state(value) end
      elseif not (key == "lr" and schedule.is(group.lr)) then
        group[key] = value
      end
    end
  end
  core.structure(true)
  self.steps, self.state, self.control = state.steps, {}, nil
  self.former = {skipped = state.skipped, loss_scale = state.loss_scale, tracker = state.tracker,
    growths = state.growths}
  for i, p in ipairs(params) do
    local s = {}
    for key, value in pairs(state.state[i]) do s[key] = core.is_tensor(value) and value:clone():keep() or value end
    self.state[p] = s
  end
  self.lr = self:lr_of(self.groups[1])
end

-- An option as it is; one that is not there now may not come.
local function shape_of_option(value)
  if type(value) ~= "table" then return type(value) == "string" and "text" or type(value) end
  local out = {}
  for key, entry in pairs(value) do out[key] = shape_of_option(entry) end
  return out
end

local function shape_of_group(group)
  local out = {["*"] = "plain", params = "none"}
  for key, value in pairs(group) do
    if key == "lr" and schedule.is(value) then
      out.schedule = value:state_shape()
      out.schedule["?"] = true -- an override of lr was in its place
    elseif key ~= "params" then
      out[key] = shape_of_option(value)
      if type(out[key]) == "string" then out[key] = out[key] .. "?" end -- earlier versions did not have it
    end
  end
  return out
end

--- What load_state_dict takes, as train/saved_state.lua reads it.
function Optimizer:state_shape()
  local out = {steps = "count", groups = {}, state = {}, skipped = "count?", loss_scale = "amount?", tracker = "count?",
    growths = "count?"}
  for i, group in ipairs(self.groups) do out.groups[i] = shape_of_group(group) end
  for i, p in ipairs(parameters_of(self)) do out.state[i] = {step = "count", ["*"] = p} end
  return out
end

Optimizer.__tostring = function(self)
  return ("%s(%d groups, %d parameters, lr %g)"):format(self.name, #self.groups, #parameters_of(self), self.lr)
end

return Optimizer
