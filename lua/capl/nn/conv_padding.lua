-- conv_padding.lua: what convolutions put around their input before the op, where zeros of equal width will not do.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"

local conv_padding = {}

local modes = {zeros = "constant", reflect = "reflect", replicate = "replicate", circular = "circular"}

--- Padding that keeps the size at stride 1 -> px before and px behind, the larger number.
-- op: name of the layer; reach: from the first to the last tap of the kernel
function conv_padding.same(op, reach, stride)
  if stride ~= 1 then check.fail(op, 'padding "same" needs stride 1') end
  return math.floor(reach / 2), math.ceil(reach / 2)
end

--- For layer self with padding_mode -> padding left to the op. before, behind: px of each axis, the first axis first.
-- Sets self.widths, which x:pad takes, where the op cannot pad. Zeros of unequal width are those of the larger one on
-- both ends, and self.cut, the axes whose first output is too much.
function conv_padding.set(self, op, mode, before, behind)
  check.one_of(op, "padding_mode", mode, {"zeros", "reflect", "replicate", "circular"})
  self.padding_mode = mode
  local widths, any, even = {}, false, true
  for axis = #before, 1, -1 do
    widths[#widths + 1], widths[#widths + 2] = before[axis], behind[axis]
    any, even = any or behind[axis] > 0, even and before[axis] == behind[axis]
  end
  if not any or (mode == "zeros" and even) then return before end
  self.alone = "padding_mode or an even kernel with padding \"same\""
  if mode == "zeros" then
    self.cut = {}
    for axis = 1, #before do self.cut[axis] = behind[axis] > before[axis] end
    return behind
  end
  self.widths = widths
  local none = {}
  for axis = 1, #before do none[axis] = 0 end
  return none
end

--- x with what self.widths says around it.
function conv_padding.apply(self, x)
  if not self.widths then return x end
  return x:pad(self.widths, {mode = modes[self.padding_mode]})
end

--- y of the op (N, C, …) without the outputs that self.cut names.
function conv_padding.trim(self, y)
  for axis, cut in ipairs(self.cut or {}) do
    if cut then y = y:narrow(axis + 2, 2, y:size(axis + 2) - 1) end
  end
  return y
end

return conv_padding
