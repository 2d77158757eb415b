-- starvation.lua: whether training waits for its data.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local forward = require "forward"
local watch = require "doctor.watch"

local STEPS = 12
local MUCH, TOO_MUCH = 0.1, 0.3 -- shares of the time

local function train_some(ctx)
  local o = ctx.o
  o.model:train()
  o.optimizer:set_position(0.5) -- of a run that is over half; snapshot puts it back
  local started, waited, steps = nil, 0, 0
  for k = 0, STEPS do -- the first one makes plans
    local asked = core.clock()
    local batch = ctx:batch()
    if k > 0 then waited = waited + core.clock() - asked end
    local loss = forward.loss(o, batch)
    o.optimizer:backward(loss)
    o.optimizer:apply()
    o.optimizer:zero_grad()
    loss:item()
    core.step_end()
    started = started or core.clock()
    steps = k
  end
  return waited, core.clock() - started, steps
end

-- Steps of its own, after which all is as before.
local function of_fit(ctx)
  local saved = ctx:save()
  local ok, waited, seconds, steps = pcall(train_some, ctx)
  saved:restore()
  if not ok then error(waited, 0) end
  return waited, seconds, steps
end

local function of_loop(seen)
  if seen.seconds then return seen.waited, seen.seconds, watch.LOOK - 1 end
end

local function check(ctx)
  local waited, seconds, steps
  if ctx.o then waited, seconds, steps = of_fit(ctx) else waited, seconds, steps = of_loop(ctx.seen) end
  if not waited then return ctx:skip("no train loader, or too few steps") end
  local share = waited / math.max(seconds, 1e-9)
  local text = ("%.0f %% of %d steps of %.1f ms were spent waiting for data"):format(100 * share, steps,
    1000 * seconds / steps)
  if share < MUCH then return text end
  local how = ctx:setting("workers", '"auto"', "workers%s*=", "data%.loader")
  local train = ctx.loaders.train
  if train.workers ~= 0 then -- images that are drawn anew cannot be kept
    how.write = "perhaps " .. (train.source.dir and "cache = \"ram\" in data.loader, " or "")
      .. "lighter augmentation, or more processors"
  end
  local report = share > TOO_MUCH and steps >= STEPS and ctx.error or ctx.warn
  report(ctx, text, how)
end

return {name = "data starvation", check = check}
