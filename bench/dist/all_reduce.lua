--- capl: 1
-- all_reduce.lua: the time that capl takes to add up 20 MB of f32 on all ranks; all_reduce_mpi.c is MPI alone.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params{bytes = 20000000, rounds = 31}
local world = capl.distributed()
local data = capl.zeros(p.bytes / 4)

local function once()
  world:barrier()
  local start = capl.clock()
  world:all_reduce(data)
  return capl.clock() - start
end

local function slowest(seconds)
  local most = 0
  for _, other in ipairs(world:all_gather_object(seconds)) do most = math.max(most, other) end
  return 1e3 * most
end

for _ = 1, 3 do once() end
local times = {}
for i = 1, p.rounds do times[i] = once() end
table.sort(times)
local middle, least = slowest(times[math.floor(p.rounds / 2) + 1]), slowest(times[1])
world:print(('{"step_ms": %.4f, "min_ms": %.4f, "images": 1, "peak_bytes": %d}'):format(middle, least, p.bytes))
