-- What is known of a run before it starts: rates that move once per epoch, batches by the memory of a GPU.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local schedule, train = capl.optim.schedule, capl.train

-- A file of the library by itself, with other modules than its own.
local function module(name, modules)
  local chunk = assert(loadfile((os.getenv("CAPL_SOURCE_DIR") or ".") .. "/lua/capl/" .. name .. ".lua"))
  return setfenv(chunk, setmetatable({require = function(wanted) return modules[wanted] or {} end}, {__index = _G}))({})
end

local check = {arg = function(_, _, _, value) return value end, fail = error}

describe("optim.schedule.per_epoch", function()
  it("gives all steps of an epoch the rate that PyTorch's scheduler gives the epoch", function()
    local rate = schedule.per_epoch(schedule.cosine{lr = 2e-4, T_max = 150, eta_min = 1e-6}, {steps = 390})
    for _, epoch in ipairs{0, 1, 75, 149} do
      local wanted = 1e-6 + (2e-4 - 1e-6) * (1 + math.cos(math.pi * epoch / 150)) / 2
      for _, step in ipairs{0, 1, 389} do assert.near(wanted, rate:lr(390 * epoch + step), 1e-15) end
    end
    assert.is_true(rate:lr(390) < rate:lr(389))
  end)

  it("refuses lengths that are not of epochs, and epochs without steps", function()
    assert.equal('LINE: schedule.per_epoch: T_max = "run" counts steps; here the schedule counts epochs\n' ..
      "  hint: give the number of epochs", support.error_text(schedule.per_epoch, schedule.cosine{lr = 1, T_max = "run"}, {steps = 3}))
    assert.equal("LINE: schedule.per_epoch: steps is a number above 0, got 0",
      support.error_text(schedule.per_epoch, schedule.constant{lr = 1}, {steps = 0}))
  end)

  it("tells a schedule that follows figures", function()
    local rate = schedule.per_epoch(schedule.plateau{lr = 1, factor = 0.5, patience = 0}, {steps = 2})
    rate:report(1)
    assert.is_true(rate:report(2))
    assert.equal(0.5, rate:lr(7))
  end)
end)

describe("train.batch_by_memory", function()
  it("takes the last row where there is no GPU", function()
    assert.equal(64, (train.batch_by_memory{{40, 512}, {24, 256}, {0, 64}}))
  end)

  it("takes the row of the memory, as cards are sold", function()
    local function at(gigabytes)
      local batch_by_memory = module("train/batch_by_memory", {check = check, hooks = {planned = {gigabytes = gigabytes}}})
      return (batch_by_memory{{40, 1024}, {24, 512}, {12, 256}, {8, 128}, {0, 64}})
    end
    assert.same({1024, 1024, 1024, 512, 256, 128, 64}, {at(79.2), at(39.4), at(40), at(23.6), at(15.9), at(7.8), at(5.9)})
  end)

  it("refuses tables in which a GPU would find no row, or the wrong one", function()
    local order = "rows go from much memory to little, and the last begins with 0"
    assert.equal("LINE: train.batch_by_memory: row 2, {40, 512}: " .. order,
      support.error_text(train.batch_by_memory, {{24, 256}, {40, 512}, {0, 64}}))
    assert.equal("LINE: train.batch_by_memory: row 1, {40, 512}: " .. order, support.error_text(train.batch_by_memory, {{40, 512}}))
    assert.equal("LINE: train.batch_by_memory: row 1 is {GB, images}: from how much memory on, and how many images a step",
      support.error_text(train.batch_by_memory, {{0, 2.5}}))
  end)
end)

