-- machine.lua: what a run does to the machine, whatever its loop is: sampled from its first step on, printed at its
-- end.
--
-- train.fit samples by itself (train/callbacks/monitor.lua) and says so; a custom training loop gets a sampler here.
-- SPDX-License-Identifier: Apache-2.0
local monitor = require "train.callbacks.monitor"

local machine = {}

-- A setting that was asked for has to show that it was active.
local function add_feature(run, every, origin)
  if origin ~= "flag" and not origin:match("^preset") then return end
  run:add_feature{name = ("monitor_every = %g"):format(every), what = "readings of the machine", count = function()
    local t = machine.totals(run)
    return t and t.samples or 0
  end}
end

-- A run has own_sampler of a custom training loop, fit_sampler of train.fit, and machine_totals of the latter when it
-- is closed.

local function step(run)
  local own = run.own_sampler
  if own then
    for text in own.event, own do run:print("warning: " .. text) end
  end
  if run.steps ~= 1 then return end
  local every, origin = run:setting("monitor_every")
  every = every or 1
  if every == 0 then return end
  if origin then add_feature(run, every, origin) end
  if not run.fit_sampler and not run.machine_totals then run.own_sampler = monitor.Monitor{every = every} end
end

--- Metrics of the run so far, as train.Monitor's totals(); nil without a sampler.
function machine.totals(run)
  local sampler = run.fit_sampler or run.own_sampler
  return sampler and sampler:totals() or run.machine_totals
end

local function percent(x) return ("%.0f %% busy"):format(100 * x) end

local function gpu_text(t)
  local parts = {t.gpu}
  if t.utilization then parts[#parts + 1] = percent(t.utilization) end
  if t.power_w then parts[#parts + 1] = ("%.0f W"):format(t.power_w) end
  if t.most.temperature_c then parts[#parts + 1] = ("%.0f C at most"):format(t.most.temperature_c) end
  if t.throttle then parts[#parts + 1] = "held down by " .. t.throttle end
  return table.concat(parts, ", ")
end

--- "machine: NVIDIA H200, 80 % busy, 250 W, 61 C at most; processors 45 % busy; 1.2 Wh (estimated)"
function machine.line(t)
  local parts = {}
  if t.gpu then parts[1] = gpu_text(t) end
  if t.cpu then parts[#parts + 1] = "processors " .. percent(t.cpu) end
  if t.energy_wh then parts[#parts + 1] = ("%.3g Wh (%s)"):format(t.energy_wh, t.energy_from) end
  return parts[1] and "machine: " .. table.concat(parts, "; ")
end

-- One line of the report.
local function done(run)
  local t = machine.totals(run)
  local line = t and machine.line(t)
  if line then run:print("report: " .. line) end
end

--- Samples the machine from the first step of a run on.
function machine.listen(run)
  run:on("step", function() step(run) end)
  run:on("finish", function() done(run) end)
end

return machine
