-- shards.lua: the keys deterministic and shards of train.fit: the same bits on any number of ranks (train/shards.lua).
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local dist = require "dist"
local shards = require "train.shards"
local determinism = require "determinism"

local OP = "train.fit"

local Part = {}
Part.__index = Part

-- Images of a step's batch over all ranks.
local function of_all(o) return o.train.batch * (o.train.ranks and o.train:ranks() or 1) end

local function check_batch(o)
  local all, ranks = of_all(o), dist.world().size
  if o.train.ranks and o.train:ranks() ~= ranks then
    check.fail(OP, ("shards = %d, but the train loader gives the same images to all of the %d ranks"):format(o.shards,
      ranks), "leave shard = false out of data.loader")
  end
  if all % o.shards == 0 then return end
  check.fail(OP, ("a batch of %d on all ranks together makes no %d shards of one size"):format(all, o.shards),
    ("for example batch = %d"):format(math.ceil(all / o.shards) * o.shards / (all / o.train.batch)))
end

local function check_others(o)
  if o.on_oom == "split" then
    check.fail(OP, ("shards = %d and on_oom = \"split\" both cut a batch into parts; give one"):format(o.shards))
  end
  if o.capture == true then
    check.fail(OP, ("capture = true, but each of the %d shards of a step is a separate pass, with other dropout"):format(o.shards),
      "leave capture out: such a step is made op by op")
  end
end

local function prepare(o)
  if o.deterministic ~= nil then determinism.deterministic(o.deterministic) end
  local given = shards.setting()
  o.shards = o.shards or given
  if not o.shards then return end
  shards.prepare(OP, o.shards)
  check_others(o)
  check_batch(o)
  if o.train.set_parts then o.train:set_parts(o.shards) end
end

local function new(fit)
  local o = fit.o
  if not o.shards then return nil end
  local counter = {n = 0}
  fit.run:add_feature{name = ("shards = %d"):format(o.shards),
    what = "steps whose bits do not depend on the number of ranks", count = function() return counter.n end}
  return setmetatable({fit = fit, counter = counter}, Part)
end

-- 12 -> "1, 2, 3, 4, 6 or 12"
local function divisors(n)
  local out = {}
  for k = 1, n do
    if n % k == 0 then out[#out + 1] = k end
  end
  local last = table.remove(out)
  return #out > 0 and table.concat(out, ", ") .. " or " .. last or tostring(last)
end

function Part:lines()
  local o = self.fit.o
  local all, ranks = of_all(o), o.train.ranks and o.train:ranks() or 1
  return {("shards: %d of %d images, %d on each rank, one compute thread: the same bits on %s ranks"):format(o.shards,
    all / o.shards, o.shards / ranks, divisors(o.shards))}
end

function Part:after_step() self.counter.n = self.counter.n + 1 end

function Part:state() return {steps = self.counter.n} end
function Part:set_state(state) self.counter.n = state.steps end

return {name = "shards", spec = {{"shards", "whole"}, {"deterministic", "boolean"}}, prepare = prepare, new = new}
