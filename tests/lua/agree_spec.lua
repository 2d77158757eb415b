-- What ranks decide alike: whether to stop, and what time it is.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local agree = getfenv(capl.distributed).require("dist.agree")

-- Ranks as coroutines that take turns: a rank that tells waits until all have. -> list of what each body gave; how
-- often they told.
local function on_ranks(size, body)
  local exchanges, threads, results = 0, {}, {}
  local told
  for r = 0, size - 1 do
    local world = {rank = r, size = size}
    function world.all_gather_text(_, text)
      told[r + 1] = text
      return coroutine.yield()
    end
    threads[r + 1] = coroutine.create(function() results[r + 1] = body(world) end)
  end
  local answer
  repeat
    told = {}
    for r = 1, size do assert(coroutine.resume(threads[r], answer)) end
    local alive, waiting = 0, 0
    for r = 1, size do
      alive = alive + (coroutine.status(threads[r]) == "suspended" and 1 or 0)
      waiting = waiting + (told[r] and 1 or 0)
    end
    assert.equal(alive, waiting)
    assert.is_true(waiting == 0 or waiting == size) -- nobody waits for ranks that ask at another step
    answer, exchanges = told, exchanges + (waiting > 0 and 1 or 0)
  until waiting == 0
  return results, exchanges
end

-- A clock that goes on by so much whenever it is asked, another for each rank.
local function ticking(from, by)
  return function()
    from = from + by
    return from
  end
end

describe("what ranks agree on", function()
  it("is one rank's wish to stop, at the same step on all of them", function()
    local results = on_ranks(2, function(world)
      local agreement = agree.new(world, ticking(100 * world.rank, 0.1))
      for step = 1, 500 do
        local decisions = agreement:step{stop = world.rank == 1 and step >= 37 and 2 or nil}
        if decisions.stop then return {step, decisions.stop} end
      end
    end)
    assert.same(results[1], results[2])
    assert.equal(2, results[1][2])
    assert.is_true(results[1][1] >= 37)
  end)

  it("is rank 0's clock", function()
    local results = on_ranks(3, function(world)
      local agreement, seconds = agree.new(world, ticking(1000 * world.rank, 0.05)), {}
      for step = 1, 100 do seconds[step] = agreement:step().seconds end
      return seconds
    end)
    assert.same(results[1], results[2])
    assert.same(results[1], results[3])
    assert.is_true(results[1][100] < 1000)
    assert.is_true(results[1][100] > results[1][1])
  end)

  it("costs one exchange in a quarter of a second, however fast the steps are", function()
    local _, exchanges = on_ranks(2, function(world)
      local steps = 0
      -- 1 ms per step, as rank 0 sees it; the other's clock stands still
      local agreement = agree.new(world, function() return world.rank == 0 and steps * 0.001 or 0 end)
      for step = 1, 10000 do
        steps = step
        agreement:step()
      end
      return true
    end)
    assert.is_true(exchanges >= 35 and exchanges <= 50, "10 s, " .. exchanges .. " exchanges")
  end)

  it("is asked for at every step when steps are slow, also after fast ones", function()
    local results, exchanges = on_ranks(2, function(world)
      local now, stopped = 0, nil
      local agreement = agree.new(world, function() return now end)
      for step = 1, 400 do
        now = now + (step <= 300 and 0.01 or 1)
        local decisions = agreement:step{stop = world.rank == 1 and step >= 350 and 15 or nil}
        stopped = stopped or decisions.stop and step
      end
      return stopped
    end)
    assert.equal(350, results[1])
    assert.equal(350, results[2])
    assert.is_true(exchanges < 130)
  end)

  it("has no place for votes it does not know", function()
    local agreement = agree.new({rank = 0, size = 1}, ticking(0, 1))
    local ok, err = pcall(agreement.step, agreement, {stopp = 1})
    assert.is_false(ok)
    assert.matches("agree.step: there is no request 'stopp'", tostring(err), 1, true)
  end)
end)
