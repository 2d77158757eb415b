-- monitor_spec.lua: train.Monitor beside a custom training loop, and the key monitor_every of train.fit.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local train = capl.train

-- Works until the monitor has a reading that knows what this process did.
local function wait_for_cpu(monitor)
  for _ = 1, 400 do
    local x = capl.randn {64, 64}
    for _ = 1, 20 do x:matmul(x) end
    local mean = monitor:averages()
    if mean and mean.cpu then return mean end
  end
  error("no reading came")
end

describe("train.Monitor", function()
  it("reports means since they were last asked for, shares from 0 to 1 and memory in bytes", function()
    local monitor = train.Monitor {every = 0.05}
    local mean = wait_for_cpu(monitor)
    assert.is_true(mean.cpu > 0 and mean.cpu <= 1)
    assert.is_true(mean.rss > 1e6 and mean.rss < mean.ram_total)
    assert.is_nil(mean.power_w) -- the device is no GPU, so nothing is known of one: absent, not 0
    monitor:averages()
    assert.is_nil(monitor:averages())
    monitor:close()
  end)

  it("sums up all readings with least and most, the last moment included", function()
    local monitor = train.Monitor {every = 3600}
    local before = monitor:totals()
    capl.randn {64, 64}:matmul(capl.randn {64, 64})
    local after = monitor:totals()
    assert.is_true(after.samples > before.samples)
    assert.is_true(after.seconds > before.seconds and after.seconds < 60)
    assert.is_true(after.least.rss <= after.rss and after.rss <= after.most.rss)
    assert.is_nil(after.energy_wh)
    assert.are.same({}, monitor:events())
    assert.is_truthy(monitor:line():match("^monitor: every 3600 s: %d+ processors"))
    monitor:close()
  end)

  it("costs its readers under 10 microseconds a call", function()
    local monitor = train.Monitor {every = 3600}
    local calls = 2000
    local started = os.clock()
    for _ = 1, calls do monitor:events() end
    local events = (os.clock() - started) / calls
    started = os.clock()
    for _ = 1, calls do monitor:averages() end
    local averages = (os.clock() - started) / calls
    assert.is_true(events < 10e-6 and averages < 10e-6, ("%g s, %g s"):format(events, averages))
    monitor:close()
  end)

  it("ends when it is closed, and says so", function()
    local monitor = train.Monitor()
    monitor:close()
    monitor:close()
    assert.are.equal("this monitor is closed",
      support.error_text(monitor.averages, monitor):match("this monitor is closed"))
  end)

  it("refuses what it cannot do", function()
    local function text(opts) return support.error_text(train.Monitor, opts) end
    assert.is_truthy(text {every = 0.01}:find("every is a number of seconds from 0.05 on, got 0.01", 1, true))
    assert.is_truthy(text {every = 1 / 0}:find("got inf", 1, true))
    assert.is_truthy(text {every = 0 / 0}:find("every is a number of seconds", 1, true))
    assert.is_truthy(text {evry = 1}:find("did you mean 'every'?", 1, true))
    assert.is_truthy(text {every = "1"}:find("every must be a number, got string", 1, true))
  end)
end)
