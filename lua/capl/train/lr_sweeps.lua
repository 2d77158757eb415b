-- lr_sweeps.lua: the learning rate range test, made twice: a rate is suggested where both sweeps suggest nearly the
-- same.
--
-- The second sweep begins with the same weights and sees other batches, so what only one of them shows is chance.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local lr_range = require "train.lr_range"
local snapshot = require "train.snapshot"

local Sweeps = {}
Sweeps.__index = Sweeps

local SWEEPS = 2
local AGREE = 3 -- times the lower suggestion: sweeps further apart suggest nothing

--- opts: as of lr_range.new
local function new(opts)
  return setmetatable({o = opts, range = lr_range.new(opts), results = {}}, Sweeps)
end

--- Says what is trained, before the first step. Without a model there is one sweep, and no suggestion.
function Sweeps:begin(model, optimizer)
  self.saved = model and snapshot.take{model = model, optimizer = optimizer}
end

--- Puts weights, statistics and optimizer back to what they were then; random numbers continue.
function Sweeps:rewind()
  if not self.saved then return end
  local seed, streams = core.rng()
  self.saved:rewind()
  core.rng(seed, streams)
end

--- The rate of the next step.
function Sweeps:next_lr() return self.range:next_lr() end

--- Notes the loss before the step at next_lr -> whether that was enough.
function Sweeps:add(loss)
  if not self.range:add(loss) then return false end
  table.insert(self.results, self.range:result())
  if not self.saved or #self.results == SWEEPS then return true end
  self:rewind()
  self.range = lr_range.new(self.o)
  return false
end

-- ---- the result ----

local function apart(a, b) return math.max(a, b) > AGREE * math.min(a, b) end

-- What two sweeps say together -> why they suggest nothing, remedy
local function doubt(a, b)
  if a.why then return a.why, a.remedy end
  if not b then return "a second sweep is missing, which shows what is chance", "again" end
  if b.why then return "only one of two sweeps suggests a learning rate; in the other " .. b.why, b.remedy end
  if apart(a.suggestion, b.suggestion) then
    return ("two sweeps suggest %.3g and %.3g"):format(a.suggestion, b.suggestion), "steps"
  end
end

-- A range of two decades on either side of the recipe's own rate.
local function narrower(peak) return {min_lr = peak / 100, max_lr = peak * 100} end

-- Options that may give a result: {steps =, min_lr =, max_lr =}
local function ways_out(self, remedy, peak)
  local lr = self.results[1] and self.results[1].lr or {self.range:next_lr()}
  if remedy == "min_lr" then return {min_lr = lr[1] / 10} end
  if remedy == "max_lr" then return {max_lr = lr[#lr] * 10} end
  if remedy == "again" then return {} end
  local out = peak and narrower(peak) or {}
  out.steps = 2 * self.range.o.steps
  return out
end

-- The highest rate that no sweep has survived; nil where one came to its end.
local function runs_away(results)
  local most
  for _, r in ipairs(results) do
    if r.stopped ~= "diverged" then return nil end
    most = math.max(most or 0, r.lr[#r.lr] or 0)
  end
  return most
end

--- What the sweeps suggest together: the lower suggestion of the two, with the fields of lr_range's result.
-- peak  the highest rate that the recipe uses, or nil
-- out   as of lr_range's result, of the sweep that suggests it, else of the first one; and sweeps = all of them,
--       runs_away = the rate from which on the loss ran away in all, ways_out = {steps =, min_lr =, max_lr =} that may
--       give a suggestion
function Sweeps:result(peak)
  local a, b = self.results[1] or self.range:result(), self.results[2]
  local why, remedy = doubt(a, b)
  local best = not why and b.suggestion < a.suggestion and b or a
  local out = {}
  for key, value in pairs(best) do out[key] = value end
  out.sweeps, out.runs_away = {a, b}, runs_away(self.results)
  if why then
    out.suggestion, out.rule, out.why, out.remedy = nil, nil, why, remedy
    out.ways_out = ways_out(self, remedy, peak)
  end
  out.peak, out.factor = peak, out.suggestion and peak and out.suggestion / peak
  return out
end

-- ---- words and a picture ----

local rules = {steepest = "where the loss falls fastest", tenth = "a tenth of the learning rate with the lowest loss"}

-- "steps = 200, or min_lr = 3e-05 and max_lr = 0.3"
local function words_of_ways(ways, option)
  local range = {}
  for _, key in ipairs{"min_lr", "max_lr"} do
    if ways[key] then range[#range + 1] = option(key, ways[key]) end
  end
  local list = {ways.steps and option("steps", ways.steps) or nil}
  if #range > 0 then list[#list + 1] = table.concat(range, " and ") end
  return table.concat(list, ", or ")
end

local function as_key(key, value) return ("%s = %.3g"):format(key, value) end
local function as_flag(key, value) return ("--%s=%.3g"):format(key, value) end

--- The suggestion in words; without one why, and what may help. flags: options are written as on a command line
local function words(result, flags)
  if result.why then
    local ways = words_of_ways(result.ways_out or {}, flags and as_flag or as_key)
    return "cannot tell: " .. result.why .. (ways ~= "" and "; this may help: " .. ways or "")
  end
  local other = result.rule == "steepest" and "tenth" or "steepest"
  return ("lr = %.3g, %s (%s: %.3g)"):format(result.suggestion, rules[result.rule], rules[other], result[other])
end

-- Lines of the candidate learning rates, from the lowest loss to the top of the picture.
local function add_rates(series, result, low, top)
  for _, rule in ipairs{"steepest", "tenth"} do
    if result.suggestion and result[rule] then
      series[#series + 1] = {name = rules[rule], x = {result[rule], result[rule]}, y = {low, top}}
    end
  end
end

--- Draws losses over learning rates as a PNG file, with the suggestion.
local function draw(path, result, title)
  local low, high, series = math.huge, -math.huge, {}
  for i, sweep in ipairs(result.sweeps) do
    for _, list in ipairs{sweep.smooth, i == 1 and sweep.loss or {}} do
      for _, value in ipairs(list) do
        if math.abs(value) < math.huge then low, high = math.min(low, value), math.max(high, value) end
      end
    end
    if i == 1 then series[1] = {name = "loss", x = sweep.lr, y = sweep.loss} end
    series[#series + 1] = {name = i == 1 and "smoothed" or "second sweep", x = sweep.lr, y = sweep.smooth}
  end
  -- what runs away would hide the rest
  local top = low + 3 * math.max((result.smooth[1] or low) - low, 0.05 * math.abs(low))
  add_rates(series, result, low, math.min(top, high))
  local max = top > low and math.min(top, high * 1.02 + 1e-9) or nil
  require("plot").lines{path = path, title = title, x_label = "learning rate", log_x = true,
    panels = {{y_label = max and high > max and ("loss up to %.3g, from %.3g to %.3g in all"):format(max, low, high)
    or "loss",
      series = series, max = max}}}
end

return {new = new, words = words, draw = draw}
