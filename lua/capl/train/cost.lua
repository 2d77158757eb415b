-- cost.lua: what a run's own telling and writing cost: thread CPU time inside the calls of progress, time split, curve,
-- record and monitor. Nothing here is loaded by a run; capl bench --logging switches it on.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local cost = {}

local seconds, calls, depth = {}, {}, 0

-- fn with its thread CPU time on an account; what it calls that has an account of its own belongs to it.
local function timed(account, fn)
  seconds[account], calls[account] = seconds[account] or 0, calls[account] or 0
  return function(...)
    if depth > 0 then return fn(...) end
    depth = 1
    local since = core.thread_clock()
    local a, b, c = fn(...)
    seconds[account], calls[account] = seconds[account] + (core.thread_clock() - since), calls[account] + 1
    depth = 0
    return a, b, c
  end
end

-- Methods by part of train.fit. An instance's own field goes before its class.
local methods = {
  time = {"before_step", "after_step", "before_evaluation", "after_evaluation"},
  curve = {"after_step", "before_evaluation", "finish"},
  monitor = {"after_step"},
}

local function watch_part(fit, name)
  local object = fit.callbacks:get(name)
  for _, method in ipairs(object and methods[name] or {}) do object[method] = timed(name, object[method]) end
end

-- The loop's parts are known when it is made.
local function watch(fit)
  for name in pairs(methods) do watch_part(fit, name) end
  local time = fit.callbacks:get("time")
  if time then time.timing.enter = timed("time", time.timing.enter) end
  fit.progress.step = timed("progress", fit.progress.step)
  fit.progress.live = true -- the dearer one: a line is drawn anew ten times a second
  for _, method in ipairs{"evaluation", "event", "line"} do fit.record[method] = timed("record", fit.record[method]) end
end

--- Switches it on for the next train.fit.
function cost.start()
  observer:on("loop", function(fit)
    watch(fit)
    cost.process, cost.thread = core.cpu_clock(), core.thread_clock()
  end)
end

-- What the two clock calls of an account add to it.
local function clock_cost()
  local before, n = core.thread_clock(), 10000
  for _ = 1, n do core.thread_clock() end
  return (core.thread_clock() - before) / n
end

--- {us = per step, by = {{name, us a step, calls a step}}, others_us = of all other threads, clock_us = of reading the
-- clock, which is in the metrics}
function cost.metrics(steps)
  local by, sum = {}, 0
  for account in pairs(seconds) do
    by[#by + 1] = {name = account, us = 1e6 * seconds[account] / steps, calls = calls[account] / steps}
  end
  table.sort(by, function(a, b) return a.us > b.us end)
  for _, entry in ipairs(by) do sum = sum + entry.us end
  local others = (core.cpu_clock() - cost.process) - (core.thread_clock() - cost.thread)
  return {us = sum, by = by, others_us = 1e6 * math.max(0, others) / steps, clock_us = 1e6 * clock_cost()}
end

return cost
