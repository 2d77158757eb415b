-- trees.lua: folders with all that is in them.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local trees = {}

--- Removes a file or a folder and all below it; what is not there is fine. A link goes itself, not what it leads to.
function trees.remove(path)
  local done, why = core.sys.remove(path) -- files, links, empty folders
  if done or not core.sys.kind(path) then return end
  if core.sys.kind(path) == "folder" then
    for _, name in ipairs(core.sys.list(path) or {}) do trees.remove(path .. "/" .. name) end
    done, why = core.sys.remove(path)
  end
  if not done then core.error{code = "io", message = why, path = false} end
end

--- Removes all that is in a folder, which stays.
function trees.empty(path)
  for _, name in ipairs(core.sys.list(path) or {}) do trees.remove(path .. "/" .. name) end
end

return trees
