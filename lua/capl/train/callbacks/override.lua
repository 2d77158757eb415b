-- override.lua: changes while train.fit runs: runs/NAME/override.json, made between two steps and done again on resume.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local change_log = require "train.change_log"
local sorted_keys = require "sorted_keys"

local Override = {}
Override.__index = Override

-- ---- what can be changed ----

-- Optimizers of the run, and what their groups are by the recipe.
local function optimizers_of(fit) return fit.optimizer.optimizers or {fit.optimizer} end

local function rates_of(fit)
  local out = {}
  for i, opt in ipairs(optimizers_of(fit)) do
    out[i] = {factor = opt.lr_factor or 1}
    for k, group in ipairs(opt.groups) do out[i][k] = group.lr end
  end
  return out
end

-- The learning rates of all groups: value is an absolute one or nil, scale multiplies.
local function set_rates(self, value, scale)
  local fit = self.fit
  for i, opt in ipairs(optimizers_of(fit)) do
    local own = self.own.rates[i]
    if opt.set_lr_factor then opt:set_lr_factor(own.factor * scale) end
    for k in ipairs(opt.groups) do opt:set_lr(value and value / own.factor or own[k], k) end
  end
  fit.optimizer:set_position(fit.span.position)
end

local function set_every(marks, value) marks.every = value end

local function number_from(key, least)
  return function(value)
    if type(value) == "number" and value >= least and value < math.huge then return end
    return ("%s is a number from %g on"):format(key, least)
  end
end

local function steps_or_auto(key)
  return function(value)
    if value == "auto" or (type(value) == "number" and value >= 1 and value % 1 == 0) then return end
    return ("%s is a number of steps or \"auto\""):format(key)
  end
end

local function boolean(key)
  return function(value) return type(value) ~= "boolean" and key .. " is true or false" or nil end
end

local function augment_reason(value, self)
  local loader = self.fit.o.train
  if loader.schedule then return "augment: the train loader follows a schedule" end
  local ok, err = pcall(loader.check_augment, loader, value)
  return not ok and "augment: " .. (core.is_error(err) and err.message or tostring(err)) or nil
end

-- key = why a value cannot be; nil: it can.
local reasons = {
  lr = number_from("lr", 0), lr_scale = number_from("lr_scale", 0), log_every = steps_or_auto("log_every"),
  eval_every = steps_or_auto("eval_every"), augment = augment_reason, stop = boolean("stop"), save = boolean("save"),
}

-- What is wrong with changes, nil when nothing is.
local function problem(self, changes)
  for key, value in pairs(changes) do
    if not reasons[key] then
      local near = core.nearest(tostring(key), sorted_keys(reasons))
      return ("there is no %s to change%s; there are %s"):format(tostring(key), near
        and ", did you mean " .. near .. "?" or "", table.concat(sorted_keys(reasons), ", "))
    end
    local why = reasons[key](value, self)
    if why then return why end
  end
end

local function shown(value)
  if type(value) ~= "table" then return tostring(value) end
  local ok, text = pcall(core.json_encode, value)
  return ok and text or "…"
end

local function text_of(changes)
  local parts = {}
  for key, value in pairs(changes) do parts[#parts + 1] = ("%s = %s"):format(key, shown(value)) end
  table.sort(parts)
  return #parts > 0 and table.concat(parts, ", ") or "the recipe's own values again"
end

-- ---- making changes ----

-- What had another value before; equal tables count as changed, which costs a loader's start.
local function differs(self, changes, key) return changes[key] ~= self.now[key] end

-- Lets exactly these changes hold.
local function apply(self, changes)
  local fit, own = self.fit, self.own
  if differs(self, changes, "lr") or differs(self, changes, "lr_scale") then
    set_rates(self, changes.lr, changes.lr_scale or 1)
  end
  if differs(self, changes, "log_every") then
    set_every(fit.callbacks:get("curve").due, changes.log_every or own.log_every)
  end
  if differs(self, changes, "eval_every") then set_every(fit.eval_due, changes.eval_every or own.eval_every) end
  if differs(self, changes, "augment") then fit.o.train:set_augment(changes.augment) end
  self.now = changes
end

-- Requests that apply once, and not again in a resumed run.
local function apply_once(self, changes)
  if changes.save then self.save_wanted = true end
  if changes.stop then self.fit:stop("stopped", "stopped by override.json") end
end

local function note(self, text)
  self.fit.run:print(("override, step %d: %s"):format(self.fit.step, text))
  if self.fit.record.event then self.fit.record:event(self.fit:at(), "override: " .. text) end
end

local function make(self, changes, again)
  apply(self, changes)
  self.counter.n = self.counter.n + 1
  note(self, text_of(changes) .. (again and "(from overrides.jsonl)" or ""))
end

-- A new request: recorded first, so that a run that is killed here repeats it.
local function request(self, changes)
  local why = problem(self, changes)
  if why then return note(self, "nothing changes: " .. why) end
  local noted, err = pcall(self.log.record, self.log, self.fit.step, changes)
  if not noted then return note(self, "nothing changes: " .. (core.is_error(err) and err.message or tostring(err))) end
  make(self, changes)
  apply_once(self, changes)
end

-- Everything that is due after this step.
local function settle(self)
  for changes in function() return self.log:replay(self.fit.step) end do
    local why = problem(self, changes)
    if why then note(self, "nothing changes: " .. why .. " (from overrides.jsonl)") else make(self, changes, true) end
  end
  local changes, why = self.log:poll()
  if changes then request(self, changes) end
  if why then note(self, why) end
end

local function new(fit)
  local run = fit.run
  if run.mode ~= "run" or fit.o.override == false then return nil end
  local self = setmetatable({fit = fit, log = change_log.new(run:folder()), now = {}, counter = {n = 0}}, Override)
  self.own = {rates = rates_of(fit), log_every = fit.o.log_every, eval_every = fit.o.eval_every}
  return self
end

function Override:begin()
  self.own.rates = self.own.rates or rates_of(self.fit)
  if self.saved then
    self.log:continue_from(self.saved.done)
    apply(self, self.saved.now)
  end
  settle(self)
end

function Override:after_step() settle(self) end

--- Changes the learning rates as the file would: value, or "recipe" for its own again.
function Override:set_lr(value)
  local changes = {}
  for key, old in pairs(self.now) do changes[key] = old end
  changes.lr, changes.lr_scale, changes.stop, changes.save = nil, nil, nil, nil
  if value ~= "recipe" then changes.lr = value end
  request(self, changes)
end

--- Whether somebody asked for a checkpoint since the last call.
function Override:take_save()
  local wanted = self.save_wanted
  self.save_wanted = nil
  return wanted
end

function Override:finish(result) result.overrides = self.counter.n > 0 and self.counter.n or nil end

function Override:state() return {now = self.now, done = self.log.done, count = self.counter.n} end

function Override:set_state(state)
  self.saved = state
  self.counter.n = state.count
end

function Override:state_shape()
  return {count = "count", done = "count", now = function(changes)
    return type(changes) ~= "table" and "it must be a table of changes" or problem(self, changes)
  end}
end

return {name = "override", spec = {{"override", "boolean", default = true}}, new = new}
