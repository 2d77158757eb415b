-- unbatched.lua: layers that take one sample without its batch dim, as PyTorch's do.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

--- Lets class:forward, which takes ndim dims, take one dim less: a batch of one.
local function unbatched(class, ndim)
  local forward = class.forward
  function class:forward(x, ...)
    local single = core.is_tensor(x) and x.ndim == ndim - 1
    local y, more = forward(self, single and x:unsqueeze(1) or x, ...)
    if more then return single and y:squeeze(1) or y, single and more:squeeze(1) or more end
    return single and y:squeeze(1) or y
  end
end

return unbatched
