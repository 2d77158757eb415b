-- dist: the ranks that train one model together, and which of them this process is.
--
-- A world of one has nobody to talk to: its calls are done at once. With more ranks, the command that runs a recipe
-- joins them before the recipe's first word; whatever else asks for the world joins them then.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local world = require "dist.world"

local dist = {
  is_world = world.is_world,
  parallel = nil, -- dist/parallel.lua in a world of more than one rank: optimizers average their gradients through it
}

local joined -- the world, once there is one

--- Joins the ranks this process was started with, once; device: where the collectives' tensors are, nil = the default
-- one; recipe: for messages.
-- out  the world
-- errs value: variables of launchers contradict each other; unsupported: what moves tensors between ranks is not
--      installed;
-- io: another rank cannot be reached
function dist.join(opts)
  if joined then return joined end
  opts = opts or {}
  joined = world.new(core.dist.join(opts.device, opts.watchdog or 0, opts.recipe))
  if joined.size > 1 then dist.parallel = require("dist.parallel").install(joined) end
  return joined
end

--- The world of this process.
dist.world = dist.join

--- How many ranks there are, without joining them.
function dist.size() return joined and joined.size or core.dist.place().size end

--- The processes of a distributed training: rank, size and collectives; see docs/distributed.md.
-- out  world: rank (0 … size - 1), size, local_rank, local_size, host, device, backend, launch, is_main (rank 0);
--      batch(n): n images per rank as the images of one step; all_reduce, broadcast, all_gather, reduce_scatter,
--      barrier, sum, gather, print
-- errs unsupported: ranks that need what is not installed, with the line that installs it
-- eg   return capl.distributed().size  --> 1
function dist.distributed() return dist.join() end

return dist
