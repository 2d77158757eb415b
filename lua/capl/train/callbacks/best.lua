-- best.lua: keeps the weights of the best evaluation, in memory and as best.capl, and the models of the top_k best.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local BestTracker = require "train.best_tracker"
local tensor = require "tensor"
local check = require "check"
local exported = require "train.exported"
local metric = require "train.metric"
local trees = require "run.trees"

local OP = "train.fit"

local Best = {}
Best.__index = Best

local function read(o)
  check.one_of(OP, "keep", o.keep, {"best", "last"})
  if o.top_k < 0 then check.fail(OP, ("top_k is a number of models from 0 on, got %d"):format(o.top_k)) end
  if o.top_k > 0 and not o.val then check.fail(OP, "top_k needs a val loader that says which are best", "give val, or leave top_k out") end
  metric.read(OP, o.metric)
end

local function new(fit)
  local self = setmetatable({fit = fit, wanted = metric.read(OP, fit.o.metric), counter = {n = 0}}, Best)
  if fit.o.top_k > 0 then
    local counter = self.counter
    fit.run:add_feature{name = ("top_k = %d"):format(fit.o.top_k), what = "models among the best", count = function() return counter.n end}
  end
  return self
end

-- Copies, not handles: the weights go on changing.
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
  fit:save_model(name_of(e.step), e.figures)
  if dropped and dropped.step ~= e.step then trees.remove(fit:path(name_of(dropped.step))) end
end

--- A later evaluation that is as good as the best one wins: its weights have seen more.
function Best:evaluated(e)
  local value, better, name = metric.of(OP, self.wanted, e)
  local place, dropped = tracker_of(self, better):update(value, e.step)
  e.better, e.metric, e.value = place == 1, name, value
  keep_top(self, e, place, dropped)
  if not e.better then return end
  self.step, self.figures, self.meter = e.step, e.figures, e.meter
  self.weights = copy_of(self.fit.model:state_dict(), self.weights)
  if self.fit.o.keep ~= "best" then return end
  self.fit:save_model("best.capl", e.figures)
  if self.checked then return end -- once early: nobody wants to learn at the end that nothing can read the file
  exported.check(self.fit:model_path("best.capl"), e.meter)
  self.checked = true
end

--- Puts the weights to keep into the model.
function Best:restore()
  local fit = self.fit
  if fit.o.keep == "best" and self.weights and self.step ~= fit.step then fit.model:load_state_dict(self.weights) end
end

function Best:state()
  return {step = self.step, figures = self.figures, weights = self.weights, saved_models = self.counter.n,
    tracker = self.tracker and self.tracker:state() or self.saved}
end

function Best:set_state(state)
  self.step, self.figures, self.saved = state.step, state.figures, state.tracker
  self.weights = state.weights and copy_of(state.weights, self.weights)
  self.counter.n = state.saved_models or 0
  if self.tracker and state.tracker then self.tracker:set_state(state.tracker) end
end

return {name = "best", spec = {{"keep", "string", default = "best"}, {"top_k", "whole", default = 0}, {"metric", "string", "table"}},
  read = read, new = new}
