-- fuse.lua: functions of tensors traced into pointwise programs, which run as one kernel each where the device can.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local fuse = {}

--- A function that gives what fn gives, gradients included, with one pass over memory. fn is run once per dtypes and
-- shapes of the arguments, on tensors without values, to see which ops it has; after that its program runs instead.
function fuse.new(fn)
  local attributes = {} -- by signature
  return function(...)
    if core.fuse_tracing() then return fn(...) end -- inside another fused function
    local signature = core.fuse_signature(...)
    local attrs = attributes[signature]
    if not attrs then
      attrs = {program = core.fuse_trace(fn, ...)}
      attributes[signature] = attrs
    end
    return (core.op.pointwise({...}, attrs))
  end
end

return fuse
