-- clip.lua: the keys clip_norm and clip_value of train.fit: the optimiser holds the gradients (optim/clip.lua).
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local run = require "run"

local OP = "train.fit"

local Clip = {}
Clip.__index = Clip

local function read(o)
  local optimizer = o.optimizer
  for _, key in ipairs{"clip_norm", "clip_value"} do
    local own = optimizer[key] or 0
    if o[key] and own > 0 and own ~= o[key] then
      check.fail(OP, ("%s = %g here and %g in the optimizer; give one"):format(key, o[key], own))
    end
  end
end

local function new(fit)
  local o, optimizer = fit.o, fit.optimizer
  if not o.clip_norm and not o.clip_value then return nil end
  optimizer:set_clip{norm = o.clip_norm, value = o.clip_value}
  local key = (o.clip_norm or 0) > 0 and "clip_norm" or "clip_value"
  if (o[key] or 0) == 0 then return nil end
  local counter = {n = 0}
  run.add_feature{name = ("%s = %g"):format(key, o[key]), what = "steps whose gradients were held to it",
    count = function() return counter.n end}
  return setmetatable({fit = fit, key = key, counter = counter}, Clip)
end

function Clip:after_step() self.counter.n = self.fit.optimizer.clip_looks end

--- How often the gradients were too long is known on the device alone, and asked once.
function Clip:finish(result)
  if self.key ~= "clip_norm" then return end
  result.clipped_steps = self.fit.optimizer.clipped
  run.print(("clip_norm = %g: the gradients of %d of %d steps were longer"):format(self.fit.o.clip_norm, result.clipped_steps,
    self.counter.n))
end

return {name = "clip", spec = {{"clip_norm", "number"}, {"clip_value", "number"}}, read = read, new = new}
