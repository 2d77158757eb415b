-- bench_machine.lua: what measured steps do to the machine: power, load, memory, the share of time that waits for data.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local Machine = {}
Machine.__index = Machine

local SAMPLE_EVERY = 0.2 -- seconds between two readings

local function new(run)
  local sampler, why = core.monitor.open(SAMPLE_EVERY)
  if not sampler then core.error{code = "state", message = why} end
  return setmetatable({run = run, sampler = sampler, no_gpu = why, window = sampler:window()}, Machine)
end

--- What is measured begins now.
function Machine:begin()
  self.sampler:sample() -- shares of processors are those since now
  self.sampler:take(self.window)
  core.memory_reset_peak()
  self.waited, self.clock = self.run:waited(), core.clock()
end

--- It has ended. seconds: how long it took
-- out  {wait, cpu, power_w, …, energy_wh, tensor_bytes, rss}; what this machine does not report is absent
function Machine:metrics(seconds)
  local wait = (self.run:waited() - self.waited) / (core.clock() - self.clock)
  self.sampler:sample()
  local _, mean, _, most = self.sampler:take(self.window)
  return {wait = wait, cpu = mean.cpu, cpu_power_w = mean.cpu_power_w, power_w = mean.power_w,
    utilization = mean.utilization, throttled = mean.throttled, memory_used = most.memory_used,
    temperature_c = most.temperature_c, sm_mhz = mean.sm_mhz, memory_mhz = mean.memory_mhz,
    energy_wh = mean.power_w and mean.power_w * seconds / 3600, tensor_bytes = core.memory().peak,
    rss = core.sys.peak_rss()}
end

--- The GPU's name, nil without.
function Machine:gpu() return self.sampler:gpu() end

function Machine:close() self.sampler:close() end

return {new = new}
