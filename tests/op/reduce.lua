--- Cases of sums, means and extremes.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local cases = {}
local function case(c) cases[#cases + 1] = c end

for _, op in ipairs {"sum", "mean", "amax"} do
  local x = op == "amax" and gen.distinct or gen.float
  local batch = op ~= "amax" and {1} or false -- an extreme of nothing is an error
  case {op = op, name = "all", inputs = {x {3, 5}}, batch = batch}
  case {op = op, name = "last dim", inputs = {x {3, 5}}, attrs = {dims = 2}}
  case {op = op, name = "first dim kept", inputs = {x {3, 5}}, attrs = {dims = {1}, keepdim = true}, batch = batch}
  case {op = op, name = "rows and columns of images", inputs = {x {2, 3, 4, 5}}, attrs = {dims = {3, 4}}}
  case {op = op, name = "channels of images, kept", inputs = {x {2, 3, 4, 5}}, attrs = {dims = {-3}, keepdim = true}}
  case {op = op, name = "a scalar", inputs = {x {}}, batch = false}
  case {op = op, name = "long rows", inputs = {x {2, 1000, scale = 0.01}}, attrs = {dims = {2}}}
  case {op = op, name = "a dim that is not there", inputs = {x {3, 5}}, attrs = {dims = 3}, fails = {"value", "dim"}}
end
-- Many elements in few sums, few in many, along and across memory, in numbers that do and do not fill vectors.
local DEVICES = {"against_ref", "twice_the_same", "any_layout"}
local function long(size, attrs, name)
  for _, op in ipairs {"sum", "mean", "amax"} do
    local x = op == "amax" and gen.distinct or gen.float
    size.scale = 0.01
    case {op = op, name = name, inputs = {x(size)}, attrs = attrs, only = DEVICES}
  end
end
long({9001}, {}, "9001 to one")
long({40, 8, 6, 16}, {}, "an image batch to one")
long({40, 16, 7, 9}, {dims = {1, 3, 4}}, "channels")
long({20, 33, 7, 9}, {dims = {1, 3, 4}, keepdim = true}, "odd channels")
long({3, 3, 40, 41}, {dims = {1, 3, 4}}, "colours")
long({3, 40, 12, 10}, {dims = {3, 4}}, "planes")
long({3000, 5}, {dims = {2}}, "many short rows")
long({3000, 5}, {dims = {1}}, "few long columns")
long({5, 3000}, {dims = {1}}, "many short columns")
long({6, 40, 5, 8}, {dims = {1, 3}}, "every other dim")
for _, dtype in ipairs {"u8", "i32", "i64", "bool"} do
  local function whole(size)
    size.lo, size.hi, size.dtype = 0, dtype == "bool" and 1 or 200, dtype
    return gen.int(size)
  end
  for _, op in ipairs {"sum", "amax"} do
    case {op = op, name = dtype .. " along and across", inputs = {whole {30, 70}}, attrs = {dims = {1}}, batch = false}
    case {op = op, name = dtype .. " along", inputs = {whole {30, 70}}, attrs = {dims = {2}}}
    case {op = op, name = dtype .. " to one", inputs = {whole {50, 70}}, batch = false}
  end
  case {op = "argmax", name = dtype .. " across", inputs = {whole {40, 70}}, attrs = {dim = 1}, batch = false}
end
case {op = "argmax", name = "of many", inputs = {gen.distinct {9001}}, batch = false}
case {op = "argmax", name = "across many rows", inputs = {gen.distinct {2000, 6}}, attrs = {dim = 1}, batch = false}
case {op = "argmax", name = "of many equals the first", inputs = {gen.int {3, 4000, lo = 0, hi = 3}}, attrs = {dim = 2}}
for _, n in ipairs {5, 70, 400} do
  for _, place in ipairs {1, 3, n - 1, n} do -- of the largest and a second one behind it, of NaN and a larger number before it
    local values, nans = {}, {}
    for k = 1, n do values[k], nans[k] = -k % 3, k == place and 0 / 0 or -k end
    values[place], values[math.min(n, place + 2)] = 9, 9
    for name, list in pairs {largest = values, NaN = nans} do
      local x = gen.values {1, n, values = list, diff = false}
      case {op = "argmax", name = ("%s at %d of %d"):format(name, place, n), inputs = {x}, attrs = {dim = 2}, only = {"expected"}, expect = {{place - 1}}}
      case {op = "amax", name = ("%s at %d of %d"):format(name, place, n), inputs = {x}, attrs = {dims = 2}, only = {"expected"}, expect = {{name == "NaN" and 0 / 0 or 9}}}
    end
  end
end
case {op = "sum", name = "bytes do not overflow", inputs = {gen.values {3, values = {200, 200, 200}, dtype = "u8"}}, expect = {{600}}}
case {op = "sum", name = "true counts as 1", inputs = {gen.values {3, values = {1, 0, 1}, dtype = "bool"}}, expect = {{2}}}
case {op = "mean", name = "integers are refused", inputs = {gen.int {3}}, fails = {"dtype", "x must be floating point"}}
case {op = "amax", name = "integers", inputs = {gen.int {4, 5}}, attrs = {dims = 2}}
case {op = "amax", name = "ties share the gradient", inputs = {gen.values {2, 3, values = {5, 1, 5, 2, 2, 2}}}, attrs = {dims = 2}, only = {"expected"},
  expect = {{5, 2}, grads = {{0.5, 0, 0.5, 1 / 3, 1 / 3, 1 / 3}}}}
case {op = "amax", name = "NaN wins", inputs = {gen.values {1, 3, values = {1, 0 / 0, 3}}}, attrs = {dims = 2}, only = {"expected"}, expect = {{0 / 0}}}
case {op = "sum", name = "expected", inputs = {gen.values {2, 3, values = {1, 2, 3, 4, 5, 6}}}, attrs = {dims = 1}, expect = {{5, 7, 9}, grads = {{1, 1, 1, 1, 1, 1}}}, batch = false}
case {op = "mean", name = "expected", inputs = {gen.values {2, 3, values = {1, 2, 3, 4, 5, 6}}}, attrs = {dims = 2}, expect = {{2, 5}, grads = {{1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3}}}}
case {op = "amax", name = "of nothing", inputs = {{0, 3}}, fails = {"shape", "size 0"}}

case {op = "argmax", inputs = {gen.distinct {3, 5}}, attrs = {dim = 2}}
for _, descending in ipairs {false, true} do
  case {op = "argsort", name = descending and "down" or "up", inputs = {gen.distinct {3, 50}}, attrs = {descending = descending}}
  case {op = "argsort", name = "images " .. tostring(descending), inputs = {gen.distinct {2, 3, 4, 5}}, attrs = {dim = 2, descending = descending}}
end
case {op = "argsort", name = "equals stay in order", inputs = {gen.int {3, 40, lo = 0, hi = 3}}}
case {op = "argsort", name = "NaN is the largest", inputs = {gen.values {6, values = {0 / 0, math.huge, -0.0, 0, -math.huge, -1}, diff = false}}, only = {"expected"}, expect = {{4, 5, 2, 3, 1, 0}}}
case {op = "argsort", name = "NaN first", inputs = {gen.values {4, values = {1, 0 / 0, 2, 1}, diff = false}}, attrs = {descending = true}, only = {"expected"}, expect = {{1, 2, 0, 3}}}
case {op = "argmax", name = "first dim kept", inputs = {gen.distinct {3, 5}}, attrs = {dim = 1, keepdim = true}, batch = false}
case {op = "argmax", name = "channels of images", inputs = {gen.distinct {2, 3, 4, 5}}, attrs = {dim = 2}}
case {op = "argmax", name = "the first of equals", inputs = {gen.values {2, 4, values = {1, 3, 3, 2, 5, 5, 5, 5}}}, expect = {{1, 0}}}
case {op = "argmax", name = "NaN before all", inputs = {gen.values {1, 3, values = {1, 0 / 0, 3}}}, expect = {{1}}}
case {op = "argmax", name = "integers", inputs = {gen.int {4, 6, dtype = "u8", lo = 0, hi = 200}}}

return cases
