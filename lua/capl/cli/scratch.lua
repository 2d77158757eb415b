-- scratch.lua: a folder for the files that processes exchange.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local scratch = {}

--- A new folder below $TMPDIR, its path.
-- in   purpose: part of its name
-- errs io
function scratch.new(purpose)
  local base = ("%s/capl-%s"):format(core.sys.getenv("TMPDIR") or "/tmp", purpose)
  for i = 1, 10000 do
    local path = ("%s-%d-%d"):format(base, core.sys.time(), i)
    local made, why = core.sys.mkdir_new(path)
    if made == nil then core.error{code = "io", message = why} end
    if made then return path end
  end
end

--- Removes it with its files.
function scratch.remove(path)
  for _, name in ipairs(core.sys.list(path) or {}) do core.sys.remove(path .. "/" .. name) end
  core.sys.remove(path)
end

return scratch
