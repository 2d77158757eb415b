-- lr_range.lua: one sweep: a rising learning rate, the losses along it, and the rate they suggest. Knows nothing of
-- models.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"

local Range = {}
Range.__index = Range

local HALF_WINDOW = 3 -- points on either side that smooth a loss
local FORGET = 0.9 -- of the running mean by which a loss that runs away is seen
local LEAST = 12 -- points before it may stop
local BEGUN = 0.1 -- share of the whole fall after which it counts
-- of the first losses: how often each class comes is learned at nearly any rate, and is less than that
local LEAST_FALL = 0.2
local NOISE = 6 -- standard errors of a smoothed loss that a fall has to be, and a rise
local RISE = 0.25 -- of the fall so far, and
local LEAST_RISE = 0.05 -- of the first losses, by which the loss rises where the rate is too high
local AGAIN = 0.1 -- of the fall, by which a loss that had risen falls below what it was
local INSIDE = 10 -- times the first rate: a suggestion below that says nothing but where the sweep began

local spec = {
  {"min_lr", "number", default = 1e-6}, {"max_lr", "number", default = 10}, {"steps", "whole", default = 100},
  {"diverge", "number", default = 4},
}

--- opts: min_lr, max_lr, steps from one to the other; diverge = times the lowest loss at which it ends
local function new(opts)
  local o = check.options("lr_find", spec, opts)
  if not (o.min_lr > 0 and o.max_lr > o.min_lr and o.max_lr < math.huge) then
    check.fail("lr_find", ("min_lr is above 0 and below max_lr, got %g and %g"):format(o.min_lr, o.max_lr))
  end
  if o.steps < 20 then check.fail("lr_find", ("steps: at least 20, got %d"):format(o.steps)) end
  if not (o.diverge > 1) then check.fail("lr_find", ("diverge is above 1, got %g"):format(o.diverge)) end
  return setmetatable({o = o, lr = {}, loss = {}, mean = 0, best = math.huge}, Range)
end

--- The rate of the next step.
function Range:next_lr()
  local o = self.o
  return o.min_lr * (o.max_lr / o.min_lr) ^ (#self.lr / (o.steps - 1))
end

local function is_finite(x) return x == x and math.abs(x) < math.huge end

--- Notes the loss before the step at next_lr -> whether that was enough.
function Range:add(loss)
  local k = #self.lr + 1
  local lr = self:next_lr()
  if not is_finite(loss) then
    self.stopped = "diverged"
    return true
  end
  self.lr[k], self.loss[k] = lr, loss
  self.mean = FORGET * self.mean + (1 - FORGET) * loss
  local mean = self.mean / (1 - FORGET ^ k)
  if k >= LEAST and mean > self.o.diverge * math.abs(self.best) then self.stopped = "diverged" end
  self.best = math.min(self.best, mean)
  if k == self.o.steps then self.stopped = self.stopped or "max_lr" end
  return self.stopped ~= nil
end

-- Means over neighbours, so that what they show is not late.
function Range:smooth()
  local out = {}
  for i = 1, #self.loss do
    local width = math.min(HALF_WINDOW, i - 1, #self.loss - i)
    local sum = 0
    for k = i - width, i + width do sum = sum + self.loss[k] end
    out[i] = sum / (2 * width + 1)
  end
  return out
end

local function lowest(list)
  local at = 1
  for i, value in ipairs(list) do
    if value < list[at] then at = i end
  end
  return at
end

-- Place where the curve falls fastest per decade of the rate, up to `last`; what it does before it has begun to fall is
-- noise.
local function steepest(smooth, first, last)
  local at, least = nil, 0
  local begun = smooth[first] - BEGUN * (smooth[first] - smooth[last])
  local from = last
  while from > 1 and smooth[from - 1] <= begun do from = from - 1 end
  for i = math.max(from, first), last - 1 do
    local slope = smooth[i + 1] - smooth[i - 1]
    if slope < least then at, least = i, slope end
  end
  return at
end

-- Standard error of a smoothed loss, from how far neighbours of the first `last` losses differ.
local function noise(loss, last)
  local steps = {}
  for i = 1, last - 1 do steps[i] = math.abs(loss[i + 1] - loss[i]) end
  table.sort(steps)
  local median = steps[math.ceil(#steps / 2)] or 0
  return median / (0.6745 * math.sqrt(2)) / math.sqrt(2 * HALF_WINDOW + 1) -- as of a normal distribution
end

-- The first descent: place of its lowest point, and of the clear rise that ends it, if one does.
local function descent(loss, smooth, first)
  local low = first
  for i = first + 1, #smooth do
    if smooth[i] < smooth[low] then low = i end
    local rise = math.max(RISE * (smooth[first] - smooth[low]), LEAST_RISE * math.abs(smooth[first]),
      NOISE * noise(loss, math.max(i, LEAST)))
    if smooth[i] > smooth[low] + rise then return low, i end
  end
  return low, nil
end

-- Why a curve suggests no rate, and which way out there is: "steps", "max_lr" or "min_lr"; nil when it does suggest
-- one.
local function doubt(self, smooth, first, low, rise)
  local from, to = smooth[first], smooth[low]
  local fall = from - to
  if rise and smooth[lowest(smooth)] < to - AGAIN * fall then
    return ("the loss rises at lr = %.2g and falls again after that"):format(self.lr[rise]), "steps"
  end
  if not (fall > 0) then return "the loss did not fall at any learning rate", "steps" end
  if fall < LEAST_FALL * math.abs(from) then
    return ("the loss fell by %.0f %% only, from %.3g to %.3g"):format(100 * fall / math.abs(from), from, to), "steps"
  end
  if fall < NOISE * noise(self.loss, low) then
    return ("the loss fell from %.3g to %.3g, which is not much more than it varies"):format(from, to), "steps"
  end
  if not rise and self.stopped ~= "diverged" and low > #smooth - 2 * HALF_WINDOW then
    return ("the loss still falls at the highest learning rate, %.3g"):format(self.lr[#smooth]), "max_lr"
  end
end

-- The learning rates that a curve suggests, in `out`; nothing where it is in doubt.
local function suggest(self, out, smooth)
  local first = HALF_WINDOW + 1
  local low, rise = descent(self.loss, smooth, first)
  out.why, out.remedy = doubt(self, smooth, first, low, rise)
  local at = not out.why and steepest(smooth, first, low)
  if not at then
    out.why, out.remedy = out.why or "the loss has no steepest learning rate", out.remedy or "steps"
    return
  end
  out.steepest, out.tenth = self.lr[at], self.lr[low] / 10
  out.rule = out.steepest <= out.tenth and "steepest" or "tenth"
  if out[out.rule] < INSIDE * self.lr[1] then
    out.why, out.remedy = ("the loss falls from the lowest learning rate on, %.3g"):format(self.lr[1]), "min_lr"
    return
  end
  out.suggestion = out[out.rule]
end

--- {lr, loss, smooth = lists; stopped = "diverged" | "max_lr"; steepest = rate at which the loss falls fastest; tenth =
-- a tenth of the rate of the lowest loss; suggestion = the lower of these two, rule = which: "steepest" | "tenth"; why
-- = instead of a suggestion, remedy = what to change: "steps", "min_lr" or "max_lr"}
function Range:result()
  local smooth = self:smooth()
  local out = {lr = self.lr, loss = self.loss, smooth = smooth, stopped = self.stopped}
  if #smooth < LEAST then
    out.why, out.remedy = ("the loss was not finite after %d steps already"):format(#smooth), "min_lr"
  else
    suggest(self, out, smooth)
  end
  return out
end

return {new = new}
