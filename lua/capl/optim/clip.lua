-- clip.lua: gradients held to a length or to a range, on the device that has them: the host never waits.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local dist = require "dist"

local clip = {}

local function is_limit(value) return value >= 0 and value < math.huge end

--- What opt:set_clip does, of one optimizer or of several joined ones.
function clip.set(opt, opts)
  local o = check.options(opt.name .. ": clip", {{"norm", "number", default = 0}, {"value", "number", default = 0}},
    opts)
  for key, value in pairs(o) do
    if not is_limit(value) then
      check.fail(opt.name, ("clip_%s must be a number from 0 (off) on, got %g"):format(key, value))
    end
  end
  if o.norm > 0 and o.value > 0 then
    check.fail(opt.name, "clip_norm and clip_value both hold the gradients; give one",
      "clip_norm keeps their direction")
  end
  opt.clip_norm, opt.clip_value = o.norm, o.value
end

--- Brings all values of the tensors into -bound..bound, in place. bound: a tensor of one element
function clip.hold(tensors, bound)
  local least = -bound
  for _, t in ipairs(tensors) do t:copy_(core.op.maximum(core.op.minimum(t, bound:to(t.dtype)), least:to(t.dtype))) end
end

-- Gradients of parameters that have one.
local function gradients_of(fname, parameters)
  if core.is_tensor(parameters) then parameters = {parameters} end
  local out = {}
  check.arg(1, fname, "table", parameters)
  if dist.parallel then dist.parallel.average_of(parameters) end -- of all ranks alike
  for _, p in ipairs(parameters) do out[#out + 1] = check.arg(1, fname, "tensor", p).grad end
  return out
end

local function limit(fname, value)
  if check.arg(2, fname, "number", value) > 0 and value < math.huge then return value end
  check.bad(2, fname, ("a number above 0 expected, got %g"):format(value))
end

--- Clips the total norm of the gradients of a list of parameters to max_norm, in place; for custom training loops,
-- between backward and step. Optimizers do it themselves when they are given clip_norm.
-- out  their norm before, a tensor of one element on the device: reading it waits
-- errs value: max_norm is not above 0; gradients that are scaled for fp16 belong to an optimizer's own clip_norm
local function clip_grad_norm_(parameters, max_norm)
  local grads = gradients_of("clip_grad_norm_", parameters)
  limit("clip_grad_norm_", max_norm)
  if #grads == 0 then return core.zeros({1}) end
  return core.no_grad(function()
    local norm = core.op.grad_norm(grads):reshape(1)
    local shorter = core.op.minimum(max_norm / (norm + 1e-6), core.full({1}, 1, {device = norm.device}))
    for _, grad in ipairs(grads) do grad:copy_(grad * shorter:to(grad.dtype)) end
    return norm
  end)
end

--- Clips each element of the gradients of a list of parameters to -value..value, in place.
-- errs value: value is not above 0
local function clip_grad_value_(parameters, value)
  local grads = gradients_of("clip_grad_value_", parameters)
  limit("clip_grad_value_", value)
  if #grads == 0 then return end
  core.no_grad(core.scope, clip.hold, grads, core.full({1}, value, {device = grads[1].device}))
end

clip.clip_grad_norm_, clip.clip_grad_value_ = clip_grad_norm_, clip_grad_value_

return clip
