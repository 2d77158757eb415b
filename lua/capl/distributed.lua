-- distributed.lua: capl.distributed(): the processes that train one model together. So far a world of one.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local World = {}
World.__index = World
World.__tostring = function(self) return ("rank %d of %d on %s"):format(self.rank, self.size, self.device) end

-- What launchers tell each process: number of processes.
local variables = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}

local function refuse_other_ranks()
  for _, name in ipairs(variables) do
    local size = tonumber(core.sys and core.sys.getenv(name) or "1")
    if size and size > 1 then
      core.error{code = "unsupported", message = ("%s is %d, but this build trains in one process"):format(name, size),
        hint = "start one process; it uses the GPU that --device names"}
    end
  end
end

--- The processes that train together: give it to data.loader as shard, and each reads its own part.
-- out  world: rank (0 … size - 1), size, device, batch(n): n images per rank as the images of one step
-- errs unsupported: a launcher (torchrun, mpirun, srun) started several processes, and this build trains in one
-- eg   return capl.distributed().size  --> 1
local function distributed()
  refuse_other_ranks()
  return setmetatable({rank = 0, size = 1, device = (core.device())}, World)
end

--- Images of a step over all ranks, where each takes n.
function World:batch(n) return n * self.size end

return {distributed = distributed, is_world = function(value) return getmetatable(value) == World end}
