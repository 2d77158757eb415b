-- operand.lua: numbers where an op takes tensors.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local operand = {}

local ranges = {u8 = {0, 255}, bool = {0, 1}, i32 = {-2 ^ 31, 2 ^ 31 - 1}, i64 = {-2 ^ 63, 2 ^ 63 - 1024}}

-- Whether a tensor of that dtype can hold the number.
local function holds(dtype, value)
  local range = ranges[dtype]
  return not range or (value % 1 == 0 and value >= range[1] and value <= range[2])
end

--- value in the dtype and on the device of x, as a tensor without dims.
function operand.constant(x, value)
  return core.fuse_constant(core.full({}, value, {dtype = x.dtype, device = x.device}), value)
end

--- constant, of a number that x's dtype can hold.
function operand.exactly(fname, x, value)
  if holds(x.dtype, value) then return operand.constant(x, value) end
  check.fail(fname, ("%g is no value of %s"):format(value, x.dtype), "x:float() holds it")
end

--- A tensor as it is; a number in x's dtype, or in f32 where x's is an integer type that cannot hold it: 2 < 2.5 holds
-- for integers, too.
function operand.like(x, value)
  if core.is_tensor(value) then return value end
  if holds(x.dtype, value) then return operand.constant(x, value) end
  return core.fuse_constant(core.full({}, value, {device = x.device}), value)
end

return operand
