-- support.lua: what the specs of the Lua library share.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local support = {}

--- The text of the error that fn raises; fails when it raises none. Line numbers become LINE.
function support.error_text(fn, ...)
  local ok, err = pcall(fn, ...)
  assert(not ok, "no error was raised")
  return (tostring(err):gsub("^[^\n]-%.lua:%d+: ", "LINE: "))
end

--- A new folder for the files of a group of tests; teardown: of busted, which takes it away.
function support.folder(teardown)
  local root = os.tmpname()
  os.remove(root)
  assert(os.execute("mkdir -p " .. root) == 0)
  teardown(function() os.execute("rm -rf " .. root) end)
  return root
end

--- Bytes held after everything unreachable has been collected.
function support.live_bytes()
  for _ = 1, 3 do collectgarbage() end -- what a finalizer lets go is found in the round after
  return capl.memory().live
end

-- While LuaJIT compiles its loop the stack keeps a value that nothing uses any more, such as the loss of the step
-- before.
jit.off(support.live_bytes)

--- Fails unless fn leaves as many bytes of tensors as it found.
function support.no_leak(fn)
  local before = support.live_bytes()
  fn()
  local after = support.live_bytes()
  assert(before == after, ("%d bytes of tensors leaked"):format(after - before))
end

--- Whether two (nested) lists of numbers differ nowhere by more than tolerance.
function support.close(a, b, tolerance)
  if type(a) ~= type(b) then return false end
  if type(a) == "number" then return math.abs(a - b) <= (tolerance or 1e-6) end
  if #a ~= #b then return false end
  for i = 1, #a do
    if not support.close(a[i], b[i], tolerance) then return false end
  end
  return true
end

return support
