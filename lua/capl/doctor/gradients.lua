-- gradients.lua: layers whose gradients vanish, explode, or never come.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local STEPS = 2
local EXPLODES, VANISHES = 1e3, 1e-7 -- length of a gradient by that of its weight

local function length(t) return core.no_grad(function() return (t * t):sum():sqrt():item() end) end

local function backward(ctx)
  local o, capl = ctx.o, require "init"
  local sums = {}
  o.model:train()
  for _ = 1, STEPS do
    local batch = ctx:batch()
    local loss = capl.autocast(o.precision, function() return o.loss(o.model(o.input(batch)), batch) end)
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

local function judge(ctx, name, p, size)
  local layer = name:match("^(.*)%.[^.]+$") or name
  local where = ctx:line(layer:match("([%a_][%w_]*)$") and layer:match("([%a_][%w_]*)$") .. "%s*=%s*nn" or "nn%.Sequential")
  if size == nil and p.requires_grad then
    return ctx:error(("%s takes no part in the loss: it gets no gradient"):format(name),
      {where = where, write = "use the layer in forward, or leave it out"})
  end
  local weight = length(p)
  if size == nil or #p.shape < 2 or weight == 0 then return end
  local share = size / weight
  if size == 0 or share < VANISHES then
    ctx:error(("the gradient of %s vanishes: %.1e of its weights"):format(name, share),
      {where = where, write = "nn.BatchNorm2d between layers, nn.ReLU instead of sigmoid or tanh, or fewer layers"})
  elseif share > EXPLODES then
    ctx:warn(("the gradient of %s is %.0f times its weights"):format(name, share),
      {where = ctx:line("optim%."), write = "clip_norm = 1 in the optimizer, or nn.BatchNorm2d between layers"})
  end
  return share
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
  local least, most = math.huge, 0
  for name, p in ctx.model:named_parameters() do
    local share = p.requires_grad and sums[name] ~= false and judge(ctx, name, p, sums[name])
    if share then least, most = math.min(least, share), math.max(most, share) end
  end
  return ("%.1e to %.1e of the weights they belong to"):format(least, most)
end

return {name = "gradients", check = check}
