-- parameters.lua: all parameters of an optimizer, group by group; each is in one of them.
-- SPDX-License-Identifier: Apache-2.0
local function parameters(optimizer)
  local out = {}
  for _, group in ipairs(optimizer.groups) do
    for _, p in ipairs(group.params) do out[#out + 1] = p end
  end
  return out
end

return parameters
