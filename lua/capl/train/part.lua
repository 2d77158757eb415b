-- part.lua: some of the samples of a batch, as a batch.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

--- Samples first to first + count - 1 of a batch of `samples`.
return function(batch, first, count, samples)
  local out = {}
  for key, value in pairs(batch) do
    local cut = core.is_tensor(value) and value.ndim > 0 and value.shape[1] == samples
    out[key] = cut and value:narrow(1, first, count) or value
  end
  out.count = count
  return setmetatable(out, getmetatable(batch))
end
