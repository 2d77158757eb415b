-- rate.lua: the recipe's learning rate beside what the learning rate finder suggests.
-- SPDX-License-Identifier: Apache-2.0
local lr_find = require "train.lr_find"

local STEPS = 60
local FAR = 6 -- times the suggestions; those of other batches differ by half of that
local TOO_LOW = 1 / 50

local function of_fit(o)
  return lr_find.find{model = o.model, train = o.train, loss = o.loss, optimizer = o.optimizer, input = o.input,
    precision = o.precision, steps = STEPS}
end

local function check(ctx)
  local found = ctx.o and of_fit(ctx.o) or ctx.seen and ctx.seen.rates
  if not found then
    return ctx:skip("too few steps, or losses that opt:backward_step and opt:backward do not see")
  end
  if not found.suggestion then
    return ctx:warn(found.text, {where = ctx:line("loss%s*=%s*function", "optim%."), write = "see the other findings: no rate helps here"})
  end
  local high, peak = math.max(found.steepest, found.tenth), found.peak
  local last = found.stopped == "diverged" and found.lr[#found.lr] or math.huge
  local how = ctx:setting("lr", ("%.2g"):format(found.suggestion), "lr%s*=", "optim%.")
  local text = ("the highest rate is %.3g; the finder's: %s"):format(peak, found.text)
  if peak >= last then
    ctx:error(text .. ("; at %.3g the loss runs away"):format(last), how)
  elseif peak > FAR * high then
    ctx:warn(text .. ": that is far above", how)
  elseif peak < TOO_LOW * found.suggestion then
    ctx:warn(text .. ": that is far below", how)
  end
  return text
end

return {name = "learning rate", check = check}
