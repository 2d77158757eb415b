-- join.lua: several optimizers as one: each has its own parameters and settings, the step is common.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local Control = require "optim.control"
local check = require "check"
local clip = require "optim.clip"
local dist = require "dist"

local Joined = {name = "optim.join"}

-- Numbers that live on the device until somebody asks.
local on_device = {
  skipped = function(self)
    if self.control then return self.control:read().skipped end
    local sum = 0
    for _, opt in ipairs(self.optimizers) do sum = sum + opt.skipped end
    return sum
  end,
  clipped = function(self) return self.control and self.control:clipped() or 0 end,
  loss_scale = function(self) return self.control and self.control:read().loss_scale or self.former.loss_scale end,
  growths = function(self) return self.control and self.control:read().growths or self.former.growths or 0 end,
}
Joined.__index = function(self, key)
  if on_device[key] then return on_device[key](self) end
  return Joined[key]
end

local function no_shared_parameters(optimizers)
  local owner = {}
  for i, opt in ipairs(optimizers) do
    for _, group in ipairs(opt.groups) do
      for _, p in ipairs(group.params) do
        if owner[p] then
          check.fail("optim.join", ("a parameter is in optimizers %d and %d"):format(owner[p], i))
        end
        owner[p] = i
      end
    end
  end
end

