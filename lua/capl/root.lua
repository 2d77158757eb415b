-- root.lua: roots of sums that may be 0: norms and deviations.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

-- fn(x, …), a power whose slope at 0 is infinite: there 0 and without gradient, as PyTorch's norm and std are.
local function root(x, fn, ...)
  if not x.requires_grad then return fn(x, ...) end
  local zero = x:eq(0)
  local one = core.fuse_constant(core.full({}, 1, {dtype = x.dtype, device = x.device}), 1)
  return core.op.where(zero, x:detach(), fn(core.op.where(zero, one, x), ...))
end

return root
