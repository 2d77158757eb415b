-- sync.lua: what the ranks of a world must see alike: the time, and the wish that the run should stop.
--
-- Whoever decides by a clock or a signal asks here. Alone, that is this process's own. Among several ranks it is rank
-- 0's clock as of the last exchange (dist/agree.lua: at most four times a second, at the end of a step), and a stop
-- that all ranks make at the same step: ranks that decided alone would wait for each other for ever.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local sync = {
  write = core.sys and core.sys.write, -- of any rank: what only this one knows, such as its error
}

local seconds -- rank 0's clock as of the last exchange
local stop -- the signal that all ranks end with
local visit -- whether somebody wants to attach, as of the last exchange
local parted = false -- this rank goes its own way to its end: nobody is asked any more

local function several()
  local world = require("dist").world()
  return world.size > 1 and world or nil
end

--- The world of several ranks, nil for a process alone and for one that has parted.
function sync.world()
  if parted then return nil end
  return several()
end

--- How many ranks there are.
function sync.size()
  local world = sync.world()
  return world and world.size or 1
end

--- The mean of a scalar over all ranks, on the device; every rank calls it. The tensor itself for a process alone.
function sync.mean(x)
  local world = sync.world()
  if not world then return x end
  return core.no_grad(function()
    return world:all_reduce(x:detach():to("f32"):reshape(1) * 1, {op = "mean"}):reshape(1):sum() end)
end

--- Seconds, the same on every rank; they advance from step to step.
function sync.clock()
  local world = sync.world()
  if not world then return core.clock() end
  return seconds or sync.now()
end

--- Seconds of rank 0 at this moment; every rank calls it. For rare moments: it waits for the others.
function sync.now()
  local world = sync.world()
  if not world then return core.clock() end
  seconds = world:all_gather_object(core.clock())[1]
  return seconds
end

--- fn() on rank 0 alone, which writes; the others wait for its end. An error of it is one of all.
-- in   what: what it does, printed when it takes long
-- out  seconds it took
function sync.by_main(what, fn)
  local world, began = sync.world(), core.clock()
  if not world then
    if sync.is_main() then fn() end
    return core.clock() - began
  end
  world:hold(what)
  local ok, err = true, nil
  if world.is_main then ok, err = pcall(fn) end
  local outcome = world:all_gather_object{seconds = core.clock() - began,
    code = not ok and core.is_error(err) and err.code or nil,
    message = not ok and tostring(core.is_error(err) and err.message or err) or nil}[1]
  world:hold(nil)
  if not ok then error(err, 0) end
  if outcome.message then core.error{code = outcome.code or "state", message = outcome.message, path = false} end
  return outcome.seconds
end

--- Whether this process writes and speaks for all.
function sync.is_main() return require("dist").world().is_main end

--- From here on this rank ends, and waits for no other: an error, or a signal that came between what all do together.
-- unless_all: not where all ranks stop together
function sync.part(unless_all) parted = parted or not (unless_all and stop) end

--- What fn gives on rank 0, on every rank; a text or what else JSON holds.
function sync.of_main(fn)
  local world = sync.world()
  if not world then return fn() end
  return world:all_gather_object{value = world.is_main and fn() or nil}[1].value
end

--- " on rank 1 (host b)" for messages about what only this rank sees; "" for a process alone.
function sync.here()
  local world = several()
  return world and (" on rank %d (host %s)"):format(world.rank, world.host) or ""
end

--- What helps a rank that does not find the files of the run; nil for a process alone.
function sync.files_hint()
  return sync.world() and "all hosts need the run's folder under the same path, on a file system that they share" or nil
end

--- fn(…), which takes this rank so long that the others report what it does.
function sync.busy(what, fn, ...)
  local world = sync.world()
  if not world then return fn(...) end
  world:hold(what)
  local ok, err = pcall(fn, ...)
  world:hold(nil)
  if not ok then error(err, 0) end
end

-- Whether this process was asked to end, and by which signal; the question is put off for so many seconds more.
local function asked(hold)
  if not core.sys.hold then return false end
  return core.sys.hold(hold)
end

local function requests()
  local _, signal = asked(sync.holding or 0)
  return {stop = signal, visit = observer.wants_visit and observer.wants_visit()}
end

--- Whether rank 0 has said at this step that somebody wants to look at the run.
function sync.visited() return sync.has_met and visit or false end

--- Whether there was an exchange at the end of this step, so that another one costs nothing much.
function sync.met() return sync.has_met end

--- The end of a step: what ranks wish is exchanged when it is time.
function sync.step()
  if not sync.world() then return end
  local decisions
  decisions, sync.has_met = require("dist.agree").step(requests)
  if sync.has_met then seconds, stop, visit = decisions.seconds, stop or decisions.stop, decisions.visit end
end

-- Lets a stop that others were asked for be this process's own.
local function take_stop(hold)
  if not asked(hold) then core.sys.signal(stop) end
  return asked(hold)
end

--- Whether the run should stop, between two steps; signals wait for so many seconds more, 0: they come at once again.
-- With several ranks: once all have exchanged it.
function sync.hold(hold)
  if not sync.world() then return asked(hold) end
  sync.holding = hold
  if stop then return take_stop(hold) end
  asked(hold)
  return false
end

--- Before something long that signals may interrupt: whether the run should stop, asked of all ranks now.
function sync.meet()
  local world = sync.world()
  if not world then return asked(0) end
  local _, signal = asked(sync.holding or 0)
  for _, other in ipairs(world:all_gather_object(signal or 0)) do
    if other ~= 0 then stop = stop or other end
  end
  return sync.hold(0)
end

return sync
