-- pixel_unshuffle.lua: blocks of pixels become channels.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"
local unbatched = require "nn.unbatched"

--- Blocks of r x r pixels become channels: space to depth, without loss.
-- in   x (N, C, H, W), H and W divisible by r
-- out  y (N, C*r*r, H/r, W/r), in PyTorch's order of channels
-- opts nn.PixelUnshuffle(r)
-- errs shape: H or W not divisible by r
-- paper W. Shi and others: Real-time single image and video super-resolution using an efficient sub-pixel network, 2016
-- eg   nn.PixelUnshuffle(4)(capl.zeros(1, 1, 60, 160)):size(2)  --> 16
local PixelUnshuffle = classes.class("PixelUnshuffle", require "nn.module")
PixelUnshuffle.pure = true

function PixelUnshuffle:init(...)
  self.factor = check.arguments("nn.PixelUnshuffle", {{"downscale_factor", "whole", required = true, from = 1}},
    ...).downscale_factor
end

-- Blocks are moved behind the pixels first, so that the one copy leaves the result N,H,W,C in memory.
function PixelUnshuffle:forward(x)
  local r = self.factor
  if not core.is_tensor(x) or x.ndim ~= 4 or x:size(3) % r ~= 0 or x:size(4) % r ~= 0 then
    local got = core.is_tensor(x) and core.describe(x) or core.typename(x)
    core.error{code = "shape", op = "nn.PixelUnshuffle",
      message = ("x must be (N,C,H,W) with H and W divisible by %d, got %s"):format(r, got)}
  end
  local n, c, h, w = unpack(x.shape)
  local blocks = x:reshape(n, c, h / r, r, w / r, r):permute(1, 3, 5, 2, 4, 6)
  local y = blocks:reshape(n, h / r, w / r, c * r * r):permute(1, 4, 2, 3)
  return y
end

function PixelUnshuffle:extra() return tostring(self.factor) end

unbatched(PixelUnshuffle, 4)

return PixelUnshuffle
