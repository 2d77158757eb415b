-- ranks.lua: what each rank of a run has done and taken: its speed, its memory, what it waited for. Told at the end of the run.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sync = require "dist.sync"
local run = require "run"

local ranks = {}

local SHOWN = 8 -- ranks that have a line; of more, the slowest ones

local since -- where the first step ended, which makes plans: {images, data, busy, waited}
local last -- clock at the end of the last step, or of what came between two
local spent = 0 -- seconds of the steps since then, evaluations not counted

local function images()
  local count = 0
  for _, entry in ipairs(run.loaders) do
    if entry.role == "train" then count = count + entry.loader:stats().samples end
  end
  return count
end

local function now(world)
  local traffic = world:traffic()
  return {images = images(), data = run.waited(), busy = traffic.busy, waited = traffic.waited}
end

--- The end of a step.
function ranks.step()
  local world = sync.world()
  if not world then return end
  local clock = core.clock()
  if run.steps == 1 then since = now(world) else spent = spent + (clock - last) end
  last = clock
end

--- The end of a loader's epoch: the time of an evaluation is none of training.
function ranks.epoch(loader)
  if last and loader.role ~= "train" then last = core.clock() end
end

--- Bytes that this process holds at most: of a GPU, where it uses one.
function ranks.peak_memory()
  local m = core.memory()
  return m.card_total and m.peak + m.captured or core.sys.peak_rss()
end

-- This rank's figures; shares are of the time of its steps.
local function own(world)
  local out = {rank = world.rank, host = world.host, device = (core.device()), memory = ranks.peak_memory()}
  if not since or spent <= 0 then return out end
  local at = now(world)
  local seconds = math.max(spent, 1e-9)
  out.images_per_s = (at.images - since.images) / seconds
  out.waited_for_data = math.min(1, (at.data - since.data) / seconds)
  local busy, waited = at.busy - since.busy, at.waited - since.waited
  if busy > 0 then out.overlap = math.max(0, 1 - waited / busy) end
  if busy > 0 or world.backend ~= "nccl" then out.waited_for_ranks = math.min(1, waited / seconds) end -- recorded steps have no clock
  return out
end

local function percent(x) return ("%.0f %%"):format(100 * x) end

--- "rank 1 (host b, cuda:1): 812 images/s, waits 1 % for data and 4 % for other ranks, 71 % of its exchanges hidden, peak memory 5120 MB"
function ranks.line(r)
  local parts = {}
  if r.images_per_s == 0 then -- nothing came from a loader
    parts[1] = r.waited_for_ranks and ("waits %s for other ranks"):format(percent(r.waited_for_ranks))
  elseif r.images_per_s then
    parts[1] = ("%.0f images/s"):format(r.images_per_s)
    parts[2] = ("waits %s for data"):format(percent(r.waited_for_data))
    if r.waited_for_ranks then parts[2] = ("%s and %s for other ranks"):format(parts[2], percent(r.waited_for_ranks)) end
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

--- The end of the run: every rank gives its figures; kept as run.ranks for result.json, and told.
function ranks.done()
  local world = sync.world()
  if not world or run.steps == 0 then return end
  run.ranks = world:gather(own(world))
  for _, r in ipairs(shown(run.ranks)) do run.print("report: " .. ranks.line(r)) end
  if #run.ranks > SHOWN then run.print(("report: and %d ranks more, in result.json"):format(#run.ranks - SHOWN)) end
end

return ranks
