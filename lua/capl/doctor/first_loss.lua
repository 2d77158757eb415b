-- first_loss.lua: the loss of an untrained model beside what it should be.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local forward = require "forward"
local initial_loss = require "train.callbacks.initial_loss"

local function look(ctx)
  local o = ctx.o
  local batch = ctx:batch()
  o.model:train()
  local watch = initial_loss.begin()
  local ok, value = pcall(core.no_grad, function()
    return forward.loss(o, batch):item()
  end)
  local findings = watch:finish()
  if not ok then error(value, 0) end
  if value ~= value or math.abs(value) == math.huge then
    ctx:error(("the loss of the untrained model is %s"):format(tostring(value)),
      {where = ctx:line("loss%s*=%s*function", "nn%.cross_entropy"),
      write = "train it with detect_anomaly = true: that names the layer"})
  end
  return findings, value
end

local function check(ctx)
  local findings, value
  if ctx.o then findings, value = look(ctx) else findings = ctx.seen.first or {} end
  for _, f in ipairs(findings) do
    if f.warning then
      ctx:warn(f.text .. "; " .. f.warning:gsub("^warning: ", ""),
        {where = ctx:line("nn%.init", "nn%." .. f.loss), write = f.loss ~= "mse"
        and "perhaps the layer's own init, once" or nil})
    end
  end
  if findings[1] then return findings[1].text end
  if not value then return ctx:skip("none of the losses that have an expectation is computed in the first step") end
  return ("%.3g; its expectation is not known for this loss"):format(value)
end

return {name = "first loss", check = check}
