--- Cases of interpolate and grid_sample.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local cases = {covers = {"interpolate_grad", "grid_sample_grad"}}
local function case(c) cases[#cases + 1] = c end

-- ---- interpolate ----

local function resize(size, attrs, more)
  local c = {op = "interpolate", inputs = {gen.float(size)}, attrs = attrs}
  for k, v in pairs(more or {}) do c[k] = v end
  case(c)
end

for _, mode in ipairs {"nearest", "bilinear"} do
  resize({2, 3, 4, 5}, {size = {7, 9}, mode = mode})
  resize({1, 2, 7, 6}, {size = {3, 4}, mode = mode}, {name = "smaller"})
  resize({2, 17, 3, 2}, {size = {5, 8}, mode = mode}, {name = "many channels"})
  resize({1, 1, 1, 1}, {size = {3, 2}, mode = mode}, {name = "one pixel", batch = false})
  resize({1, 2, 5, 1}, {size = {1, 4}, mode = mode}, {name = "one row"})
  resize({1, 2, 4, 5}, {scale_h = 1.6, scale_w = 2.3, mode = mode}, {name = "by scale"})
  resize({1, 2, 4, 5}, {size = {9, 16}, scale_h = 2.2, scale_w = 3.3, mode = mode}, {name = "size and scale"})
  resize({1, 1, 3, 3}, {size = {20, 33}, mode = mode}, {name = "much larger", only = {"against_ref", "twice_the_same"}})
end
resize({2, 3, 4, 5}, {size = {7, 9}, mode = "bilinear", align_corners = true}, {name = "corners"})
resize({1, 2, 6, 5}, {size = {3, 1}, mode = "bilinear", align_corners = true}, {name = "corners, smaller"})

case {op = "interpolate", name = "of a ramp", inputs = {gen.values {1, 1, 1, 2, values = {0, 4}}},
  attrs = {size = {1, 4}, mode = "bilinear"}, expect = {{0, 1, 3, 4}, grads = {{2, 2}}}}
case {op = "interpolate", name = "of a ramp with corners", inputs = {gen.values {1, 1, 1, 2, values = {0, 3}}},
  attrs = {size = {1, 4}, mode = "bilinear", align_corners = true}, expect = {{0, 1, 2, 3}}}
case {op = "interpolate", name = "an infinite neighbour without weight", inputs = {gen.values {1, 1, 1, 2, values = {math.huge, 1}, diff = false}},
  attrs = {size = {1, 2}, mode = "bilinear"}, only = {"expected"}, expect = {{math.huge, 1}}}
case {op = "interpolate", name = "3-d is refused", inputs = {{3, 4, 5}}, attrs = {size = {2, 2}}, fails = {"shape", "x must have 4 dims, it has 3"}}
case {op = "interpolate", name = "without a size", inputs = {{1, 1, 4, 5}}, fails = {"value", "neither size nor a scale says what the height becomes"}}
case {op = "interpolate", name = "scaled to nothing", inputs = {{1, 1, 4, 5}}, attrs = {scale_h = 0.2, scale_w = 1}, fails = {"value", "scale 0.2 makes 0 px of a height of 4 px"}}
case {op = "interpolate", name = "no pixels", inputs = {gen.float {1, 1, 0, 5}}, attrs = {size = {2, 2}}, fails = {"shape", "x is 0x5, there are no pixels to read"}}
case {op = "interpolate", name = "corners of nearest", inputs = {{1, 1, 4, 5}}, attrs = {size = {2, 2}, align_corners = true}, fails = {"value", "align_corners is about mode bilinear"}}
case {op = "interpolate", name = "integers are refused", inputs = {gen.int {1, 1, 4, 5}}, attrs = {size = {2, 2}}, fails = {"dtype", "x must be floating point"}}

for _, scale in ipairs {1e-6, 1e5} do
  for _, mode in ipairs {"nearest", "bilinear"} do
    resize({1, 1, 3, 4}, {size = {5, 6}, scale_h = scale, scale_w = scale, mode = mode}, {name = "a scale of " .. scale, batch = false})
  end
end

-- ---- grid_sample ----

for _, mode in ipairs {"bilinear", "nearest"} do
  for _, padding in ipairs {"zeros", "border", "reflection"} do
    for _, align in ipairs {false, true} do
      case {op = "grid_sample", name = mode .. " " .. padding .. (align and " corners" or ""), batch = {1, 2},
        inputs = {gen.float {2, 3, 4, 5}, gen.float {2, 3, 4, 2, lo = -2.3, hi = 2.3, dtype = "f32", diff = mode == "bilinear"}},
        attrs = {mode = mode, padding_mode = padding, align_corners = align}}
    end
  end
end
case {op = "grid_sample", name = "many channels", inputs = {{2, 37, 3, 4}, gen.float {2, 5, 2, 2}}, batch = {1, 2}, only = {"against_ref", "any_layout"}}
-- Enough places for several threads: whole images, and rows of one.
for _, channels in ipairs {2, 9} do
  for _, images in ipairs {1, 3} do
    case {op = "grid_sample", name = ("%d images of %d channels"):format(images, channels), batch = {1, 2}, only = {"against_ref", "twice_the_same"},
      inputs = {{images, channels, 5, 6}, gen.float {images, 25, 41, 2, lo = -1.1, hi = 1.1}}}
  end
end
case {op = "grid_sample", name = "one pixel with corners", inputs = {{1, 1, 1, 1}, gen.float {1, 2, 2, 2}}, attrs = {align_corners = true, padding_mode = "reflection"}, batch = {1, 2}}
local far = {math.huge, 0, -math.huge, 0, 1e30, 0, 0 / 0, 0, -1e30, 1e30}
case {op = "grid_sample", name = "far away and nowhere", inputs = {gen.values {1, 1, 2, 2, values = {1, 2, 3, 4}}, gen.values {1, 5, 1, 2, values = far, dtype = "f32"}},
  only = {"expected"}, expect = {{0, 0, 0, 0, 0}}}
case {op = "grid_sample", name = "a grid of another batch", inputs = {{2, 1, 4, 5}, {1, 3, 3, 2}}, fails = {"shape", "grid is (1,3,3,2), x is (2,1,4,5): grid must be (2,h,w,2)"}}
case {op = "grid_sample", name = "a grid of triples", inputs = {{2, 1, 4, 5}, {2, 3, 3, 3}}, fails = {"shape", "grid must be (2,h,w,2)"}}

return cases
