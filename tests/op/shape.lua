--- Cases of ops that rearrange elements.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local twelve = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}

local cases = {
  covers = {},
  {op = "reshape", inputs = {{4, 6}}, attrs = {size = {2, 12}}, batch = false},
  {op = "reshape", name = "one size left open", inputs = {{4, 6}}, attrs = {size = {3, -1}}, batch = false},
  {op = "reshape", name = "batch kept", inputs = {{4, 6}}, attrs = {size = {-1, 2, 3}}},
  {op = "reshape", name = "flattening an image gives C,H,W order", inputs = {gen.values {1, 3, 2, 2, values = twelve}},
    attrs = {size = {1, 12}}, batch = false, expect = {twelve}},
  {op = "reshape", name = "an image of one pixel", inputs = {{2, 5, 1, 1}}, attrs = {size = {-1, 5}}},
  {op = "reshape", name = "to a scalar", inputs = {{1, 1}}, attrs = {size = {}}, batch = false},
  {op = "reshape", name = "other number of elements", inputs = {{4, 6}}, attrs = {size = {5, 5}},
    fails = {"shape", "x (4,6) has 24 elements and cannot become (5,5)"}},
  {op = "reshape", name = "integers", inputs = {gen.int {4, 6, dtype = "i64"}}, attrs = {size = {6, 4}}, batch = false},

  {op = "permute", inputs = {{2, 3, 4}}, attrs = {dims = {3, 1, 2}}},
  {op = "permute", name = "images to N,H,W,C", inputs = {{2, 3, 4, 5}}, attrs = {dims = {1, 3, 4, 2}}},
  {op = "permute", name = "expected", inputs = {gen.values {2, 3, values = {0, 1, 2, 3, 4, 5}}}, attrs = {dims = {2, 1}}, expect = {{0, 3, 1, 4, 2, 5}}},
  {op = "permute", name = "a dim twice", inputs = {{2, 3}}, attrs = {dims = {1, 1}}, fails = {"value", "given twice"}},

  {op = "narrow", inputs = {{4, 6}}, attrs = {dim = 2, start = 3, length = 2}},
  {op = "narrow", name = "images", inputs = {{2, 3, 4, 5}}, attrs = {dim = -1, start = 2, length = 3}},
  {op = "narrow", name = "nothing", inputs = {{4, 6}}, attrs = {dim = 1, start = 1, length = 0}},
  {op = "narrow", name = "beyond the end", inputs = {{4, 6}}, attrs = {dim = 2, start = 5, length = 3}, fails = {"value", "size 6"}},
  {op = "narrow_grad", inputs = {{4, 2}}, attrs = {dim = 2, start = 3, size = 6}},
  {op = "narrow_grad", name = "images", inputs = {{2, 2, 3, 3}}, attrs = {dim = 2, start = 1, size = 4}},
  {op = "narrow_grad", name = "expected", inputs = {gen.values {2, values = {7, 8}}}, attrs = {dim = 1, start = 2, size = 4}, expect = {{0, 7, 8, 0}}, batch = false},

  {op = "expand", inputs = {{3, 1}}, attrs = {size = {3, 4}}, batch = false},
  {op = "expand", name = "new dims in front", inputs = {{3, 1}}, attrs = {size = {2, -1, 4}}},
  {op = "expand", name = "a scalar", inputs = {{}}, attrs = {size = {2, 2}}, batch = false},
  {op = "expand", name = "a dim that is not 1", inputs = {{3, 2}}, attrs = {size = {3, 4}}, fails = {"shape", "(3,2) cannot be expanded to (3,4)"}},

  {op = "concat", inputs = {{2, 3}, {4, 3}, {1, 3}}, attrs = {dim = 1}},
  {op = "concat", name = "channels of images", inputs = {{2, 3, 4, 5}, {2, 1, 4, 5}}, attrs = {dim = 2}, batch = {1, 2}},
  {op = "concat", name = "last dim", inputs = {{2, 3}, {2, 2}}, attrs = {dim = -1}, batch = {1, 2}},
  {op = "concat", name = "expected", inputs = {gen.values {1, 2, values = {1, 2}}, gen.values {1, 1, values = {3}}}, attrs = {dim = 2}, batch = {1, 2}, expect = {{1, 2, 3}}},
  {op = "concat", name = "integers", inputs = {gen.int {2, 3, dtype = "u8", lo = 0}, gen.int {2, 3, dtype = "u8", lo = 0}}},
  {op = "concat", name = "other sizes", inputs = {{2, 3}, {2, 4}}, attrs = {dim = 1}, fails = {"shape", "input 1 is (2,3), input 2 is (2,4)"}},

  {op = "contiguous", inputs = {{3, 4}}},
  {op = "contiguous", name = "images", inputs = {{2, 3, 4, 5}}},
  {op = "contiguous", name = "large integers stay exact", inputs = {gen.values {2, values = {2 ^ 53 - 1, -2 ^ 53 + 1}, dtype = "i64"}}, expect = {{2 ^ 53 - 1, -2 ^ 53 + 1}}},
}

-- Copies that turn memory around, in whole and in cut tiles, of elements of every size.
for _, size in ipairs {{2, 8, 8, 9}, {1, 33, 5, 8}, {3, 40, 37}, {32, 64}} do
  local name = table.concat(size, "x")
  cases[#cases + 1] = {op = "contiguous", name = "float " .. name, inputs = {gen.float(size)}}
  for _, dtype in ipairs {"u8", "i32", "i64", "bool"} do
    local values = {unpack(size)}
    values.lo, values.hi, values.dtype = 0, dtype == "bool" and 1 or 100, dtype
    cases[#cases + 1] = {op = "contiguous", name = dtype .. " " .. name, inputs = {gen.int(values)}}
  end
end

return cases
