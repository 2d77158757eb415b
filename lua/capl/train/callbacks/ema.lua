-- ema.lua: train.EMA, averages of weights, and the key ema of train.fit: evaluations, best.capl and the model in the
-- end are of them.
--
-- Batch norm's running statistics are averaged too, or they would belong to other weights than the averages. Whole
-- numbers among the buffers stay the model's.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local Run = require "run"
local check = require "check"
local classes = require "module_class"
local tensor = require "tensor"

local OP = "train.EMA"

--- A running average of a model's parameters and buffers.
-- in   model
-- opts decay = 0.999 (of the old average, per update); warmup = true: the decay of update n is at most (1 + n) / (10 +
--      n), so that the first weights are soon forgotten; warmup = N: decay * (1 - exp(-n / N)); false: always decay;
--      every = 1 (steps between two updates)
-- out  an object: update() after each step; applied(fn) calls fn with the averages in the model; apply() and restore()
--      do the two halves of it; state(), set_state(tree); updates = how many there were
-- errs value: no model, decay outside 0..1; state: apply() twice
-- paper B. T. Polyak, A. B. Juditsky: Acceleration of stochastic approximation by averaging, 1992
-- eg   capl.train.EMA(nn.Linear(2, 1), {decay = 0.9}).updates  --> 0
local EMA = {}
EMA.__index = EMA

local spec = {
  {"decay", "number", default = 0.999}, {"warmup", "boolean", "number", default = true, from = 0},
  {"every", "whole", default = 1, from = 1},
}

local floats = {f32 = true, f64 = true, f16 = true, bf16 = true}
local own_type = {f64 = "f64"} -- of the averages; f32 otherwise: a small step is lost in 16 bits

local function check_ranges(o)
  if not (o.decay >= 0 and o.decay < 1) then
    check.fail(OP, ("decay is a number from 0 to below 1, got %g"):format(o.decay),
      "0.999 averages about the last 1000 steps")
  end
end

-- Adds a tensor of the model, with its average and the memory it waits in while the average is in the model.
local function add(self, name, live)
  if not floats[live.dtype] then return end
  local average = live:detach():to(own_type[live.dtype] or "f32")
  local entry = {name = name, live = live, average = tensor.empty_like(average):copy_(average):keep()}
  table.insert(self.entries, entry)
  local same = live.dtype == entry.average.dtype
  local list = not same and self.converted or self.together[live.dtype]
  table.insert(list, entry)
end

-- What sgd_step takes: all averages, then all live tensors, then no momentum.
local function inputs_of(list)
  local inputs, n = {}, #list
  for i, entry in ipairs(list) do inputs[i], inputs[n + i], inputs[2 * n + i] = entry.average, entry.live, false end
  return inputs
end

function EMA.new(model, opts)
  if not classes.is_module(model) then check.arg(1, "EMA", "module", model) end
  local o = check.options(OP, spec, opts)
  check_ranges(o)
  local self = setmetatable({
    model = model, decay = o.decay, warmup = o.warmup, every = o.every, calls = 0, updates = 0,
    counter = {n = 0}, -- by itself, for the list of features outlives the averages
    entries = {}, converted = {}, together = {f32 = {}, f64 = {}}, is_applied = false,
  }, EMA)
  core.no_grad(function()
    for name, p in model:named_parameters() do add(self, name, p) end
    for name, b in model:named_buffers() do add(self, name, b) end
  end)
  for dtype, list in pairs(self.together) do self.together[dtype] = inputs_of(list) end
  local counter = self.counter
  Run.of(observer).features:add_own{name = OP, what = "updates of the averages",
    count = function() return counter.n end}
  return self
end

--- The decay of update n, counted from 1.
function EMA:decay_of(n)
  if self.warmup == true then return math.min(self.decay, (1 + n) / (10 + n)) end
  if self.warmup == false or self.warmup == 0 then return self.decay end
  return self.decay * (1 - math.exp(-n / self.warmup))
end

-- average += (1 - decay) * (live - average), for many tensors in one op: a step of descent whose "gradient" is the live
-- tensor, less the average as its decay.
local function move_together(inputs, decay)
  if #inputs > 0 then core.op.sgd_step(inputs, {lr = decay - 1, weight_decay = -1}) end
end

local function move(self, decay)
  move_together(self.together.f32, decay)
  move_together(self.together.f64, decay)
  for _, entry in ipairs(self.converted) do
    core.scope(function() entry.average:copy_(entry.average * decay + entry.live:to("f32") * (1 - decay)) end)
  end
end

