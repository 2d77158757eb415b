-- run_curve.lua: losses that are no numbers, jump, or never fall.
-- SPDX-License-Identifier: Apache-2.0
local value = require "report.value"

local JUMP = 3 -- times the median of the points before
local BEFORE = 10
local TINY = 0.05 -- of the first loss: what is below comes from few samples, and jumps in sound runs

local function median(list)
  local sorted = {}
  for i, x in ipairs(list) do sorted[i] = x end
  table.sort(sorted)
  return sorted[math.ceil(#sorted / 2)]
end

-- Steps at which the loss jumped far above what it was.
local function jumps(points)
  local out, window, first = {}, {}, nil
  for _, p in ipairs(points) do
    if value.number(p, "loss") then
      first = first or math.abs(p.loss)
      if #window == BEFORE and p.loss > math.max(JUMP * math.abs(median(window)) + 1e-3, TINY * first) then
        out[#out + 1] = p.step
      end
      window[#window + 1] = p.loss
      if #window > BEFORE then table.remove(window, 1) end
    end
  end
  return out
end

local function losses(points)
  local out = {}
  for _, p in ipairs(points) do
    if value.number(p, "loss") then out[#out + 1] = p.loss end
  end
  return out
end

-- Whether train.fit or an optimizer held the gradients: the files of a run show what train.fit did, its recipe the
-- rest.
local function was_clipped(ctx)
  for _, key in ipairs{"clip_norm", "clip_value"} do
    local x = value.number(ctx.r.settings, "loop", key, "value")
    if x and x > 0 or ctx.text and ctx.text:find(key .. "%s*=") then return true end
  end
  return false
end

-- What may help, and clip_norm where the run did not have it.
local function remedy(ctx, text) return was_clipped(ctx) and text or text .. ", or clip_norm = 1 in the optimizer" end

local function check(ctx)
  local points = ctx.r.points
  local list = losses(points)
  if #list < 5 then return ctx:skip("too few points of the curve") end
  for _, p in ipairs(points) do
    if p.loss ~= nil and not value.number(p, "loss") then
      ctx:error(("the loss of step %d is no number"):format(p.step),
        {where = ctx:line("lr%s*=", "optim%."), write = remedy(ctx, "perhaps a lower lr")})
      break
    end
  end
  local at = jumps(points)
  if #at > 0 then
    ctx:warn(("the loss jumped to more than %d times what it was %d times, first at step %d"):format(JUMP, #at, at[1]),
      {where = ctx:line("lr%s*=", "optim%."), write = remedy(ctx, "perhaps a lower lr or a longer warmup")})
  end
  local first, low = list[1], math.huge
  for _, loss in ipairs(list) do low = math.min(low, loss) end
  if low > first - 0.05 * math.abs(first) then
    ctx:error(("the loss never fell: %.3g at first, %.3g at best"):format(first, low),
      {where = ctx:line("lr%s*=", "optim%."), write = "run capl doctor on the recipe, and check its lr first"})
  end
  return ("%.3g at first, %.3g at best, %.3g at last"):format(first, low, list[#list])
end

return {name = "loss", check = check}