describe("the cost of a step", function()
  local cost = module("dist/cost", {})
  local link = {bandwidth = 10e9, latency = 5e-6}

  it("of a ring is 2 (R - 1) messages and 2 (R - 1) / R of the bytes", function()
    assert.near(0, cost.ring(1e9, 1, link), 0)
    assert.near(2 * 5e-6 + 0.1, cost.ring(1e9, 2, link), 1e-12)
    assert.near(2 * 7 * 5e-6 + 2 * 7 / 8 * 0.1, cost.ring(1e9, 8, link), 1e-12)
  end)

  it("of a tree grows by a message up and down for twice the ranks", function()
    assert.near(2 * 10 * 5e-6 + 0.2, cost.tree(1e9, 1024, link), 1e-12)
    assert.near(2 * 5e-6, cost.tree(1e9, 1024, link) - cost.tree(1e9, 512, link), 1e-12)
  end)

  it("takes trees for small messages of many ranks, rings for large ones", function()
    assert.equal("tree", select(2, cost.all_reduce(4, 256, link)))
    assert.equal("ring", select(2, cost.all_reduce(1e9, 4, link)))
  end)

  it("goes within hosts first where the network is slower", function()
    local links = {bandwidth = 200e9, latency = 5e-6, network = {bandwidth = 25e9, latency = 1e-5}}
    local seconds, how = cost.all_reduce(1e9, 32, links, 8)
    assert.equal("by_hosts", how)
    assert.is_true(cost.all_reduce(1e9, 32, links, 8, "ring") > seconds and cost.all_reduce(1e9, 32, links, 8, "tree") > seconds)
    assert.near(14 * 5e-6 + 2 * 7 / 8 / 200 + 6 * 1e-5 + 2 * 3 / 4 / 25, seconds, 1e-9)
  end)

  it("hides what is exchanged while the backward pass goes on, never its last part", function()
    -- computing 90 ms, of which 60 backward; 2 buckets that are ready at half and at the end, 10 ms each
    local buckets = {{bytes = 1e8, ready = 0.5}, {bytes = 1e8, ready = 1}}
    local e = cost.estimate{ranks = 2, compute = 0.09, buckets = buckets, links = {rate = 1e10}}
    assert.near(0.02, e.reduce, 1e-12)
    assert.near(0.01, e.hidden, 1e-12)
    assert.near(0.9, e.efficiency, 1e-12)
    assert.near(1.8, e.speedup, 1e-12)
    local all = cost.estimate{ranks = 2, compute = 0.09, buckets = buckets, links = {rate = 1e10}, overlap = false}
    assert.near(0, all.hidden, 1e-12)
    assert.equal("expected efficiency 90 %: 90 ms computing, 20 ms all-reduce of which 10 ms hidden", cost.line(e))
  end)

  it("is nothing but computing for one rank", function()
    local e = cost.estimate{ranks = 1, compute = 0.09, bytes = 1e9, links = link}
    assert.same({0, 0, 1, 1}, {e.reduce, e.hidden, e.efficiency, e.speedup})
    assert.is_nil(cost.advice(e))
  end)

  it("knows gradients by the layers that the backward pass comes to", function()
    local layers = {{parameters = 10, macs = 700}, {parameters = 0, macs = 0}, {parameters = 90, macs = 200}, {parameters = 5, macs = 100}}
    assert.same({{bytes = 380, ready = 0.3}, {bytes = 40, ready = 1}}, cost.buckets(layers, 4, 100))
    assert.same({{bytes = 420, ready = 1}}, cost.buckets(layers, 4, 1000))
  end)

  it("warns where a second rank would not pay, and not where it does", function()
    local slow = cost.estimate{ranks = 2, compute = 0.01, bytes = 76e6, links = {rate = 2e9}}
    assert.is_truthy(cost.advice(slow):find("^a second rank would not pay: 2 make 0.4"))
    assert.is_nil(cost.advice(cost.estimate{ranks = 2, compute = 0.2, bytes = 76e6, links = {rate = 2e9}}))
  end)

  it("compares what was expected with what was measured", function()
    assert.equal("efficiency expected 94 %, measured 91 %", cost.compare(0.94, cost.measured(100, 9)))
    assert.equal("efficiency measured 91 %", cost.compare(nil, 0.91))
    assert.is_nil(cost.compare(0.9, cost.measured(0, 0)))
  end)
end)
