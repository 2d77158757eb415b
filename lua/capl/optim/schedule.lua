-- schedule.lua: learning rates over the steps of a run, as values: schedule:lr(step), step counted from 0.
--
-- A value can be drawn before training, handed to an optimizer as its lr, or applied by hand. Formulas are PyTorch's.
-- A length given as "run" is that of the whole run, also of one that ends by the clock: schedule:lr(step, position),
-- where position is the share of the run that is over; at that pace the run has step / position steps.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"

local schedule = {}

local Schedule = {}
Schedule.__index = Schedule

-- Options that several schedules have.
local LR, ETA_MIN = {"lr", "number", required = true, from = 0}, {"eta_min", "number", default = 0, from = 0}
local WARMUP, TOTAL = {"warmup", "number", required = true, from = 0},
  {"total", "number", "string", required = true, above = 0}

local function new(name, options, at)
  return setmetatable({name = name, options = options, at = at}, Schedule)
end

-- Steps of the whole run as they look at a step.
local function run_steps(name, step, position)
  if step == 0 then return 2 ^ 53 end -- nobody knows yet
  if not position or position == 0 then
    check.fail("schedule." .. name, 'a length of "run" is known inside train.fit only',
      "in a custom training loop, call opt:set_position(fraction) before each step")
  end
  return step / position
end

--- The learning rate of a step, counted from 0. position: share of the run that is over, for lengths of "run".
function Schedule:lr(step, position) return self.at(check.arg(1, "lr", "number", step), position) end

-- A length in steps: a number as it is, "run" as that of the run.
local function length_of(name, length, step, position)
  return length == "run" and run_steps(name, step, position) or length
end

local function check_length(op, o, name)
  if type(o[name]) == "string" and o[name] ~= "run" then
    check.fail(op, ("%s is a number of steps or \"run\", got '%s'"):format(name, o[name]))
  end
end

--- Sets an optimizer's learning rate to that of a step.
function Schedule:apply(opt, step) opt:set_lr(self:lr(step)) end

--- The state of a schedule except the step, for a checkpoint: {} unless it follows metrics; warm-up returns that of its
-- inner schedule.
function Schedule:state()
  local memory, out = self.memory, {}
  for key, value in pairs(memory or {}) do out[key] = value end
  if self.inner then out.inner = self.inner:state() end
  return out
end

--- Restores a state.
function Schedule:set_state(state)
  for key in pairs(self.memory or {}) do self.memory[key] = state[key] end
  if self.inner then self.inner:set_state(state.inner) end
end

--- What set_state takes, as train/saved_state.lua reads it.
function Schedule:state_shape()
  local out = {inner = self.inner and self.inner:state_shape()}
  for key in pairs(self.memory or {}) do out[key] = key ~= "best" and "number" or nil end
  if self.memory then
    out.best = function(best) if best and type(best) ~= "number" then return "it must be a number or false" end end
  end
  return out
end

--- Reports the next metric to a schedule that follows one (plateau, also inside warmup); others ignore it.
-- in   value; better = "min" | "max", where the schedule does not say it
-- out  whether the rate fell
function Schedule:report(value, better)
  if self.inner then return self.inner:report(value, better) end
  return self.on_metric and self.on_metric(check.arg(1, "report", "number", value), better) or false
end

--- The schedule, itself or inside, that follows metrics; nil when none does.
function Schedule:follower()
  if self.inner then return self.inner:follower() end
  return self.on_metric and self or nil
end

