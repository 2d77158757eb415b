-- lr_find.lua: lr = "find" of train.fit: looks for the learning rate before the first step.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local lr_find = require "train.lr_find"
local run = require "run"
local schedule = require "optim.schedule"
local snapshot = require "train.snapshot"

local OP = "train.fit"

local Find = {}
Find.__index = Find

local function read(o)
  if o.lr == nil or o.lr == "find" then return end
  check.fail(OP, ('lr is "find", got \'%s\''):format(tostring(o.lr)), "a rate itself is given to the optimizer")
end

-- Rates of all groups as the recipe gave them.
local function originals(optimizer)
  local out = {}
  for i, opt in ipairs(snapshot.members(optimizer)) do
    out[i] = {}
    for k, group in ipairs(opt.groups) do out[i][k] = group.lr end
  end
  return out
end

local function new(fit)
  if not fit.o.lr or run.mode == "check" then return nil end
  local self = setmetatable({fit = fit, given = originals(fit.optimizer)}, Find)
  run.add_feature{name = 'lr = "find"', what = "steps at rising rates", count = function() return self.found and self.found.steps or 0 end}
  return self
end

-- Multiplies all rates that the recipe gave.
function Find:apply()
  local fit = self.fit
  for i, opt in ipairs(snapshot.members(fit.optimizer)) do
    for k, group in ipairs(opt.groups) do
      local given = self.given[i][k]
      group.lr = schedule.is(given) and schedule.scaled(given, self.found.factor) or given * self.found.factor
    end
  end
  fit.optimizer:set_position(fit.span.position)
end

function Find:begin()
  local fit = self.fit
  local o = fit.o
  if not self.found then
    local path = run.mode == "run" and fit:path("lr.png") or nil
    local found = lr_find.find{model = o.model, train = o.train, loss = o.loss, optimizer = o.optimizer, input = o.input,
      precision = o.precision, path = path, title = run.name()}
    if not found.suggestion then
      check.fail(OP, 'lr = "find": ' .. found.why, "give a rate to the optimizer; the losses are in lr.png")
    end
    self.found = {factor = found.factor, text = found.text, peak = found.peak, steps = #found.lr, lr = found.suggestion}
  end
  self:apply()
end

function Find:lines()
  local f = self.found
  return {("lr found: %s; the recipe's highest, %.3g, is multiplied by %.3g"):format(f.text, f.peak, f.factor)}
end

function Find:finish(result) result.lr_found = self.found.lr end

function Find:state() return self.found end

function Find:set_state(state) self.found = state end

return {name = "lr_find", spec = {{"lr", "string", "number", "table"}}, read = read, new = new}
