-- gradients.lua: layers whose gradients vanish, explode, or never come.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local forward = require "forward"
local snapshot = require "train.snapshot"

local STEPS = 2
local EXPLODES, VANISHES = 1e3, 1e-7 -- length of a gradient by that of its weight

local function length(t) return core.no_grad(function() return (t * t):sum():sqrt():item() end) end

local function backward(ctx)
  local o, sums = ctx.o, {}
  o.model:train()
  for _ = 1, STEPS do
    local batch = ctx:batch()
    local loss = forward.loss(o, batch)
    loss:backward()
    for name, p in o.model:named_parameters() do
      local grad = p.grad
      if grad then sums[name] = (sums[name] or 0) + length(grad) / STEPS end
    end
    o.optimizer:zero_grad()
    o.model:zero_grad()
  end
  return sums
end

-- ---- what is wrong: each kind reported once, by its first parameter ----

local function line_of_layer(ctx, name)
  local last = (name:match("^(.*)%.[^.]+$") or name):match("([%a_][%w_]*)$")
  return ctx:line(last and last .. "%s*=%s*nn" or "nn%.Sequential")
end

-- "" or " (and 18 others)"
local function others(list)
  return #list > 1 and (" (and %d other%s)"):format(#list - 1, #list == 2 and "" or "s") or ""
end

local function report_idle(ctx, list)
  local f = list[1]
  if f then
    ctx:error(("%s takes no part in the loss: it gets no gradient%s"):format(f.name, others(list)),
      {where = line_of_layer(ctx, f.name), write = "use the layer in forward, or leave it out"})
  end
end

local function report_vanishing(ctx, list)
  local f = list[1]
  if f then
    ctx:error(("the gradient of %s vanishes: %.1e of its weights%s"):format(f.name, f.share, others(list)),
      {where = line_of_layer(ctx, f.name),
        write = "perhaps nn.BatchNorm2d between layers, nn.ReLU instead of sigmoid or tanh, or fewer layers"})
  end
end

-- Whether the recipe holds its gradients already.
local function is_clipped(ctx)
  local opt = ctx.o and ctx.o.optimizer or ctx.seen and ctx.seen.optimizer
  local function on(x) return type(x) == "number" and x > 0 end
  if ctx.o and (on(ctx.o.clip_norm) or on(ctx.o.clip_value)) then return true end
  if not opt then return false end
  for _, one in ipairs{opt, unpack(snapshot.members(opt))} do
    if on(one.clip_norm) or on(one.clip_value) then return true end
  end
  return false
end

local function report_exploding(ctx, list)
  local f = list[1]
  if f and not is_clipped(ctx) then
    ctx:note(("the gradient of %s is %.0f times its weights%s; Adam, Muon and others divide by such a size, SGD " ..
      "does not"):format(
      f.name, f.share, others(list)),
      {where = ctx:line("optim%."), write = "perhaps clip_norm = 1 in the optimizer; compare the val loss"})
  end
end

-- Sorts the parameters of a model into the kinds above -> least and most share
local function judge(ctx, sums)
  local idle, vanishing, exploding, least, most = {}, {}, {}, math.huge, 0
  for name, p in ctx.model:named_parameters() do
    local size, weight = sums[name], length(p)
    if size == nil and p.requires_grad then
      idle[#idle + 1] = {name = name}
    elseif size and p.requires_grad and #p.shape > 1 and weight > 0 then
      local share = size / weight
      least, most = math.min(least, share), math.max(most, share)
      local kind = share < VANISHES and vanishing or share > EXPLODES and exploding
      if kind then kind[#kind + 1] = {name = name, share = share} end
    end
  end
  report_idle(ctx, idle)
  report_vanishing(ctx, vanishing)
  report_exploding(ctx, exploding)
  return least, most
end

-- Backward passes of their own, after which all is as before.
local function of_fit(ctx)
  local saved = ctx:save()
  local ok, sums = pcall(backward, ctx)
  saved:restore()
  if not ok then error(sums, 0) end
  return sums
end

local function check(ctx)
  if not ctx.model then return ctx:skip("the recipe does not call capl.model") end
  local sums = ctx.o and of_fit(ctx) or ctx.seen.gradients
  local least, most = judge(ctx, sums)
  return ("%.1e to %.1e of their weights"):format(least, most)
end

return {name = "gradients", check = check}
