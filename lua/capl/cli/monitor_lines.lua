-- monitor_lines.lua: what `capl monitor` prints: a line per GPU, one of the processors, one of the run; unknown metrics
-- left out.
-- SPDX-License-Identifier: Apache-2.0
local curves = require "report.curves"
local of = require("train.callbacks.monitor").of
local progress = require "run.progress"

local lines = {}

-- Adds what format makes of the values, unless one is not known.
local function add(parts, format, ...)
  for i = 1, select("#", ...) do
    if select(i, ...) == nil then return end
  end
  parts[#parts + 1] = format:format(...)
end

local function share(x) return x and 100 * x end

--- g: {index, name, power_w, …}
function lines.gpu(g)
  local parts = {("GPU %d  %s"):format(g.index, g.name)}
  if g.lost then return parts[1] .. "  lost to the driver" end
  if g.power_limit_w then add(parts, "power %.0f of %.0f W", g.power_w, g.power_limit_w)
    else add(parts, "power %.0f W", g.power_w) end
  add(parts, "busy %.0f %%", share(g.utilization))
  add(parts, "memory %s", of(g.memory_used, g.memory_total))
  add(parts, "%.0f C", g.temperature_c)
  add(parts, "SM %.0f MHz", g.sm_mhz)
  add(parts, "memory %.0f MHz", g.memory_mhz)
  add(parts, "held down by %s", g.throttle)
  return table.concat(parts, "  ")
end

--- m: metrics of the machine
function lines.machine(m)
  local parts = {"CPU  "}
  add(parts, "busy %.0f %%", share(m.cpu_machine))
  add(parts, "load %.2f", m.load)
  add(parts, "memory %s", of(m.ram_used, m.ram_total))
  add(parts, "%.0f W", m.cpu_power_w)
  add(parts, "%.0f C", m.cpu_temperature_c)
  add(parts, "%.0f MHz", m.cpu_mhz)
  return table.concat(parts, "  ")
end

-- "val 96.1 %" of whole texts, "val gap MAE 1.94" of others
local function val_text(name, x)
  local what = name == "exact" and "" or curves.name_of(name) .. " "
  return ("val %s%s"):format(what, curves.is_share(name) and ("%.1f %%"):format(100 * x) or ("%.4g"):format(x))
end

--- r: {name, state, ranks, slowest_rank, step, loss, val = {name, value}, images_per_s, left_seconds, cpu, rss}
function lines.run(r)
  local parts = {"run    " .. r.name}
  if r.state ~= "running" then parts[#parts + 1] = r.state end
  add(parts, "%d ranks", r.ranks)
  add(parts, "the others wait for rank %d", r.slowest_rank)
  add(parts, "step %d", r.step)
  add(parts, "loss %.4f", r.loss)
  if r.val then parts[#parts + 1] = val_text(r.val.name, r.val.value) end
  add(parts, "%.0f images/s", r.images_per_s)
  if r.left_seconds then parts[#parts + 1] = "left " .. progress.duration(r.left_seconds) end
  add(parts, "process: %.0f %% of its processors", share(r.cpu))
  add(parts, "%.0f MB", r.rss and r.rss / 1e6)
  return table.concat(parts, "  ")
end

return lines
