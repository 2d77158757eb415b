-- accumulate.lua: the key accumulate of train.fit: a step sums the gradients of several batches (train/step.lua does
-- it).
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"

local OP = "train.fit"

local Accumulate = {}
Accumulate.__index = Accumulate

local function read(o)
  if o.accumulate == 1 then return end
  if o.on_oom == "split" then
    check.fail(OP, ("accumulate = %d and on_oom = \"split\" both cut a step into parts; give one"):format(o.accumulate),
      "a smaller batch with a larger accumulate takes less memory")
  end
  local batches = o.train:batches()
  if batches < 2 then
    check.fail(OP, ("accumulate = %d: an epoch has one batch, so there is nothing to sum"):format(o.accumulate))
  end
  if o.accumulate > batches then
    check.fail(OP, ("accumulate = %d: an epoch has %d batches, and a step sums those of one epoch"):format(o.accumulate,
      batches))
  end
end

local function new(fit)
  if fit.o.accumulate == 1 then return nil end
  local counter = {n = 0}
  fit.run:add_feature{name = ("accumulate = %d"):format(fit.o.accumulate), what = "batches whose gradients were summed",
    count = function() return counter.n end}
  return setmetatable({fit = fit, counter = counter}, Accumulate)
end

local function has_batch_norm(model)
  for _, module in model:named_modules() do
    if module.__name:match("^BatchNorm") then return true end
  end
  return false
end

function Accumulate:lines()
  local o = self.fit.o
  local ranks = o.train.ranks and o.train:ranks() or 1
  local line = ("accumulate: a step sums %d batches of %d%s: %d images"):format(o.accumulate, o.train.batch,
    ranks > 1 and (" on each of %d ranks"):format(ranks) or "", o.accumulate * o.train.batch * ranks)
  return {has_batch_norm(o.model) and line .. ("; batch norm sees %d at a time"):format(o.train.batch) or line}
end

function Accumulate:before_step(group)
  if #group > 1 then self.counter.n = self.counter.n + #group end
end

function Accumulate:state() return {summed = self.counter.n} end
function Accumulate:set_state(state) self.counter.n = state.summed end
function Accumulate.state_shape() return {summed = "count"} end

return {name = "accumulate", spec = {{"accumulate", "whole", default = 1, from = 1}}, read = read, new = new}