--- Counts a step; the averages are updated at every `every`-th one.
-- out whether they did
function EMA:update()
  if self.is_applied then
    core.error{code = "state", op = OP, path = false, message = "update() while the averages are in the model",
      hint = "call restore() first"}
  end
  self.calls = self.calls + 1
  if self.calls % self.every ~= 0 then return false end
  self.updates = self.updates + 1
  self.counter.n = self.updates
  core.no_grad(move, self, self:decay_of(self.updates))
  return true
end

-- ---- exchange ----

--- Copies the averages into the model; restore() brings the model's own values back.
function EMA:apply()
  if self.is_applied then
    core.error{code = "state", op = OP, path = false, message = "apply() twice: the averages are in the model already"}
  end
  core.no_grad(function()
    for _, entry in ipairs(self.entries) do
      entry.waiting = (entry.waiting or tensor.empty_like(entry.live):keep()):copy_(entry.live)
      entry.live:copy_(entry.average)
    end
  end)
  self.is_applied = true
end

--- Restores the model's own values, bit for bit.
function EMA:restore()
  if not self.is_applied then return end
  core.no_grad(function()
    for _, entry in ipairs(self.entries) do entry.live:copy_(entry.waiting) end
  end)
  self.is_applied = false
end

--- Calls fn with the averages in the model, then restores the model's own values, also after an error.
-- out what fn returns
function EMA:applied(fn)
  check.arg(1, "applied", "function", fn)
  self:apply()
  local function ended(ok, ...)
    self:restore()
    if not ok then error((...), 0) end
    return ...
  end
  return ended(pcall(fn))
end

-- ---- state ----

--- {calls, updates, averages = {name = tensor}}
function EMA:state()
  local averages = {}
  for _, entry in ipairs(self.entries) do averages[entry.name] = entry.average end
  return {calls = self.calls, updates = self.updates, averages = averages}
end

--- Restores a state; tensors are copied.
-- errs value: the state is of a model with other tensors
function EMA:set_state(state)
  for _, entry in ipairs(self.entries) do
    local given = state.averages[entry.name]
    if not core.is_tensor(given) then check.fail(OP, ("the state has no average of %s"):format(entry.name)) end
  end
  core.no_grad(function()
    for _, entry in ipairs(self.entries) do entry.average:copy_(state.averages[entry.name]) end
  end)
  self.calls, self.updates, self.counter.n = state.calls, state.updates, state.updates
end

--- What set_state takes, as train/saved_state.lua reads it.
function EMA:state_shape()
  local averages = {}
  for _, entry in ipairs(self.entries) do averages[entry.name] = entry.average end
  return {calls = "count", updates = "count", averages = averages}
end

EMA.__tostring = function(self)
  return ("train.EMA(decay %g, %d updates of %d tensors)"):format(self.decay, self.updates, #self.entries)
end

-- ---- the callback of train.fit ----

local Callback = {}
Callback.__index = Callback

local function read(o)
  if type(o.ema) == "number" then o.ema = {decay = o.ema} end
  if o.ema == false then o.ema = nil end
  if o.ema == true then o.ema = {} end
  if o.ema and type(o.ema.every) == "number" and o.steps and o.ema.every > o.steps and not o.dry_run then
    check.fail("train.fit", ("ema: every = %d never comes in a run of %d steps"):format(o.ema.every, o.steps))
  end
end

local function new(fit)
  if not fit.o.ema then return nil end
  local ema = fit.run.features:apart(EMA.new, fit.model, fit.o.ema)
  local counter = ema.counter
  fit.run:add_feature{name = ("ema = %g"):format(ema.decay), what = "updates of the averages", count = function()
    return counter.n end}
  return setmetatable({ema = ema}, Callback)
end

function Callback:lines()
  local ema = self.ema
  local how = ema.warmup == true and ", less at first" or type(ema.warmup) == "number"
    and (", over %g updates"):format(ema.warmup) or ""
  return {("ema: decay %g%s; %d tensors, buffers included; evaluations and saved models are of the averages"):format(
    ema.decay, how, #ema.entries)}
end

function Callback:after_step() self.ema:update() end

function Callback:before_evaluation() self.ema:apply() end
function Callback:after_evaluation() self.ema:restore() end
--- From here on the model holds what it is kept for.
function Callback:keep() self.ema:apply() end

function Callback:state() return self.ema:state() end

function Callback:set_state(state) self.ema:set_state(state) end
function Callback:state_shape() return self.ema:state_shape() end

return {name = "ema", spec = {{"ema", "number", "table", "boolean"}},
  read = read, new = new, EMA = EMA.new}
