-- progress.lua: one line every few seconds: step, loss, learning rate, images per second, time left.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local run = require "run"

local progress = {}
progress.__index = progress

local function duration(seconds)
  if seconds >= 3600 then return ("%d:%02d:%02d"):format(seconds / 3600, seconds / 60 % 60, seconds % 60) end
  return ("%d:%02d"):format(seconds / 60, seconds % 60)
end

--- A meter for a training loop.
-- opts  steps = how many there will be; every = seconds between two lines (5)
local function new(opts)
  local now = core.clock()
  return setmetatable({
    steps = opts.steps, every = opts.every or 5, step_number = 0, images = 0,
    started = now, shown = now, shown_images = 0,
  }, progress)
end

function progress:seconds() return core.clock() - self.started end

--- Images per second since the start.
function progress:rate() return self.images / math.max(self:seconds(), 1e-9) end

local function value(x) return type(x) == "number" and x or x:item() end

--- Counts a step of `images` images; prints when it is time. loss: a number or a scalar tensor, which is read
-- only when a line is printed. lr: number.
function progress:step(images, loss, lr)
  self.step_number = self.step_number + 1
  self.images = self.images + images
  local now = core.clock()
  if now - self.shown < self.every and self.step_number < self.steps and self.step_number > 1 then return end
  local rate = (self.images - self.shown_images) / math.max(now - self.shown, 1e-9)
  local left = (self.steps - self.step_number) / self.step_number * (now - self.started)
  run.print(("step %6d/%d  loss %.4f  lr %.5f  %5.0f images/s  left %s"):format(
    self.step_number, self.steps, value(loss), lr, rate, duration(left)))
  self.shown, self.shown_images = now, self.images
end

return {new = new}
