-- run_end.lua: how a run ended, and whether it was still learning.
-- SPDX-License-Identifier: Apache-2.0
local value = require "report.value"

local function mean(points, from, to)
  local sum, n = 0, 0
  for i = math.max(1, math.floor(from)), math.min(#points, math.floor(to)) do
    local loss = value.number(points[i], "loss")
    if loss then sum, n = sum + loss, n + 1 end
  end
  return n > 0 and sum / n or nil
end

local function check(ctx)
  local r = ctx.r
  if r.state == "failed" then
    local said = tostring(r.error and r.error.message or r.why)
    local e = r.error or {}
    ctx:error("the run ended with an error: " .. said:gsub("\n.*", ""), {where = e.where, write = e.hint})
  elseif r.state == "killed" then
    ctx:error(("the run was killed at step %d"):format(r.step),
      {write = "capl RECIPE --resume continues from its last checkpoint"})
  elseif r.state == "stopped" then
    ctx:note(("the run was interrupted at step %d"):format(r.step), {write = "capl RECIPE --resume continues"})
  end
  local n = #r.points
  if n >= 20 and r.state == "finished" then
    local before, last = mean(r.points, 0.6 * n, 0.8 * n), mean(r.points, 0.8 * n + 1, n)
    if before and last and last < 0.9 * before then
      ctx:note(("the loss was still falling at the end: %.3g in the last fifth, %.3g in the one before"):format(last,
        before), {where = ctx:line("steps%s*=", "samples%s*=", "epochs%s*=", "max_time%s*="),
          write = "perhaps more steps; compare the val loss"})
    end
  end
  return ("%s after %d steps%s"):format(r.state, r.step, r.why and ": " .. r.why or "")
end

return {name = "end", check = check}
