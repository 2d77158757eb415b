-- sorted_keys.lua: the keys of a table in their order, for messages and files that are the same each time.
-- SPDX-License-Identifier: Apache-2.0

--- List of the keys of a table, sorted; of nil, none.
return function(t)
  local out = {}
  for key in pairs(t or {}) do out[#out + 1] = key end
  table.sort(out)
  return out
end