--- Several optimizers that step together, e.g. Muon for the matrices and AdamW for everything else.
-- in   a list of optimizers without common parameters; lr of the whole is that of the first
-- opts clip_norm = 0 (off): the common length of all gradients; clip_value = 0 (off): each of them;
--      loss_scale = "auto" (where gradients pass through fp16), "none", or a table as of any optimizer: one scale for
--      all. A gradient that is not finite, whosever it is, then skips the step of all.
-- out  an optimizer: step, backward, backward_step, zero_grad, set_lr(lr, index of the optimizer), state_dict,
--      load_state_dict
-- errs value: not a list of optimizers; a parameter in two of them
local function join(optimizers, opts)
  check.arg(1, "join", "table", optimizers)
  if #optimizers == 0 then check.fail("optim.join", "the list of optimizers is empty") end
  for i, opt in ipairs(optimizers) do
    if type(opt) ~= "table" or not opt.groups or not opt.apply then
      check.fail("optim.join", ("entry %d is a %s, not an optimizer"):format(i, core.typename(opt)))
    end
  end
  no_shared_parameters(optimizers)
  local o = check.options("optim.join",
    {{"loss_scale", "string", "table", default = "auto"}, {"clip_norm", "number", default = 0},
    {"clip_value", "number", default = 0}}, opts)
  local self = setmetatable({optimizers = optimizers, groups = {}, steps = 0, former = {}, clip_norm = 0,
    clip_looks = 0, scale = Control.read_option("optim.join", o.loss_scale)}, Joined)
  for _, opt in ipairs(optimizers) do
    for _, group in ipairs(opt.groups) do self.groups[#self.groups + 1] = group end
  end
  self.lr = optimizers[1].lr
  if o.clip_norm > 0 or o.clip_value > 0 then self:set_clip{norm = o.clip_norm, value = o.clip_value} end
  if dist.parallel then dist.parallel.joined(self, optimizers) end
  return self
end

local function each(self, method, ...)
  for _, opt in ipairs(self.optimizers) do opt[method](opt, ...) end
  self.lr = self.optimizers[1].lr
end

function Joined:zero_grad(opts)
  each(self, "zero_grad", opts)
  self.scaled, self.unscaled = false, false
end
function Joined:make_states() each(self, "make_states") end
function Joined:set_lr_factor(factor) each(self, "set_lr_factor", factor) end

--- Holds the gradients of all to a common norm, or each of them to a value; see capl.optim.SGD. 0 is off.
function Joined:set_clip(opts)
  for i, opt in ipairs(self.optimizers) do
    if opt.clip_norm > 0 or (opt.clip_value > 0 and opt.clip_value ~= self.clip_value) then
      check.fail("optim.join", ("optimizer %d clips by itself; clip there or in common"):format(i))
    end
  end
  clip.set(self, opts)
  each(self, "set_clip", {value = self.clip_value})
end

function Joined:set_position(share) each(self, "set_position", share) end

--- Sets the learning rate of one of the optimizers; of all of them without index.
function Joined:set_lr(lr, index)
  for i, opt in ipairs(self.optimizers) do
    if index == nil or i == index then opt:set_lr(lr) end
  end
  self.lr = self.optimizers[1].lr
end

local function make_control(self)
  local f = self.former
  self.control = Control.new{device = self.groups[1].params[1].device, groups = 1, scale = self.scale,
    steps = self.steps, skipped = f.skipped, loss_scale = f.loss_scale, tracker = f.tracker, growths = f.growths}
end

--- The control that all of them share, made at first use: it holds the loss scale.
function Joined:ensure_control()
  if not self.control then observer:before_launch(make_control, self) end
  return self.control
end

-- One decision for all, from the gradients of all.
local function decide(self)
  local list = {}
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do list[#list + 1] = p.grad end
  end
  if #list == 0 then return end
  local norm = core.op.grad_norm(list)
  self.control:decide(norm, {scaled = self.scaled or false, max_norm = self.clip_norm})
  norm:free()
  for _, grad in ipairs(list) do grad:free() end
end

local function count(self)
  self.steps, self.scaled, self.unscaled, self.lr = self.steps + 1, false, false, self.optimizers[1].lr
  if self.clip_norm > 0 or self.optimizers[1].clip_value > 0 then self.clip_looks = self.clip_looks + 1 end
end

function Joined:apply()
  if dist.parallel then dist.parallel.finish(self) end
  observer:gradients(self)
  local common = self.scaled or self.guard or self.clip_norm > 0 -- guard: a step that is not finite is left out
  if common then
    self:ensure_control()
    core.no_grad(decide, self)
  end
  for _, opt in ipairs(self.optimizers) do opt:apply_with(common and self.control or nil) end
  observer:each_time(count, self)
end

local function notify(self)
  core.step_end()
  observer:step(self)
end

function Joined:step(closure)
  check.nothing("optim.join: step", closure)
  self:apply()
  observer:each_time(notify, self)
end

--- As of any optimizer, see capl.optim.SGD: for sums of gradients, and for both at once.
function Joined:backward(loss) Control.backward(self, check.arg(1, "backward", "tensor", loss)) end

function Joined:backward_step(loss)
  Control.backward(self, check.arg(1, "backward_step", "tensor", loss), true)
  self:apply()
  self:zero_grad()
  observer:each_time(notify, self)
end

--- {steps, optimizers = the state_dict of each, and after fp16: skipped, loss_scale, tracker, growths}
function Joined:state_dict()
  local f = self.control and self.control:read() or self.former
  local out = {steps = self.steps, optimizers = {}, skipped = f.skipped, loss_scale = f.loss_scale, tracker = f.tracker,
    growths = f.growths}
  for i, opt in ipairs(self.optimizers) do out.optimizers[i] = opt:state_dict() end
  return out
end

function Joined:load_state_dict(state)
  if type(state.optimizers) ~= "table" or #state.optimizers ~= #self.optimizers then
    check.fail("optim.join", ("the state is of %d optimizers, there are %d"):format(
      type(state.optimizers) == "table" and #state.optimizers or 1, #self.optimizers))
  end
  for i, opt in ipairs(self.optimizers) do opt:load_state_dict(state.optimizers[i]) end
  core.structure(true)
  self.steps, self.lr, self.control = state.steps, self.optimizers[1].lr, nil
  self.former = {skipped = state.skipped, loss_scale = state.loss_scale, tracker = state.tracker,
    growths = state.growths}
end

--- What load_state_dict takes, as train/saved_state.lua reads it.
function Joined:state_shape()
  local out = {steps = "count", optimizers = {}, skipped = "count?", loss_scale = "amount?", tracker = "count?",
    growths = "count?"}
  for i, opt in ipairs(self.optimizers) do out.optimizers[i] = opt:state_shape() end
  return out
end

Joined.__tostring = function(self)
  local parts = {}
  for i, opt in ipairs(self.optimizers) do parts[i] = tostring(opt) end
  return "optim.join{" .. table.concat(parts, ", ") .. "}"
end

return join
