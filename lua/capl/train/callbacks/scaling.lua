-- scaling.lua: in a world of several ranks: how much of a step the exchange of gradients should cost, told after the first
-- steps; at the end what it did cost.
--
-- What is expected is dist/cost.lua's: computing and the rate of the exchange are measured in the first steps (the rate by the
-- check before them, where there was one), the order of the gradients is that of the layers.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local cost = require "dist.cost"
local dist = require "dist"
local hooks = require "hooks"
local preflight = require "dist.preflight"
local run = require "run"

local FIRST, LAST = 3, 13 -- steps between which is measured; before them memory is found and plans are made

local Scaling = {}
Scaling.__index = Scaling

local function new(fit)
  local world = dist.world()
  if world.size < 2 or world.planned or run.mode ~= "run" then return nil end
  return setmetatable({fit = fit, world = world}, Scaling)
end

-- Gradients by layer, where the model shows its layers; else all of them.
local function buckets_of(model)
  local shape = run.image_shape
  if not shape or hooks.model ~= model then return nil end
  local fine, summary = pcall(require("nn.summary"), model, shape)
  return fine and cost.buckets(summary.rows, 4) or nil
end

local function gradient_bytes(model)
  local bytes = 0
  for _, p in model:named_parameters() do
    if p.requires_grad then bytes = bytes + 4 * p:numel() end
  end
  return bytes
end

-- Bytes a second of an all-reduce: as measured at the start, else in these steps; nil where they exchanged no gradients.
local function rate_of(before, now, gradients)
  local bytes, busy = now.bytes - before.bytes, now.busy - before.busy
  if bytes < gradients or busy <= 0 then return nil end
  local figures = preflight.figures
  return figures and figures.bandwidth or bytes / busy
end

--- Between the first steps and some more: seconds of a step, and how many of them this rank has waited.
function Scaling:expect()
  local world, model = self.world, self.fit.model
  local now, steps = world:traffic(), LAST - FIRST
  local took, waited = core.clock() - self.since, now.waited - self.before.waited
  local bytes = gradient_bytes(model)
  local rate = rate_of(self.before, now, bytes * steps)
  if not rate then return end
  local e = cost.estimate{ranks = world.size, compute = math.max(1e-6, (took - waited) / steps), bytes = bytes,
    buckets = buckets_of(model), links = {rate = rate}}
  self.expected = e.efficiency
  run.print(cost.line(e))
  local warning = cost.advice(e)
  if warning then run.print("warning: " .. warning) end
end

function Scaling:after_step()
  local steps = self.fit.step - (self.from or 0)
  if steps == FIRST then
    self.since, self.before = core.clock(), self.world:traffic()
  elseif steps == LAST and self.since then
    self:expect()
  end
end

--- A resumed run measures its own first steps.
function Scaling:begin()
  local traffic = self.world:traffic()
  self.from, self.began, self.waited, self.calls = self.fit.step, core.clock(), traffic.waited, traffic.calls
end

-- Evaluations are between two steps, and their exchanges none of training.
function Scaling:before_evaluation()
  self.paused, self.at_pause = core.clock(), self.world:traffic()
end

function Scaling:after_evaluation()
  if not self.paused then return end
  local took, now, before = core.clock() - self.paused, self.world:traffic(), self.before
  self.began, self.waited = self.began + took, self.waited + (now.waited - self.at_pause.waited)
  if self.since then
    self.since = self.since + took
    for _, name in ipairs{"bytes", "busy", "waited"} do before[name] = before[name] + (now[name] - self.at_pause[name]) end
  end
  self.paused = nil
end

function Scaling:finish(result)
  local traffic = self.world:traffic()
  if traffic.calls == self.calls then return end
  local measured = cost.measured(core.clock() - self.began, traffic.waited - self.waited)
  result.efficiency, result.efficiency_expected = measured, self.expected
  local line = cost.compare(self.expected, measured)
  if line then run.print(line .. (": %d ranks"):format(self.world.size)) end
end

return {name = "scaling", new = new}
