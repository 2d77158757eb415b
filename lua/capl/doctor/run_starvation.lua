-- run_starvation.lua: how much of a run was spent waiting for data.
-- SPDX-License-Identifier: Apache-2.0
local function check(ctx)
  local sum, n = 0, 0
  for _, p in ipairs(ctx.r.points) do
    if type(p.wait) == "number" and p.wait == p.wait then sum, n = sum + p.wait, n + 1 end
  end
  if n == 0 then return ctx:skip("the run did not note its waiting") end
  local share = sum / n
  local text = ("waited %.1f %% of the time for data"):format(100 * share)
  if share < 0.1 then return text end
  local report = share > 0.3 and ctx.error or ctx.warn
  report(ctx, text, {where = ctx:line("workers%s*=", "cache%s*=", "data%.loader"),
    write = "workers = \"auto\", cache = \"ram\", or images of the size that is wanted"})
end

return {name = "data starvation", check = check}
