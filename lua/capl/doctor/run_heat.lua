-- run_heat.lua: a GPU that grew hot, and then slow.
-- SPDX-License-Identifier: Apache-2.0
local HOT = 85

local function check(ctx)
  local most, step
  for _, p in ipairs(ctx.r.points) do
    local celsius = type(p.monitor) == "table" and p.monitor.temperature_c
    if type(celsius) == "number" and celsius > (most or 0) then most, step = celsius, p.step end
  end
  if not most then return ctx:skip("no temperature was noted") end
  local text = ("at most %.0f C, at step %d"):format(most, step)
  if most > HOT then
    ctx:warn(text .. ": the card lowers its clocks", {write = "more cooling, or a lower power limit"})
  end
  return text
end

return {name = "temperature", check = check}
