-- clip.lua: the keys clip_norm and clip_value of train.fit: the optimizer holds the gradients (optim/clip.lua).
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"

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
  fit.run:add_feature{name = ("%s = %g"):format(key, o[key]), what = "steps whose gradients were held to it",
    count = function() return counter.n end}
  return setmetatable({fit = fit, key = key, counter = counter, before = {looks = 0, clipped = 0}}, Clip)
end

-- Of this process and of the run that it resumes: steps that were looked at.
local function looks(self) return self.before.looks + self.fit.optimizer.clip_looks end

-- How many of them were too long. Known on the device alone.
local function clipped(self) return self.before.clipped + self.fit.optimizer.clipped end

function Clip:after_step() self.counter.n = looks(self) end

--- The device is asked once.
function Clip:finish(result)
  if self.key ~= "clip_norm" then return end
  result.clipped_steps = clipped(self)
  self.fit.run:print(("clip_norm = %g: the gradients of %d of %d steps were longer"):format(self.fit.o.clip_norm,
    result.clipped_steps, self.counter.n))
end

function Clip:state() return {looks = looks(self), clipped = clipped(self)} end

function Clip:set_state(state)
  local optimizer = self.fit.optimizer
  self.before = {looks = state.looks - optimizer.clip_looks, clipped = state.clipped - optimizer.clipped}
  self.counter.n = state.looks
end

function Clip.state_shape() return {looks = "number", clipped = "number"} end

return {name = "clip", spec = {{"clip_norm", "number"}, {"clip_value", "number"}}, read = read, new = new}