Schedule.__tostring = function(self)
  local parts = {}
  for key, value in pairs(self.options) do parts[#parts + 1] = ("%s = %s"):format(key, tostring(value)) end
  table.sort(parts)
  return ("%s(%s)"):format(self.name, table.concat(parts, ", "))
end

--- Whether value is a schedule.
-- eg   optim.schedule.is(0.1)  --> false
function schedule.is(value) return type(value) == "table" and getmetatable(value) == Schedule end

--- A constant learning rate.
-- opts lr
-- eg   optim.schedule.constant{lr = 0.1}:lr(5)  --> 0.1
function schedule.constant(opts)
  local o = check.options("schedule.constant", {LR}, opts)
  return new("constant", o, function() return o.lr end)
end

--- Multiplied by gamma every step_size steps.
-- opts lr, step_size, gamma = 0.1
-- eg   optim.schedule.step{lr = 1, step_size = 10}:lr(25)  --> 0.01
function schedule.step(opts)
  local o = check.options("schedule.step", {LR, {"step_size", "whole", required = true, above = 0},
    {"gamma", "number", default = 0.1, from = 0}}, opts)
  return new("step", o, function(step) return o.lr * o.gamma ^ math.floor(step / o.step_size) end)
end

--- Multiplied by gamma at each of the milestones, a list of rising steps.
-- opts lr, milestones, gamma = 0.1
-- eg   optim.schedule.multi_step{lr = 1, milestones = {10, 20}}:lr(20)  --> 0.01
function schedule.multi_step(opts)
  local o = check.options("schedule.multi_step", {LR, {"milestones", "table", required = true},
    {"gamma", "number", default = 0.1, from = 0}}, opts)
  for i, step in ipairs(o.milestones) do
    if type(step) ~= "number" or step <= (o.milestones[i - 1] or -1) then
      check.fail("schedule.multi_step", "milestones is a list of rising numbers of steps")
    end
  end
  return new("multi_step", o, function(step)
    local passed = 0
    while o.milestones[passed + 1] and step >= o.milestones[passed + 1] do passed = passed + 1 end
    return o.lr * o.gamma ^ passed
  end)
end

--- Multiplied by gamma at every step.
-- opts lr, gamma
-- eg   optim.schedule.exponential{lr = 1, gamma = 0.5}:lr(3)  --> 0.125
function schedule.exponential(opts)
  local o = check.options("schedule.exponential", {LR, {"gamma", "number", required = true, above = 0}}, opts)
  return new("exponential", o, function(step) return o.lr * o.gamma ^ step end)
end

local function cosine_between(from, to, share) return to + (from - to) * (1 + math.cos(math.pi * share)) / 2 end

--- Half a cosine from lr to eta_min over T_max steps.
-- opts lr, T_max (steps, or "run"), eta_min = 0
-- eg   optim.schedule.cosine{lr = 1, T_max = 10}:lr(5)  --> 0.5
function schedule.cosine(opts)
  local o = check.options("schedule.cosine", {LR, {"T_max", "number", "string", required = true, above = 0},
    ETA_MIN}, opts)
  check_length("schedule.cosine", o, "T_max")
  return new("cosine", o, function(step, position)
    return cosine_between(o.lr, o.eta_min, step / length_of("cosine", o.T_max, step, position))
  end)
end

-- Step within a period and the length of that one; periods grow by a factor.
local function within_period(step, length, factor)
  if factor == 1 then return step % length, length end
  while step >= length do step, length = step - length, length * factor end
  return step, length
end

--- Half a cosine from lr to eta_min again and again (SGDR): T_0 steps, then T_0 * T_mult, …
-- opts lr, T_0 (steps of the first period; it is no warm-up), T_mult = 1, eta_min = 0
-- paper I. Loshchilov, F. Hutter: SGDR: stochastic gradient descent with warm restarts, 2017
-- eg   optim.schedule.cosine_restart{lr = 1, T_0 = 10, T_mult = 2}:lr(20)  --> 0.5
function schedule.cosine_restart(opts)
  local o = check.options("schedule.cosine_restart", {LR, {"T_0", "whole", required = true, above = 0},
    {"T_mult", "whole", default = 1, above = 0}, ETA_MIN}, opts)
  return new("cosine_restart", o, function(step)
    local at, length = within_period(step, o.T_0, o.T_mult)
    return cosine_between(o.lr, o.eta_min, at / length)
  end)
end

-- How much of its warm-up is over, 1 and more when all of it is.
local function warm_share(o, step, position)
  local warm = (step + 1) / o.warmup
  return o.total == "run" and math.max(warm, 4 * (position or 0)) or warm
end

--- Linear warm-up, then half a cosine that reaches eta_min at step total and stays there.
-- opts lr, warmup (steps), total (steps, or "run": warm-up then ends after a quarter of the run at the latest), eta_min
--      = 0
-- Warm-up: lr * (step + 1) / warmup; over the "run", lr * 4 * position when that is more.
-- eg   optim.schedule.warmup_cosine{lr = 1, warmup = 4, total = 20}:lr(3)  --> 1
function schedule.warmup_cosine(opts)
  local o = check.options("schedule.warmup_cosine", {LR, WARMUP, TOTAL, ETA_MIN}, opts)
  check_length("schedule.warmup_cosine", o, "total")
  if o.total ~= "run" and o.total <= o.warmup then
    check.fail("schedule.warmup_cosine", ("total = %g must exceed warmup = %g"):format(o.total, o.warmup))
  end
  return new("warmup_cosine", o, function(step, position)
    local total, warmup, warm = length_of("warmup_cosine", o.total, step, position), o.warmup,
      warm_share(o, step, position)
    if o.total == "run" then warmup = math.min(warmup, total / 4) end
    if warm < 1 then return o.lr * warm end
    return cosine_between(o.lr, o.eta_min, math.max(0, math.min(1, (step - warmup) / (total - warmup))))
  end)
end

--- Linear warm-up, then the same rate, then a straight line down to eta_min at the end: for runs whose end is not known
-- yet.
-- opts lr, warmup (steps), total (steps, or "run": warm-up then ends after a quarter of the run at the latest), decay =
--      0.25 (share of all steps that goes down), eta_min = 0
-- Hu et al., "MiniCPM", 2024 (warmup-stable-decay). train.fit{cooldown = …} starts the decay when val stops improving.
-- paper S. Hu and others: MiniCPM, 2024
-- eg   optim.schedule.warmup_stable_decay{lr = 1, warmup = 10, total = 100, decay = 0.5}:lr(75)  --> 0.5
function schedule.warmup_stable_decay(opts)
  local op = "schedule.warmup_stable_decay"
  local o = check.options(op, {LR, WARMUP, TOTAL, {"decay", "number", default = 0.25, above = 0, to = 1}, ETA_MIN},
    opts)
  check_length(op, o, "total")
  if o.total ~= "run" and o.total <= o.warmup then
    check.fail(op, ("total = %g must exceed warmup = %g"):format(o.total, o.warmup))
  end
  return new("warmup_stable_decay", o, function(step, position)
    local total = length_of("warmup_stable_decay", o.total, step, position)
    local down = math.max(0, math.min(1, (step / total - (1 - o.decay)) / o.decay))
    return math.min(warm_share(o, step, position), 1) * (o.lr + (o.eta_min - o.lr) * down)
  end)
end

local one_cycle_spec = {
  {"max_lr", "number", required = true, from = 0}, {"total_steps", "whole", "string", required = true, above = 0},
  {"pct_start", "number", default = 0.3, from = 0, to = 1}, {"anneal_strategy", "string", default = "cos"},
  {"div_factor", "number", default = 25, above = 0}, {"final_div_factor", "number", default = 1e4, above = 0},
  {"three_phase", "boolean", default = false},
}

-- Phases as {last step, rate at its start, rate at its end}.
local function one_cycle_phases(o, total)
  local low = o.max_lr / o.div_factor
  local final = low / o.final_div_factor
  local up = o.pct_start * total - 1
  if not o.three_phase then return {{up, low, o.max_lr}, {total - 1, o.max_lr, final}} end
  local down = 2 * o.pct_start * total - 2
  return {{up, low, o.max_lr}, {down, o.max_lr, low}, {total - 1, low, final}}
end

--- One cycle over the whole run: up to max_lr and down again.
-- opts max_lr, total_steps (or "run"), pct_start = 0.3 (share of the way up), anneal_strategy = "cos"|"linear",
--      div_factor = 25 (first rate = max_lr / div_factor), final_div_factor = 1e4 (last = first / that), three_phase =
--      false
-- paper L. N. Smith, N. Topin: Super-convergence, 2018
function schedule.one_cycle(opts)
  local o = check.options("schedule.one_cycle", one_cycle_spec, opts)
  check_length("schedule.one_cycle", o, "total_steps")
  check.one_of("schedule.one_cycle", "anneal_strategy", o.anneal_strategy, {"cos", "linear"})
  return new("one_cycle", o, function(step, position)
    local start, phases = 0, one_cycle_phases(o, length_of("one_cycle", o.total_steps, step, position))
    for i, phase in ipairs(phases) do
      if step <= phase[1] or i == #phases then
        local share = math.min(1, (step - start) / (phase[1] - start))
        if o.anneal_strategy == "linear" then return phase[2] + (phase[3] - phase[2]) * share end
        return cosine_between(phase[2], phase[3], share)
      end
      start = phase[1]
    end
  end)
end

-- Share of what comes after the first `steps` steps that is over.
local function position_after(steps, step, position)
  if not position or position == 0 then return position end
  return math.min(1, (step - steps) / math.max(step / position - steps, 1))
end

--- Linear warm-up before any schedule: from start_factor of its learning rate to all of it over `steps` steps.
-- in   schedule; opts steps, start_factor = 0.1. The schedule itself counts from the end of the warm-up.
function schedule.warmup(inner, opts)
  if not schedule.is(inner) then check.arg(1, "warmup", "schedule", inner) end
  local o = check.options("schedule.warmup", {{"steps", "whole", required = true, above = 0},
    {"start_factor", "number", default = 0.1, from = 0, to = 1}}, opts)
  local self = new("warmup+" .. inner.name, o, function(step, position)
    if step >= o.steps then return inner:lr(step - o.steps, position_after(o.steps, step, position)) end
    return inner:lr(0) * (o.start_factor + (1 - o.start_factor) * step / o.steps)
  end)
  self.inner = inner
  return self
end

--- Another schedule's learning rates times a factor; optim.groups creates these for layers.
-- in   schedule; factor
-- eg   optim.schedule.scaled(optim.schedule.constant{lr = 2}, 0.5):lr(0)  --> 1
function schedule.scaled(inner, factor)
  if not schedule.is(inner) then check.arg(1, "scaled", "schedule", inner) end
  if not (check.arg(2, "scaled", "number", factor) >= 0) then check.bad(2, "scaled", "a number from 0 on expected") end
  local self = new(inner.name, {factor = factor}, function(step, position) return inner:lr(step, position) * factor end)
  self.inner = inner
  return self
end

--- A schedule that counts epochs: constant during an epoch, as with scheduler.step() once per epoch.
-- in   schedule (its lengths are epochs); opts steps = steps of an epoch
-- eg   optim.schedule.per_epoch(optim.schedule.cosine{lr = 1, T_max = 2}, {steps = 10}):lr(19)  --> 0.5
function schedule.per_epoch(inner, opts)
  if not schedule.is(inner) then check.arg(1, "per_epoch", "schedule", inner) end
  local o = check.options("schedule.per_epoch", {{"steps", "whole", required = true, above = 0}}, opts)
  for _, name in ipairs{"T_max", "total"} do
    if inner.options[name] == "run" then
      check.fail("schedule.per_epoch", name .. ' = "run" counts steps; here the schedule counts epochs',
        "give the number of epochs")
    end
  end
  local self = new("per_epoch+" .. inner.name, o, function(step) return inner:lr(math.floor(step / o.steps)) end)
  self.inner = inner
  return self
end

-- ---- following metrics ----

local plateau_spec = {
  LR, {"factor", "number", default = 0.1, above = 0, below = 1},
  {"patience", "whole", default = 10, from = 0}, {"threshold", "number", default = 1e-4, from = 0},
  {"threshold_mode", "string", default = "rel"}, {"cooldown", "whole", default = 0, from = 0},
  {"min_lr", "number", default = 0, from = 0}, {"eps", "number", default = 1e-8, from = 0},
  {"better", "string"}, {"metric", "string", "table"},
}

local function check_plateau(op, o)
  check.one_of(op, "threshold_mode", o.threshold_mode, {"rel", "abs"})
  if o.better then check.one_of(op, "better", o.better, {"min", "max"}) end
end

-- Whether a metric is better than the best one by the threshold.
local function better_than(o, better, value, best)
  if not best then return value == value end
  local margin = o.threshold_mode == "rel" and o.threshold * best or o.threshold
  if better == "min" then return value < best - margin end
  return value > best + margin
end

-- Counts a metric; when too many were no better the rate falls.
local function follow(o, memory, value, better)
  if better_than(o, better, value, memory.best) then
    memory.best, memory.bad = value, 0
  else
    memory.bad = memory.bad + 1
  end
  if memory.cooling > 0 then memory.cooling, memory.bad = memory.cooling - 1, 0 end
  if memory.bad <= o.patience then return false end
  memory.cooling, memory.bad = o.cooldown, 0
  local lower = math.max(memory.lr * o.factor, o.min_lr)
  if memory.lr - lower <= o.eps then return false end
  memory.lr, memory.falls = lower, memory.falls + 1
  return true
end

--- Multiplied by factor whenever a metric has not become better for long: schedule:report(value) reports each.
-- train.fit reports after each evaluation; in a custom training loop, the recipe does.
-- opts lr, factor = 0.1, patience = 10 (metrics that may be no better; one more and the rate falls), threshold = 1e-4,
--      threshold_mode = "rel" | "abs", cooldown = 0 (metrics after a fall that do not count), min_lr = 0, eps = 1e-8,
--      better = "min" | "max" (in train.fit that of the metric, else "min"), metric = which metric train.fit reports:
--      "loss", "exact" …; what its key metric says otherwise
function schedule.plateau(opts)
  local o = check.options("schedule.plateau", plateau_spec, opts)
  check_plateau("schedule.plateau", o)
  local memory = {lr = o.lr, bad = 0, cooling = 0, falls = 0, best = false}
  local self = new("plateau", o, function() return memory.lr end)
  self.memory = memory
  function self.on_metric(value, better) return follow(o, memory, value, o.better or better or "min") end
  return self
end

return schedule
