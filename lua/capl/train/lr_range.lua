-- lr_range.lua: a rising learning rate, the losses along it, and the rate they suggest. Knows nothing of models.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"

local Range = {}
Range.__index = Range

local HALF_WINDOW = 3 -- points on either side that smooth a loss
local FORGET = 0.9 -- of the running mean by which a loss that runs away is seen
local LEAST = 12 -- points before it may stop
local BEGUN = 0.1 -- share of the whole fall after which it counts
local LEAST_FALL = 0.02 -- share of the first loss by which it has to fall for a suggestion

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

-- Place where the curve falls fastest per decade of the rate, up to `last`; what it does before it has begun to fall is noise.
local function steepest(smooth, last)
  local at, least = nil, 0
  local begun = smooth[1] - BEGUN * (smooth[1] - smooth[last])
  local from = last
  while from > 1 and smooth[from - 1] <= begun do from = from - 1 end
  for i = math.max(from, HALF_WINDOW + 1), last - 1 do
    local slope = smooth[i + 1] - smooth[i - 1]
    if slope < least then at, least = i, slope end
  end
  return at
end

--- {lr, loss, smooth = lists; stopped = "diverged" | "max_lr"; steepest = rate at which the loss falls fastest; tenth = a
-- tenth of the rate of the lowest loss; suggestion = the lower of these two, rule = which: "steepest" | "tenth"; why =
-- instead of a suggestion}
function Range:result()
  local smooth = self:smooth()
  local out = {lr = self.lr, loss = self.loss, smooth = smooth, stopped = self.stopped}
  if #smooth < LEAST then
    out.why = ("the loss was not finite after %d steps already"):format(#smooth)
    return out
  end
  local low = lowest(smooth)
  local at = steepest(smooth, low)
  if not at or smooth[low] > smooth[1] - LEAST_FALL * math.abs(smooth[1]) then
    out.why = "the loss did not fall at any rate"
    return out
  end
  out.steepest, out.tenth = self.lr[at], self.lr[low] / 10
  out.rule = out.steepest <= out.tenth and "steepest" or "tenth"
  out.suggestion = out[out.rule]
  return out
end

local rules = {steepest = "where the loss falls fastest", tenth = "a tenth of the rate of the lowest loss"}

--- The suggestion in words.
local function words(result)
  if result.why then return "no suggestion: " .. result.why end
  local other = result.rule == "steepest" and "tenth" or "steepest"
  return ("lr = %.3g, %s (%s: %.3g)"):format(result.suggestion, rules[result.rule], rules[other], result[other])
end

--- Draws losses over rates as a PNG file, with the suggestion.
local function draw(path, result, title)
  local low, high = math.huge, -math.huge
  for _, value in ipairs(result.smooth) do low, high = math.min(low, value), math.max(high, value) end
  local top = low + 3 * math.max(result.smooth[1] - low, 0.05 * math.abs(low)) -- what runs away would hide the rest
  local series = {{name = "loss", x = result.lr, y = result.loss}, {name = "smoothed", x = result.lr, y = result.smooth}}
  for _, rule in ipairs{"steepest", "tenth"} do
    if result[rule] then
      series[#series + 1] = {name = rules[rule], x = {result[rule], result[rule]}, y = {low, math.min(top, high)}}
    end
  end
  require("plot").lines{path = path, title = title, x_label = "learning rate", log_x = true,
    panels = {{y_label = "loss", series = series, max = top > low and math.min(top, high * 1.02 + 1e-9) or nil}}}
end

return {new = new, words = words, draw = draw}
