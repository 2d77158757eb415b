-- What is known of a run before it starts: rates that move once per epoch, batches by the memory of a GPU.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local schedule, train = capl.optim.schedule, capl.train

-- A file of the library by itself, with other modules than its own.
local function module(name, modules, observer)
  local chunk = assert(loadfile((os.getenv("CAPL_SOURCE_DIR") or ".") .. "/lua/capl/" .. name .. ".lua"))
  return setfenv(chunk, setmetatable({require = function(wanted) return modules[wanted] or {} end}, {__index = _G}))({},
    observer)
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
      "  hint: give the number of epochs",
      support.error_text(schedule.per_epoch, schedule.cosine{lr = 1, T_max = "run"}, {steps = 3}))
    assert.equal("LINE: schedule.per_epoch: steps must be a whole number above 0, got 0",
      support.error_text(schedule.per_epoch, schedule.constant{lr = 1}, {steps = 0}))
  end)

  it("names a schedule that follows metrics", function()
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
      local batch_by_memory = module("train/batch_by_memory", {check = check}, {planned = {gigabytes = gigabytes}})
      return (batch_by_memory{{40, 1024}, {24, 512}, {12, 256}, {8, 128}, {0, 64}})
    end
    assert.same({1024, 1024, 1024, 512, 256, 128, 64},
      {at(79.2), at(39.4), at(40), at(23.6), at(15.9), at(7.8), at(5.9)})
  end)

  it("refuses tables in which a GPU would find no row, or the wrong one", function()
    local order = "rows go from large memory to small, and the last starts with 0"
    assert.equal("LINE: train.batch_by_memory: row 2, {40, 512}: " .. order,
      support.error_text(train.batch_by_memory, {{24, 256}, {40, 512}, {0, 64}}))
    assert.equal("LINE: train.batch_by_memory: row 1, {40, 512}: " .. order,
      support.error_text(train.batch_by_memory, {{40, 512}}))
    assert.equal("LINE: train.batch_by_memory: row 1 is {GB, images}: from how much memory on, and how many images " ..
      "a step",
      support.error_text(train.batch_by_memory, {{0, 2.5}}))
  end)
end)
