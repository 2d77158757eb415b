-- best.lua: train.BestTracker, and the keys keep, top_k and metric of train.fit: the weights of the best evaluation, in
-- memory and as best.capl, and the models of the top_k best.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local exported = require "train.exported"
local metric = require "train.metric"
local tensor = require "tensor"
local trees = require "run.trees"

local OP = "train.BestTracker"

--- Keeps the best values of a series. Of equal ones the later is better: its weights have seen more.
-- opts better = "max" | "min"; keep = 1 (how many places there are)
-- out  an object: update(value, step) -> its place from 1 on, or nil; and the entry that lost its place, if one did;
--      best() -> value, step; list = entries {value, step}, best first; state(), set_state(tree)
-- eg   capl.train.BestTracker{better = "min"}:update(0.3, 100)  --> 1
local BestTracker = {}
BestTracker.__index = BestTracker

local spec = {{"better", "string", default = "max"}, {"keep", "whole", default = 1, from = 1}}

function BestTracker.new(opts)
  local o = check.options(OP, spec, opts)
  check.one_of(OP, "better", o.better, {"max", "min"})
  return setmetatable({better = o.better, keep = o.keep, list = {}}, BestTracker)
end

--- Adds the next value of the series; a value that is no number is ignored.
function BestTracker:update(value, step)
  check.arg(1, "update", "number", value)
  if value ~= value then return nil end
  local place = 1
  while self.list[place] and metric.improves(self.list[place].value, value, self.better) do place = place + 1 end
  if place > self.keep then return nil end
  table.insert(self.list, place, {value = value, step = step})
  return place, table.remove(self.list, self.keep + 1)
end

--- The best value so far and its step; nil before the first.
function BestTracker:best()
  local first = self.list[1]
  if first then return first.value, first.step end
end

function BestTracker:state()
  local list = {}
  for i, entry in ipairs(self.list) do list[i] = {value = entry.value, step = entry.step} end
  return {list = list}
end

function BestTracker:set_state(state)
  self.list = {}
  for i, entry in ipairs(state.list) do self.list[i] = {value = entry.value, step = entry.step} end
end

--- What set_state takes, as train/saved_state.lua reads it.
function BestTracker.state_shape() return {list = {["*"] = {value = "number", step = "count"}}} end

-- ---- the callback of train.fit ----

local KEY = "train.fit"

local Callback = {}
Callback.__index = Callback

local function read(o)
  check.one_of(KEY, "keep", o.keep, {"best", "last"})
  if o.top_k > 0 and not o.val then
    check.fail(KEY, "top_k needs a val loader to rank models", "give val, or leave top_k out")
  end
  metric.read(KEY, o.metric)
end

local function new(fit)
  local self = setmetatable({fit = fit, wanted = metric.read(KEY, fit.o.metric), counter = {n = 0}}, Callback)
  if fit.o.top_k > 0 then
    local counter = self.counter
    fit.run:add_feature{name = ("top_k = %d"):format(fit.o.top_k), what = "models among the best", count = function()
      return counter.n end}
  end
  return self
end

-- Copies, not handles: the weights keep changing.
local function copy_of(weights, into)
  return core.no_grad(function()
    local out = into or {}
    for name, x in pairs(weights) do out[name] = (out[name] or tensor.empty_like(x):keep()):copy_(x) end
    return out
  end)
end

-- Which way is better is known with the first evaluation.
local function tracker_of(self, better)
  if not self.tracker then
    self.tracker = BestTracker.new{better = better, keep = math.max(1, self.fit.o.top_k)}
    if self.saved then self.tracker:set_state(self.saved) end
  end
  return self.tracker
end

local function name_of(step) return ("best-%06d.capl"):format(step) end

local function keep_top(self, e, place, dropped)
  local fit = self.fit
  if fit.o.top_k == 0 or not place then return end
  self.counter.n = self.counter.n + 1
  if fit.run.mode ~= "run" then return end
  fit:save_model(name_of(e.step), e.metrics)
  if dropped and dropped.step ~= e.step then trees.remove(fit:path(name_of(dropped.step))) end
end

--- A later evaluation that is as good as the best one wins: its weights have seen more.
function Callback:evaluated(e)
  local value, better, name = metric.of(KEY, self.wanted, e)
  local place, dropped = tracker_of(self, better):update(value, e.step)
  e.better, e.metric, e.value = place == 1, name, value
  keep_top(self, e, place, dropped)
  if not e.better then return end
  self.step, self.metrics, self.meter = e.step, e.metrics, e.meter
  self.weights = copy_of(self.fit.model:state_dict(), self.weights)
  if self.fit.o.keep ~= "best" then return end
  self.fit:save_model("best.capl", e.metrics)
  if self.checked then return end -- once early: nobody wants to learn at the end that nothing can read the file
  exported.check(self.fit:model_path("best.capl"), e.meter)
  self.checked = true
end

--- Puts the weights to keep into the model.
function Callback:restore()
  local fit = self.fit
  if fit.o.keep == "best" and self.weights and self.step ~= fit.step then fit.model:load_state_dict(self.weights) end
end

function Callback:state()
  return {step = self.step, metrics = self.metrics, weights = self.weights, saved_models = self.counter.n,
    tracker = self.tracker and self.tracker:state() or self.saved}
end

function Callback:set_state(state)
  self.step, self.metrics, self.saved = state.step, state.metrics or state.figures, state.tracker
  self.weights = state.weights and copy_of(state.weights, self.weights)
  self.counter.n = state.saved_models or 0
  if self.tracker and state.tracker then self.tracker:set_state(state.tracker) end
end

-- Weights that do not fit would be found out at the end of the run.
function Callback:state_shape()
  local weights, tracker = self.fit.model:state_dict(), BestTracker.state_shape()
  weights["*"], weights["?"], tracker["?"] = "none", true, true
  return {step = "count?", metrics = "metrics?", figures = "metrics?", saved_models = "count?", weights = weights,
    tracker = tracker}
end

return {name = "best", spec = {{"keep", "string", default = "best"}, {"top_k", "whole", default = 0, from = 0},
  {"metric", "string", "table"}}, read = read, new = new, BestTracker = BestTracker}
