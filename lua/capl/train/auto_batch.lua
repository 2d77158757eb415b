-- auto_batch.lua: train.auto_batch: how many images a batch should have here, by memory and by speed, from real steps.
--
-- On a CPU a larger batch soon gains nothing, and fewer, larger steps learn less: the smallest batch within 3 % of the best
-- rate is taken. A GPU takes the largest that fits with a margin. Afterwards model, optimiser and random numbers are as before.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sync = require "dist.sync"
local check = require "check"
local forward = require "forward"
local hooks = require "hooks"
local snapshot = require "train.snapshot"

local OP = "train.auto_batch"

local SMALLEST, LARGEST = 8, 4096
local STEPS_AN_EPOCH = 8 -- at least
local NEAR = 0.97 -- of the best rate is as good
local TIMES = 3 -- steps that are timed; the fastest counts
local PATIENCE = 4 -- seconds of a step after which nothing larger is tried
local MARGIN = 0.85 -- of the free memory may be used

local spec = {
  {"model", "table", required = true}, {"train", "table", required = true}, {"loss", "function", required = true},
  {"optimizer", "table", required = true}, forward.input,
  forward.precision, {"smallest", "whole", default = SMALLEST}, {"largest", "whole", default = LARGEST},
}

-- Bytes that may still be used; nil when nobody can tell.
local function room()
  local m = core.memory()
  if m.limit > 0 then return m.limit - m.live end
  if m.card_free then return m.card_free + m.cached end
  return core.sys.memory_available()
end

-- On the rank that has least.
local function least_room()
  local free, world = room(), sync.world()
  for _, other in ipairs(world and world:gather{free = free} or {}) do free = math.min(free or math.huge, other.free or math.huge) end
  return free
end

local function step(o, batch)
  o.optimizer:set_position(0.5) -- for schedules over the run; the snapshot puts it back
  local loss = forward.loss(o, batch)
  o.optimizer:backward(loss)
  o.optimizer:apply()
  o.optimizer:zero_grad()
  core.step_end()
  return loss:item() -- waits for the device
end

-- The largest of the ranks' numbers: the slowest and the fullest decides for all. nil where one of them has none.
local function most_of(value)
  local world, most = sync.world(), value
  if not world then return value end
  for _, other in ipairs(world:gather{value = value}) do
    if other.value == nil then return nil end
    most = math.max(most, other.value)
  end
  return most
end

-- {batch, seconds, rate = images a second, bytes = a sample}; nil and the error when it does not fit.
local function measure(o, batch)
  o.train:set_batch(batch)
  local data = o.train:epoch(1)()
  core.collect()
  local live = core.memory().live
  core.memory_reset_peak()
  local ok, err = pcall(step, o, data) -- the first one makes plans and states
  if not ok and not (core.is_error(err) and err.code == "nomem") then error(err, 0) end
  local bytes, best = most_of(ok and (core.memory().peak - live) / batch or nil), math.huge
  if not bytes then
    o.optimizer:zero_grad()
    data = nil -- luacheck: ignore
    core.collect()
    return nil
  end
  for _ = 1, TIMES do
    local started = core.clock()
    step(o, data)
    best = math.min(best, most_of(core.clock() - started))
    if best > PATIENCE then break end
  end
  return {batch = batch, seconds = best, rate = batch / best, bytes = bytes}
end

-- Sizes from the smallest on, each twice the one before, until one does not fit, takes long, or has nothing to gain.
local function try_sizes(o, saved)
  local tried, best, slower, limit, why = {}, 0, 0, math.huge, nil
  local size, most = o.smallest, math.min(o.largest, math.max(o.smallest, math.floor(o.train:samples() / STEPS_AN_EPOCH)))
  local is_gpu = core.device():match("^cuda") ~= nil
  while size <= most do
    local last, free = tried[#tried], least_room()
    if last and free and last.bytes * size > MARGIN * free then limit, why = size, "memory" break end
    local m = measure(o, size)
    saved:rewind()
    if not m then limit, why = size, "memory" break end
    tried[#tried + 1] = m
    if m.seconds > PATIENCE then why = "time" break end
    slower = m.rate < best / NEAR and slower + 1 or 0
    best = math.max(best, m.rate)
    if not is_gpu and slower == 2 then why = "rate" break end
    size = size * 2
  end
  return tried, why or "samples", limit
end

local function choose(tried)
  if core.device():match("^cuda") then return tried[#tried] end
  local best = 0
  for _, m in ipairs(tried) do best = math.max(best, m.rate) end
  for _, m in ipairs(tried) do
    if m.rate >= NEAR * best then return m end
  end
end

local reasons = {
  memory = "%d does not fit", time = "larger steps take too long", rate = "larger ones are no faster",
  samples = "larger ones leave too few steps in an epoch",
}

local function words(chosen, tried, why, limit)
  local rates = {}
  for i, m in ipairs(tried) do rates[i] = ("%d: %.0f"):format(m.batch, m.rate) end
  return ("%d images (images/s at %s; %.2f MB a sample; %s)"):format(chosen.batch, table.concat(rates, ", "), chosen.bytes / 1e6,
    reasons[why]:format(limit < math.huge and limit or 0))
end

--- Measures real steps with batches of 8, 16, 32 … images and gives the loader the best: on a CPU the smallest within 3 % of
-- the best rate, on a GPU the largest that fits. Everything else is then as before, to the bit.
-- opts model; train = loader; loss = function(output, batch); optimizer; input = function(batch); precision = "auto";
--      smallest = 8, largest = 4096
-- out  {batch, text = why, tried = list of {batch, seconds, rate, bytes = of a sample}}
-- errs nomem: not even the smallest fits
local function auto_batch(opts)
  local o = check.options(OP, spec, opts)
  if o.smallest < 1 or o.largest < o.smallest then
    check.fail(OP, ("smallest is from 1 on and no more than largest, got %d and %d"):format(o.smallest, o.largest))
  end
  o.model:train()
  local loader = o.train
  local saved = snapshot.take{model = o.model, optimizer = o.optimizer}
  local before = loader.batch
  local parallel = hooks.parallel
  hooks.parallel = nil -- each rank by itself: one that runs out of memory would leave the others waiting
  local ok, tried, why, limit = pcall(try_sizes, o, saved)
  hooks.parallel = parallel
  saved:restore()
  local chosen = ok and choose(tried)
  loader:set_batch(chosen and chosen.batch or before)
  if not ok then error(tried, 0) end
  if not chosen then
    core.error{code = "nomem", op = OP, path = false, message = ("not even a batch of %d fits"):format(o.smallest),
      hint = "make the model or its images smaller, or keep less: nn.Checkpoint"}
  end
  return {batch = chosen.batch, text = words(chosen, tried, why, limit), tried = tried}
end

return auto_batch
