-- starvation.lua: whether training waits for its data.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local STEPS = 12
local MUCH, TOO_MUCH = 0.1, 0.3 -- shares of the time

local function train_some(ctx)
  local o, capl = ctx.o, require "init"
  o.model:train()
  o.optimizer:set_position(0.5) -- of a run that is over half; snapshot puts it back
  local started, waited, steps = nil, 0, 0
  for k = 0, STEPS do -- the first one makes plans
    local asked = core.clock()
    local batch = ctx:batch()
    if k > 0 then waited = waited + core.clock() - asked end
    local loss = capl.autocast(o.precision, function() return o.loss(o.model(o.input(batch)), batch) end)
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

local function check(ctx)
  local o = ctx.o
  if not o then return ctx:skip("the recipe has a loop of its own; its report tells how long it waited") end
  local saved = ctx:save()
  local ok, waited, seconds, steps = pcall(train_some, ctx)
  saved:restore()
  if not ok then error(waited, 0) end
  local share = waited / math.max(seconds, 1e-9)
  local text = ("%.0f %% of %d steps of %.1f ms were spent waiting for data"):format(100 * share, steps, 1000 * seconds / steps)
  if share < MUCH then return text end
  local how = ctx:setting("workers", '"auto"', "workers%s*=", "data%.loader")
  if o.train.workers ~= 0 then how.write = "cache = \"ram\" in data.loader, lighter augmentation, or more processors" end
  local tell = share > TOO_MUCH and ctx.error or ctx.warn
  tell(ctx, text, how)
end

return {name = "data starvation", check = check}
