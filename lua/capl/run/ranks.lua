-- ranks.lua: what each rank of a run has done and taken: its speed, its memory, what it waited for. Printed at the end
-- of the run.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sync = require "dist.sync"

local ranks = {}

local SHOWN = 8 -- ranks that have a line; of more, the slowest ones

-- A run has rank_since: where the first step ended, which makes plans: {images, data, busy, waited}
-- rank_last: clock at the end of the last step, or of what came between two; rank_spent: seconds of the steps since
-- then, evaluations not counted.

local function images(run)
  local count = 0
  for _, entry in ipairs(run.loaders) do
    if entry.role == "train" then count = count + entry.loader:stats().samples end
  end
  return count
end

local function now(run, world)
  local traffic = world:traffic()
  return {images = images(run), data = run:waited(), busy = traffic.busy, waited = traffic.waited}
end

local function step(run)
  local world = sync.world()
  if not world then return end
  local clock = core.clock()
  if run.steps == 1 then
    run.rank_since, run.rank_spent = now(run, world), 0
  else
    run.rank_spent = run.rank_spent + (clock - run.rank_last)
  end
  run.rank_last = clock
end

-- The time of an evaluation is none of training.
local function epoch(run, loader)
  if run.rank_last and loader.role ~= "train" then run.rank_last = core.clock() end
end

--- Bytes that this process holds at most: of a GPU, where it uses one.
function ranks.peak_memory()
  local m = core.memory()
  return m.card_total and m.peak + m.captured or core.sys.peak_rss()
end

-- This rank's metrics; shares are of the time of its steps.
local function own(run, world)
  local out = {rank = world.rank, host = world.host, device = (core.device()), memory = ranks.peak_memory()}
  local since, spent = run.rank_since, run.rank_spent
  if not since or spent <= 0 then return out end
  local at = now(run, world)
  local seconds = math.max(spent, 1e-9)
  out.images_per_s = (at.images - since.images) / seconds
  out.waited_for_data = math.min(1, (at.data - since.data) / seconds)
  local busy, waited = at.busy - since.busy, at.waited - since.waited
  if busy > 0 then out.overlap = math.max(0, 1 - waited / busy) end
  -- recorded steps have no clock
  if busy > 0 or world.backend ~= "nccl" then out.waited_for_ranks = math.min(1, waited / seconds) end
  return out
end

local function percent(x) return ("%.0f %%"):format(100 * x) end

--- "rank 1 (host b, cuda:1): 812 images/s, waits 1 % for data and 4 % for other ranks, 71 % of its exchanges hidden,
-- peak memory 5120 MB"
function ranks.line(r)
  local parts = {}
  if r.images_per_s == 0 then -- nothing came from a loader
    parts[1] = r.waited_for_ranks and ("waits %s for other ranks"):format(percent(r.waited_for_ranks))
  elseif r.images_per_s then
    parts[1] = ("%.0f images/s"):format(r.images_per_s)
    parts[2] = ("waits %s for data"):format(percent(r.waited_for_data))
    if r.waited_for_ranks then parts[2] = ("%s and %s for other ranks"):format(parts[2], percent(r.waited_for_ranks))
      end
  end
  if r.overlap then parts[#parts + 1] = percent(r.overlap) .. " of its exchanges hidden" end
  parts[#parts + 1] = ("peak memory %.0f MB"):format(r.memory / 1e6)
  return ("rank %d (host %s, %s): %s"):format(r.rank, r.host, r.device, table.concat(parts, ", "))
end

-- Of many, those for which the others wait: they wait least themselves.
local function shown(all)
  if #all <= SHOWN then return all end
  local list = {unpack(all)}
  table.sort(list, function(a, b)
    local x, y = a.waited_for_ranks or 1, b.waited_for_ranks or 1
    if x ~= y then return x < y end
    return a.rank < b.rank
  end)
  for i = SHOWN + 1, #list do list[i] = nil end
  return list
end

-- Every rank gives its metrics; kept as run.ranks for result.json, and printed.
local function done(run)
  local world = sync.world()
  if not world or run.steps == 0 then return end
  run.ranks = world:all_gather_object(own(run, world))
  for _, r in ipairs(shown(run.ranks)) do run:print("report: " .. ranks.line(r)) end
  if #run.ranks > SHOWN then run:print(("report: and %d ranks more, in result.json"):format(#run.ranks - SHOWN)) end
end

--- Measures a run from its first step on, and says at its end what each rank has done.
function ranks.listen(run)
  run:on("step", function() step(run) end)
  run:on("epoch", function(loader) epoch(run, loader) end)
  run:on("finish", function() done(run) end)
end

return ranks
