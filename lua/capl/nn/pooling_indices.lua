-- pooling_indices.lua: where in an image the largest values of pooling windows lie.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local EXACT = 2 ^ 24 -- whole numbers up to here are exact in f32

--- The places in the image of the largest values of max_pool2d, row * W + column from 0, i64, from those in their
-- windows, row by row. a: the attributes of the op, pairs all.
local function places_in_image(x, index, a)
  local h, w, W = index:size(3), index:size(4), x:size(4)
  if x:size(3) * W > EXACT then
    core.error{code = "value", op = "max_pool2d",
      message = ("return_indices works for up to %d px, the images have %d"):format(EXACT, x:size(3) * W)}
  end
  local function starts(axis, n)
    return core.arange(n, {dtype = "f32", device = x.device}) * a.stride[axis] - a.padding[axis]
  end
  local place = index:float()
  local row = (place / a.kernel[2]):floor()
  local column = (place - row * a.kernel[2]) * a.dilation[2] + starts(2, w):view(1, 1, 1, w)
  row = row * a.dilation[1] + starts(1, h):view(1, 1, h, 1)
  return (row * W + column):long()
end

return places_in_image
