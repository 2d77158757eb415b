-- lr_find.lua: train.lr_find: tries rising learning rates on a model, and leaves no trace but the answer.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sync = require "dist.sync"
local check = require "check"
local forward = require "forward"
local lr_sweeps = require "train.lr_sweeps"
local schedule = require "optim.schedule"
local snapshot = require "train.snapshot"

local OP = "train.lr_find"

local spec = {
  {"model", "table", required = true}, {"train", "table", required = true}, {"loss", "function", required = true},
  {"optimizer", "table", required = true}, forward.input,
  forward.precision, {"path", "string"}, {"title", "string"},
  {"min_lr", "number"}, {"max_lr", "number"}, {"steps", "whole"}, {"diverge", "number"},
}

-- Highest rate of a schedule that does not say it: looked for at many steps.
local function highest(lr)
  local most = 0
  for k = 0, 400 do
    local share = k / 400
    local step = k < 200 and k or math.floor(1.05 ^ (k - 100))
    local ok, value = pcall(lr.lr, lr, step, math.max(share, 1e-3))
    if ok then most = math.max(most, value) end
  end
  return most
end

--- The highest rate that a group of an optimizer will have: a number, or the peak of a schedule.
local function peak(lr)
  if not schedule.is(lr) then return lr end
  local o = lr.options
  if lr.inner then return peak(lr.inner) * (o.factor or 1) end
  return o.lr or o.max_lr or highest(lr)
end

-- Highest learning rates of all groups: list by optimizer of lists by group.
local function peaks_of(optimizer)
  local out = {}
  for i, opt in ipairs(snapshot.members(optimizer)) do
    out[i] = {}
    for k, group in ipairs(opt.groups) do out[i][k] = peak(group.lr) * opt.lr_factor end
  end
  if not (out[1][1] > 0) then
    check.fail(OP, "the first parameter group has lr = 0, so the others cannot be scaled with it",
      "give it your first guess")
  end
  return out
end

--- Sets the learning rates of all groups to `lr` for the first one and in the same proportion for the others.
local function set_rates(optimizer, peaks, lr)
  for i, opt in ipairs(snapshot.members(optimizer)) do
    opt.lr_factor = 1
    for k in ipairs(opt.groups) do opt:set_lr(lr * peaks[i][k] / peaks[1][1], k) end
  end
  optimizer.lr = lr
end

-- The setting of the recipe whose value is that rate, if there is one.
local function setting_of(settings, value)
  for _, s in ipairs(settings) do
    if type(s.value) == "number" and s.value == value and s.key:find("lr") then return s.key end
  end
end

--- What to write for learning rates that are `factor` times those of the recipe: list of {key = setting or nil, lr =,
-- was =}, each once.
local function settings_of(settings, optimizer, peaks, factor)
  local out, known = {}, {}
  for i in ipairs(snapshot.members(optimizer)) do
    for _, was in ipairs(peaks[i]) do
      local key = setting_of(settings, was)
      local name = ("%s %.17g"):format(key or "", was)
      if not known[name] then out[#out + 1] = {key = key, lr = was * factor, was = was} end
      known[name] = true
    end
  end
  return out
end

--- A step, without ending it for those who count steps -> its loss.
local function step(o, batch)
  local loss = forward.loss(o, batch)
  local value = sync.mean(loss):item()
  if value == value and math.abs(value) < math.huge then
    o.optimizer:backward(loss)
    o.optimizer:apply()
  end
  o.optimizer:zero_grad()
  core.step_end()
  return value
end

local function try_rates(o, sweeps, peaks)
  o.model:train()
  for batch in snapshot.batches(o.train) do
    set_rates(o.optimizer, peaks, sweeps:next_lr())
    if sweeps:add(step(o, batch)) then return end
  end
end

local function modes_of(model)
  local out = {}
  for _, module in model:named_modules() do out[module] = module.training end
  return out
end

--- Trains with increasing learning rates until the loss diverges, twice, and suggests a learning rate. Weights,
-- statistics, optimizer, random numbers and loader are then as before, to the bit. Nothing is suggested where the
-- losses do not show a rate: they fall by less than a fifth or hardly more than they vary, from the lowest rate on or
-- up to the highest, rise in between, or the two sweeps, of the same weights and other batches, suggest learning rates
-- more than a factor of 3 apart.
-- opts model; train = loader; loss = function(output, batch); optimizer, also of optim.join, with schedules: all
--      learning rates rise in proportion, and are given as that of the first group; input = function(batch); precision
--      = "auto"; min_lr = 1e-6, max_lr = 10, steps = 100 from one to the other; diverge = 4: a sweep ends at so many
--      times the lowest loss; path = of a PNG file of the curves
-- out  {suggestion (nil when nothing can be said; then why, and ways_out = options that may help), rule = "steepest"
--      (where the loss falls fastest) | "tenth" (a tenth of the rate with the lowest loss; the lower one is suggested),
--      steepest, tenth, lr, loss, smooth, stopped, factor = suggestion / the highest rate the optimizer would have had,
--      peak = that rate,
--      sweeps = what each of them says, runs_away = rate from which on the loss ran away in both, text}
-- errs value: unknown options; learning rates that are no range
-- paper L. N. Smith: Cyclical learning rates for training neural networks, 2017
local function lr_find(opts)
  local o = check.options(OP, spec, opts)
  local sweeps = lr_sweeps.new{min_lr = o.min_lr, max_lr = o.max_lr, steps = o.steps, diverge = o.diverge}
  local peaks = peaks_of(o.optimizer)
  local modes, saved = modes_of(o.model), snapshot.take(o)
  sweeps:begin(o.model, o.optimizer)
  local ok, err = pcall(try_rates, o, sweeps, peaks)
  saved:restore()
  for module, training in pairs(modes) do module.training = training end
  if not ok then error(err, 0) end
  local result = sweeps:result(peaks[1][1])
  result.peaks = peaks
  result.text = lr_sweeps.words(result)
  if o.path then lr_sweeps.draw(o.path, result, o.title or "learning rates") end
  return result
end

return {find = lr_find, step = step, peaks_of = peaks_of, set_rates = set_rates, settings_of = settings_of}
