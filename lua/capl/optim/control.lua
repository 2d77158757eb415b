-- control.lua: the step control of an optimizer: a vector in device memory in which a step's numbers live.
--
-- Whether the gradients are finite, how they are clipped, the loss scale, the learning rates and the number of the step
-- are read and written by ops (capl ops step_control), so a step never waits for the host. The host reads them when
-- asked.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local dist = require "dist"

local Control = {}
Control.__index = Control

-- Places in the vector, from 1; the learning rates of the groups follow.
local SCALE, TRACKER, STEPS, SKIPPED, MULTIPLIER, SKIP, NORM, GROWTHS, LR = 1, 2, 3, 4, 5, 6, 7, 8, 9

local scale_spec = {
  {"init_scale", "number", default = 65536}, {"growth_factor", "number", default = 2},
  {"backoff_factor", "number", default = 0.5}, {"growth_interval", "whole", default = 2000},
}

--- Reads the option loss_scale of an optimizer: "auto" (where gradients are f16), "none", or a table: always, with
-- these numbers (names and defaults of PyTorch's GradScaler).
function Control.read_option(name, given)
  if given == "none" then return {when = "never"} end
  if given ~= "auto" and type(given) ~= "table" then
    check.fail(name, ("loss_scale is auto, none or a table, got '%s'"):format(tostring(given)),
      "e.g. loss_scale = {init_scale = 65536, growth_interval = 2000}")
  end
  local o = check.options(name .. ": loss_scale", scale_spec, type(given) == "table" and given or {})
  if not (o.init_scale > 0 and o.growth_factor >= 1 and o.backoff_factor > 0 and o.backoff_factor < 1
    and o.growth_interval > 0) then
    check.fail(name, "loss_scale: init_scale > 0, growth_factor >= 1, backoff_factor between 0 and 1, " ..
      "growth_interval > 0")
  end
  o.when = given == "auto" and "f16" or "always"
  return o
end

--- A new vector. opts: device, groups = how many, scale = of read_option, and what a former one held: steps, skipped,
-- loss_scale, tracker, growths
function Control.new(opts)
  local self = setmetatable({
    vector = core.zeros({LR - 1 + opts.groups}, {device = opts.device}):keep(), scale = opts.scale, rates = {},
    scaling = opts.loss_scale ~= nil, -- whether a loss was ever scaled
    known_steps = opts.steps or 0, -- steps made, nil while only the device knows
    half = core.full({1}, 0.5, {device = opts.device}):keep(),
  }, Control)
  local values = {[SCALE] = opts.loss_scale or 1, [TRACKER] = opts.tracker, [STEPS] = opts.steps,
    [SKIPPED] = opts.skipped, [MULTIPLIER] = 1, [GROWTHS] = opts.growths}
  for place = 1, LR - 1 do
    if values[place] then self.vector:narrow(1, place, 1):fill_(values[place]) end
  end
  self.one = self.vector:narrow(1, SCALE, 1):keep()
  return self
end

local function element(self, place) return self.vector:narrow(1, place, 1) end

--- The learning rates of the groups for the next step. What has not changed is not written again, so that a step that
-- is replayed from a recording writes nothing.
function Control:set_rates(rates)
  for i, lr in ipairs(rates) do
    if self.rates[i] ~= lr then element(self, LR - 1 + i):fill_(lr) end
    self.rates[i] = lr
  end
end

local function start_scaling(self)
  element(self, SCALE):fill_(self.scale.init_scale)
  self.scaling, self.values = true, nil
end

--- The loss scale as a tensor that backward can start from.
function Control:seed()
  if not self.scaling then observer:before_launch(start_scaling, self) end
  return element(self, SCALE)
end

local function make_held(self) self.held = core.zeros({1}, {device = self.vector.device}):keep() end

-- Counts on the device how often the norm was above its limit.
local function count_clipped(self, max_norm)
  if not self.held then observer:before_launch(make_held, self) end
  local above = core.op.gt(element(self, NORM), self.half * (2 * max_norm))
  self.held:copy_(core.op.where(above, self.held + 1, self.held))
end

--- Decides about a step. norm: of the gradients, nil = nobody looked; how: {max_norm =, scaled =, common = Control}
function Control:decide(norm, how)
  local o = self.scale
  core.op.step_control(self.vector, norm, how.common and how.common.vector, {
    max_norm = how.max_norm or 0, scaling = how.scaled or false, growth_factor = o.growth_factor,
    backoff_factor = o.backoff_factor, growth_interval = o.growth_interval,
  })
  self.may_skip = norm ~= nil or how.common ~= nil
  if (how.max_norm or 0) > 0 then count_clipped(self, how.max_norm) end
  observer:each_time(Control.decided, self)
end

--- Steps whose gradients were longer than max_norm. Waits for the device.
function Control:clipped() return self.held and self.held:item() or 0 end

--- Counts a decision.
function Control:decided()
  self.known_steps = not self.may_skip and self.known_steps and self.known_steps + 1 or nil
  self.values = nil
end

--- Condition of the present step, as a tensor for op.where: true = change nothing.
function Control:skip() return core.op.gt(element(self, SKIP), self.half) end

--- Multiplier of the present step's gradients and rate of a group, as tensors of one element.
function Control:multiplier() return element(self, MULTIPLIER) end
function Control:rate(group) return element(self, LR - 1 + group) end

--- A copy of the vector with multiplier 1, for steps along something that is no gradient any more.
function Control:without_multiplier()
  local copy = self.vector:clone()
  copy:narrow(1, MULTIPLIER, 1):fill_(1)
  return copy
end

--- What the vector holds now: {loss_scale (nil without scaling), tracker, steps, skipped, norm, growths}. Waits for the
-- device, unless nothing happened since the last time.
function Control:read()
  if self.values then return self.values end
  local v = self.vector:tolist()
  self.known_steps = v[STEPS]
  self.values = {loss_scale = self.scaling and v[SCALE] or nil, tracker = v[TRACKER], steps = v[STEPS],
    skipped = v[SKIPPED], norm = v[NORM], growths = v[GROWTHS]}
  return self.values
end

--- Steps made so far; skipped ones do not count. Waits for the device only where a step may have been skipped.
function Control:steps() return self.known_steps or self:read().steps end

-- ---- backward with a loss scale ----

-- Whether the gradients of loss are to be scaled. owner: an optimizer or several joined ones.
local function wants_scale(owner, loss)
  local when = owner.scale.when
  if when == "never" then return false end
  if when == "always" or (owner.control and owner.control.scaling) then return true end
  return core.history_has(loss, "f16")
end

-- The scale of an optimizer that does not scale, where the device has one: a 1 that no launch has to write.
local function one_of(owner, loss)
  if not loss.device:match("^cuda") then return nil end
  local control = (owner.optimizers and owner.optimizers[1] or owner):ensure_control()
  return not control.scaling and control.vector.device == loss.device and control.one or nil
end

local function backward(owner, loss, last)
  observer:loss(owner, loss)
  if not wants_scale(owner, loss) then
    owner.unscaled = true
    if last and dist.parallel then dist.parallel.begin(owner) end
    loss:backward(one_of(owner, loss))
    return
  end
  if owner.unscaled then
    core.error{code = "state", op = owner.name, path = false,
      message = "some gradients of this step were summed without loss scale, this loss needs one",
      hint = "compute all parts of a step in one precision, or give loss_scale = {} to the optimizer"}
  end
  owner.scaled = true
  local seed = core.no_grad(function() return owner:ensure_control():seed() end)
  if last and dist.parallel then dist.parallel.begin(owner) end
  loss:backward(seed)
end

--- loss:backward() for the optimizer owner: started from the loss scale where gradients pass through f16. last: the
-- step
--- follows, so ranks may begin to average what is complete.
function Control.backward(owner, loss, last)
  observer:phase("backward")
  backward(owner, loss, last)
  observer:phase("forward") -- of the next part of the batch, if this is not the last one
end

return Control
