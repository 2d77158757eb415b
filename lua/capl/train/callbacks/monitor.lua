-- monitor.lua: train.Monitor, what a run does to the machine, and the key monitor_every of train.fit: means per point
-- of the curve, totals in result.json, warnings as they come.
--
-- A thread beside training asks GPU and system every second; reading its averages costs microseconds and waits for
-- nothing.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local Sampler = {}
Sampler.__index = Sampler

local LEAST_EVERY = 0.05 -- seconds: asking a driver takes a millisecond or two

local spec = {{"every", "number", default = 1}, {"hot", "number", default = 85}}

--- Checks the seconds between two readings. what: the name of the option; 0 is "never" where that is allowed.
local function check_every(op, what, every, may_be_off)
  if every >= LEAST_EVERY and every < math.huge or (may_be_off and every == 0) then return end
  local off = may_be_off and ", or 0 for none" or ""
  check.fail(op, ("%s is a number of seconds from %g on%s, got %g"):format(what, LEAST_EVERY, off, every))
end

--- Samples the machine during a training loop.
-- opts  every = 1 (seconds between two readings); hot = 85 (degrees Celsius of the GPU above which there is a warning)
-- out   monitor: :averages() since the last call, :totals() since it was made, :events(), :line(), :close(). Metrics,
--       absent where this machine does not report them: power_w, power_limit_w, utilization, memory_utilization,
--       memory_used, memory_total, temperature_c, sm_mhz, memory_mhz, throttled (the GPU of the default device); cpu,
--       cpu_machine, load, rss, ram_used, ram_total, cpu_temperature_c, cpu_mhz, cpu_power_w. Shares are 0..1, memory
--       is bytes
-- errs  value: unknown option, every below 0.05
-- eg    capl.train.Monitor{every = 0.5}:line()
local function Monitor(opts)
  local o = check.options("train.Monitor", spec, opts)
  check_every("train.Monitor", "every", o.every)
  local m, why = core.monitor.open(o.every, nil, nil, o.hot)
  if not m then core.error{code = "state", op = "train.Monitor", message = why, path = false} end
  return setmetatable({sampler = m, every = o.every, without = why, since = m:window(), whole = m:window(), taken = 0},
    Sampler)
end

--- Means since the last call; nil when no reading has come since.
function Sampler:averages()
  local samples, mean = self.sampler:take(self.since)
  if samples == 0 then return nil end
  self.taken = self.taken + samples
  return mean
end

--- Metrics since the monitor was made.
-- out  the means, and gpu = its name, samples, seconds, energy_wh (energy_from = "counted" by the GPU or "estimated"
--      from power and time), throttle = why clocks were held down, least = {…}, most = {…}
function Sampler:totals()
  self.sampler:sample() -- the last second counts, too
  local samples, out, least, most, seconds = self.sampler:take(self.whole, true)
  out.gpu, out.samples, out.seconds, out.least, out.most = self.sampler:gpu(), samples, seconds, least, most
  return out
end

--- The next warning, each once: heat, slow clocks, full memory, a lost GPU; nil when all are reported.
function Sampler:event() return self.sampler:event() end

