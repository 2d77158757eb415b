-- reread.lua: some samples of a loader once more, beside its epoch and on this rank alone.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

--- The samples of these numbers in the loader's source, as one batch.
return function(loader, ids)
  local low = {}
  for key, value in pairs(loader.low) do low[key] = value end
  low.batch, low.workers, low.cache, low.rank, low.world, low.parts = #ids, 0, "none", 0, 1, nil
  local box = core.data.loader(loader.source.box:subset(ids), low)
  box:epoch(1)
  return box:next()
end
