-- plan.lua: what train.fit will do, printed and plotted before its first step: batches, steps, learning rates and
-- events.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local digit_groups = require "digit_groups"
local output = require "output"
local progress = require "run.progress"
local schedule = require "optim.schedule"

local plan = {}

local POINTS = 400 -- of a curve
local MOST = 7 -- learning rates that are printed and plotted: as many colours as there are
-- steps that are looked at in one go around the highest rate: of a longer run, the best of them, and around that
local LOOKS = 20000
local TIMED = 2000 -- steps for which the curves of a time box are drawn: nobody knows how many it will make

-- ---- learning rates ----

local function optimizers_of(optimizer) return optimizer.optimizers or {optimizer} end

-- The rate of a group at a step (from 0) of `steps`, as the optimizer itself finds it.
local function rate_at(opt, group, step, steps)
  local now_step, now_position = opt.steps, opt.position
  opt.steps, opt.position = step, step / steps
  local lr = opt:lr_of(group)
  opt.steps, opt.position = now_step, now_position
  return lr
end

-- The highest rate lies beside the highest of the samples.
local function refine(curve, opt, group, steps, every)
  repeat
    local from, to = math.max(0, math.floor(curve.high_step - 1 - every)),
      math.min(steps - 1, math.ceil(curve.high_step - 1 + every))
    every = math.max(1, math.floor((to - from) / LOOKS))
    curve.high = 0
    for step = from, to, every do
      local lr = rate_at(opt, group, step, steps)
      if lr > curve.high then curve.high, curve.high_step = lr, step + 1 end
    end
  until every == 1
end