--- All warnings, as a list.
function Sampler:events()
  local list = {}
  for event in self.event, self do list[#list + 1] = event end
  return list
end

-- "5.0 of 80.0 GB", "12 of 512 MB"; nil when one of them is not known
local function of(part, whole)
  if not part or not whole then return nil end
  local gb = whole >= 1e9
  return (gb and "%.1f of %.1f GB" or "%.0f of %.0f MB"):format(part / (gb and 1e9 or 1e6), whole / (gb and 1e9 or 1e6))
end

-- Sets in b what join makes of the numbers that both have; what only a has is taken over.
local function join_numbers(a, b, join)
  for key, value in pairs(a) do
    local other = b[key]
    if type(value) == "number" then b[key] = type(other) == "number" and join(value, other) or other or value end
  end
end

local function plus(a, b) return a + b end

--- Totals of two stretches of a run, a before b, as totals of both; b takes them.
local function join(a, b)
  local share = a.seconds / math.max(a.seconds + b.seconds, 1e-9)
  local sums = {seconds = b.seconds, samples = b.samples, energy_wh = b.energy_wh}
  join_numbers({seconds = a.seconds, samples = a.samples, energy_wh = a.energy_wh}, sums, plus)
  join_numbers(a.least or {}, b.least, math.min)
  join_numbers(a.most or {}, b.most, math.max)
  join_numbers(a, b, function(x, y) return y + (x - y) * share end)
  for key, value in pairs(sums) do b[key] = value end
  return b
end

--- What is monitored, for the header of a run.
function Sampler:line()
  local now = self.sampler:sample()
  local parts = {}
  if self.sampler:gpu() then
    parts[1] = self.sampler:gpu()
    if now.power_limit_w then parts[#parts + 1] = ("at most %.0f W"):format(now.power_limit_w) end
    if now.memory_total then parts[#parts + 1] = of(now.memory_used, now.memory_total) .. " taken" end
  else
    parts[1] = ("%d processors"):format(core.sys.cpus())
    if now.ram_total then parts[#parts + 1] = of(now.ram_used or 0, now.ram_total) .. " taken" end
    local no_gpu = self.without and self.without:match("^device .* is no GPU$")
    if self.without and not no_gpu then parts[#parts + 1] = "of the GPU nothing: " .. self.without end
  end
  return ("monitor: every %g s: %s"):format(self.every, table.concat(parts, ", "))
end

--- Processor seconds that its thread has used.
function Sampler:cost() return self.sampler:cost() end

--- Ends the thread. Totals are gone then.
function Sampler:close() self.sampler:close() end

-- ---- the callback of train.fit ----

local Callback = {}
Callback.__index = Callback

-- Key of train.fit; without it the setting of that name, which every recipe has.
local function read(o, run)
  o.monitor_asked = o.monitor_every ~= nil
  if o.monitor_every == nil then o.monitor_every = run:setting("monitor_every") or 1 end
  check_every("train.fit", "monitor_every", o.monitor_every, true)
end

local function new(fit)
  local run, o = fit.run, fit.o
  local is_real = run.mode == "run" or (run.mode == "none" and o.monitor_asked)
  if o.monitor_every == 0 or not is_real then return nil end
  local self = setmetatable({fit = fit, monitor = Monitor{every = o.monitor_every}}, Callback)
  run.fit_sampler = self -- which train/machine.lua asks
  return self
end

function Callback:lines() return {self.monitor:line()} end

--- A point of the curve: what has been read since the last one goes into its line, and how far the run is, from which
-- `capl monitor` knows what is left of it.
function Callback:point(at)
  at.monitor = self.monitor:averages()
  if at.monitor then at.monitor.energy_from = nil end -- the same in every line; result.json has it
  at.position = self.fit.span.position
end

-- A warning is printed within the second; asking for one costs a few hundred nanoseconds.
function Callback:after_step()
  for text in self.monitor.event, self.monitor do
    self.fit.run:print("warning: " .. text)
    self.fit.record:line{step = self.fit.step, seconds = self.fit.span:seconds(), event = text}
  end
end

--- Metrics of the whole run, what came before it was resumed included.
function Callback:totals()
  local t = self.monitor:totals()
  return self.before and join(self.before, t) or t
end

function Callback:finish(result)
  self:after_step()
  result.monitor = self:totals()
end

Callback.stopped = Callback.finish

function Callback:state() return self:totals() end
function Callback:set_state(state) self.before = state end

function Callback.state_shape()
  local extremes = {["?"] = true, ["*"] = "number"}
  return {seconds = "amount", samples = "count?", energy_wh = "number?", least = extremes, most = extremes,
    ["*"] = "plain"}
end

function Callback:close()
  self.fit.run.fit_sampler, self.fit.run.machine_totals = nil, self:totals()
  self.monitor:close()
end

return {name = "monitor", spec = {{"monitor_every", "number"}},
  read = read, new = new, Monitor = Monitor, check_every = check_every, of = of}
