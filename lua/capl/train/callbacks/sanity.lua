-- sanity.lua: the key sanity of train.fit: a few val batches are read before the first step, so that what is wrong with
-- evaluation shows now and not an hour later. Nothing of it is kept.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local evaluate = require "train.evaluate"
local loaders = require "train.loaders"
local metric = require "train.metric"

local OP = "train.fit"
local BATCHES = 2 -- for "auto"
local STEPS, SECONDS = 200, 60 -- shorter runs come to their first evaluation soon enough

local Sanity = {}
Sanity.__index = Sanity

local function is_short(o) return (o.steps and o.steps < STEPS) or (o.max_time and o.max_time < SECONDS) end

local function read(o)
  if o.sanity == false then o.sanity = 0 end
  if o.sanity == true then o.sanity = BATCHES end
  if o.sanity == "auto" then o.sanity = (is_short(o) or not o.val) and 0 or BATCHES end
  if type(o.sanity) ~= "number" then check.unknown(OP, "sanity", o.sanity, {"auto", "true", "false"}) end
  if o.sanity > 0 and not o.val then
    check.fail(OP, ("sanity = %d: there is no val loader to read"):format(o.sanity))
  end
end

local function new(fit)
  local run = fit.run
  local real = run.mode == "run" or run.mode == "none"
  if fit.o.sanity == 0 or not real then return nil end
  local counter = {n = 0, goes_on = false}
  run:add_feature{name = ("sanity = %d"):format(fit.o.sanity), what = "val samples read before the first step",
    count = function() return counter.n end, used = function() return not counter.goes_on end}
  return setmetatable({fit = fit, counter = counter}, Sanity)
end

--- Random streams are left as they were: the run is the same with and without.
function Sanity:begin()
  local fit, o = self.fit, self.fit.o
  if fit.step > 0 then
    self.counter.goes_on = true -- it was read when the run began
    return
  end
  local seed, streams = core.rng()
  local few = loaders.limited(o.val, o.sanity)
  local meter = evaluate(fit.model, few, {precision = o.precision, merge = o.merge, loss = o.loss,
    meter = o.meter, main = o.main, input = o.input})
  core.rng(seed, streams)
  self.counter.n = few.given()
  local e = {metrics = meter:result(), meter = meter, loss = meter.loss}
  metric.of(OP, metric.read(OP, o.metric), e) -- the metrics that will decide are there
  if o.early_stop then metric.of(OP .. ": early_stop", o.early_stop.metric, e) end
end

function Sanity:lines()
  if self.counter.n > 0 then return {("sanity: %d val samples are read"):format(self.counter.n)} end
  return {}
end

return {name = "sanity", spec = {{"sanity", "whole", "boolean", "string", default = "auto", from = 0}}, read = read,
  new = new}