local function sample(opt, group, steps)
  local curve = {x = {}, y = {}, high = 0, high_step = 1}
  local every = math.max(1, steps / POINTS)
  for i = 0, math.min(steps - 1, POINTS) do
    local step = math.min(math.floor(i * every + 0.5), steps - 1)
    local lr = rate_at(opt, group, step, steps)
    curve.x[#curve.x + 1], curve.y[#curve.y + 1] = step + 1, lr
    if lr > curve.high then curve.high, curve.high_step = lr, step + 1 end
  end
  refine(curve, opt, group, steps, every)
  return curve
end

local function same(a, b)
  for i, y in ipairs(a.y) do
    if y ~= b.y[i] then return false end
  end
  return true
end

--- The learning rates of an optimizer over `steps` steps: list of {name, x, y, high, high_step, groups}; groups of
-- equal rates share one.
function plan.rates(optimizer, steps)
  local out = {}
  for k, opt in ipairs(optimizers_of(optimizer)) do
    for _, group in ipairs(opt.groups) do
      local curve, known = sample(opt, group, steps), nil
      for _, other in ipairs(out) do
        if other.opt == k and same(other, curve) then known = other end
      end
      if known then
        known.groups = known.groups + 1
      else
        curve.opt, curve.groups = k, 1
        curve.name = opt.name:gsub("^optim%.", "")
        curve.rule = schedule.is(group.lr) and group.lr.name or "constant"
        out[#out + 1] = curve
      end
    end
  end
  return out
end

-- ---- stages ----

-- Step at which a stage of the train loader's schedule begins; nil for one that waits for a metric.
local function step_of(stage, batches)
  if stage.metric then return nil end
  if stage.number == 1 then return 1 end
  return stage.from == "epoch" and (stage.at - 1) * batches + 1 or stage.at + 1
end

--- Moments of a run: list of {x = step, label}.
-- stages  of augment.schedule; batches = an epoch's steps
function plan.moments(stages, batches, steps)
  local out = {}
  for _, stage in ipairs(stages or {}) do
    local step = step_of(stage, batches)
    if step and step <= steps and stage.number > 1 then
      out[#out + 1] = {x = step, label = stage.name or stage.augment_name or ("stage %d"):format(stage.number)}
    end
  end
  return out
end

-- ---- the picture ----

local function highest(curves)
  local high = 1e-12
  for _, curve in ipairs(curves) do high = math.max(high, curve.high) end
  return high
end

local draw_spec = {
  {"optimizer", "table", required = true}, {"steps", "whole", from = 1}, {"path", "string", required = true},
  {"title", "string"}, {"moments", "table", default = {}},
}

--- train.draw_schedule{…}: draws the learning rates of a run as a PNG file, before a step is made.
-- in   optimizer; steps = how many there will be (without: over the share of the run); path; title;
--      moments = {{x = step, label = "freeze ends"}, …}: vertical lines
-- out  the learning rates as of plan.rates
-- errs value: unknown key, steps below 1; what plot.lines raises
function plan.draw(opts)
  local o = check.options("train.draw_schedule", draw_spec, opts)
  local curves, series, moments = plan.rates(o.optimizer, o.steps or TIMED), {}, {}
  for i, moment in ipairs(o.moments) do moments[i] = moment end
  local first = curves[1]
  if o.steps and first.high_step > 1 and first.y[1] < first.high then
    moments[#moments + 1] = {x = first.high_step, label = "warm-up ends"}
  end
  table.sort(moments, function(a, b) return a.x < b.x end)
  for i, curve in ipairs(curves) do
    local x = curve.x
    if not o.steps then
      x = {}
      for k, step in ipairs(curve.x) do x[k] = (step - 1) / TIMED * 100 end
    end
    series[i] = {name = #curves > 1 and curve.name or curve.rule, x = x, y = curve.y}
    if i == MOST then break end
  end
  require("plot").lines{path = o.path, title = o.title, height = 320,
    panels = {{y_label = "learning rate", min = 0, max = highest(curves) * (#moments > 0 and 1.3 or 1.05),
    series = series}}, x_label = o.steps and "steps" or ("%% of the run (warm-up shown for %d steps)"):format(TIMED),
    lines = moments}
  return curves
end

-- ---- words ----

local function number(x) return ("%.4g"):format(x) end

local ENDLESS = 1e8 -- samples of an epoch that does not end

--- "batch: 64 a device x 1 device (cpu) x 2 accumulated = 128 images a step"
function plan.batch_line(o)
  local devices, accumulate = o.train.low and o.train.low.world or 1, o.accumulate or 1
  local all = o.train.batch * devices * accumulate
  return ("batch: %d a device x %d %s (%s) x %d accumulated = %s images a step"):format(o.train.batch, devices,
    devices == 1 and "device" or "devices", (core.device()), accumulate, digit_groups(all)), all
end

--- "steps: 3,750; 1,250 an epoch". steps: nil where nobody knows their number.
function plan.steps_line(o, steps, per_epoch)
  local box = o.max_time and progress.duration(o.max_time)
  local all = steps and digit_groups(steps) or box and "as many as fit into " .. box or "as many as its time box holds"
  if steps and box then all = ("%s, or what fits into %s"):format(all, box) end
  local epoch = o.train:samples() > ENDLESS and "the data has no end" or digit_groups(per_epoch) .. " an epoch"
  return ("steps: %s; %s"):format(all, epoch)
end

--- "lr: Muon, warmup_cosine: 0.0001 at first, 0.02 at most (step 200), 1.2e-06 at last"
-- steps: how many there will be; nil: nobody knows, and so nobody knows which step has the highest rate.
function plan.rate_lines(curves, steps)
  local lines = {}
  for i, c in ipairs(curves) do
    local first, last = c.y[1], c.y[#c.y]
    local at = steps and (" (step %s)"):format(digit_groups(c.high_step)) or ""
    local course = first == c.high and last == c.high and number(first)
      or ("%s at first, %s at most%s, %s at last"):format(number(first), number(c.high), at, number(last))
    if i <= MOST then lines[i] = ("lr: %s, %s: %s"):format(c.name, c.rule, course) end
  end
  if #curves > MOST then lines[MOST + 1] = ("lr: %d more learning rates"):format(#curves - MOST) end
  return lines
end

-- ---- the callback of train.fit ----

local Callback = {}
Callback.__index = Callback

local function new(fit)
  if fit.run.mode ~= "run" then return nil end
  return setmetatable({fit = fit}, Callback)
end

-- Where the parts of the loop say that something begins or ends at a step.
function Callback:moments(per_epoch, steps)
  if not steps then return {} end
  local o = self.fit.o
  local stages = o.train.schedule
  local out = plan.moments(stages and stages.stages, per_epoch, steps)
  for _, part in ipairs(self.fit.callbacks.list) do
    for _, moment in ipairs(part.moments and part ~= self and part:moments(per_epoch) or {}) do
      if moment.x <= steps then out[#out + 1] = moment end
    end
  end
  return out
end

-- Steps of the run; of a dry run those that it would have.
local function steps_of(o, per_epoch)
  local p = o.planned
  if not p then return o.steps end
  local samples = p.samples and p.samples
    / (o.train.batch * (o.accumulate or 1) * (o.train.low and o.train.low.world or 1))
  local steps = p.steps or p.epochs and p.epochs * per_epoch or samples
  return steps and math.max(1, math.floor(steps))
end

function Callback:lines()
  local run = self.fit.run
  local fit, o = self.fit, self.fit.o
  local per_epoch = math.ceil(o.train:batches() / (o.accumulate or 1))
  local path, steps = fit:path("schedule.png"), steps_of(o, per_epoch)
  local curves = plan.draw{optimizer = fit.optimizer, steps = steps, path = path,
    moments = self:moments(per_epoch, steps), title = run:name() .. ": the plan"}
  local batch, images = plan.batch_line(o)
  local lines = {batch, plan.steps_line(o, steps, per_epoch)}
  for _, line in ipairs(plan.rate_lines(curves, steps)) do lines[#lines + 1] = line end
  lines[#lines + 1] = "schedule: " .. path
  output.object{start = {folder = run:folder(), device = (core.device()), batch = o.train.batch,
    images_per_step = images, steps = steps, max_time = o.max_time, lr = curves[1].high, schedule = path}}
  return lines
end

return {name = "plan", new = new, draw = plan.draw}
