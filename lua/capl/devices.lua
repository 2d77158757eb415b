-- devices.lua: the kinds of devices there are, as the registry of backends lists them (engine/backend/backend.c).
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local devices = {}

--- All kinds: {"cpu", "cuda", "ref", "meta"}
function devices.names()
  local out = {}
  for i, backend in ipairs(core.backends()) do out[i] = backend.name end
  return out
end

--- Those that "auto" may choose, by which settings may differ: {"cpu", "cuda"}
function devices.chosen()
  local out = {}
  for _, backend in ipairs(core.backends()) do
    if backend.chosen then out[#out + 1] = backend.name end
  end
  return out
end

--- What an option --device may be: {"auto", "cpu", "cuda"}
function devices.choices()
  local out = devices.chosen()
  table.insert(out, 1, "auto")
  return out
end

return devices
