--- Cases of gather, scatter, index_select and embedding.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local cases = {covers = {"gather_grad", "index_select_grad", "embedding_grad"}}
local function case(c) cases[#cases + 1] = c end

local function index(size, count, dtype)
  size.lo, size.hi, size.dtype = 0, count - 1, dtype
  return gen.int(size)
end

-- ---- gather ----

case {op = "gather", inputs = {{4, 5}, index({3, 5}, 4)}, attrs = {dim = 1}, batch = {2}}
case {op = "gather", name = "last dim", inputs = {{4, 5}, index({4, 7}, 5, "i64")}, attrs = {dim = -1}, batch = {1, 2}}
case {op = "gather", name = "a corner", inputs = {{4, 3, 5}, index({2, 6, 4}, 3)}, attrs = {dim = 2}, batch = {2}}
case {op = "gather", name = "images", inputs = {{2, 3, 4, 5}, index({2, 3, 4, 5}, 3)}, attrs = {dim = 2}, batch = {1, 2}}
case {op = "gather", name = "one row many times", inputs = {{2, 40}, index({600, 40}, 2)}, attrs = {dim = 1}, batch = {2}, only = {"against_ref", "twice_the_same"}}
case {op = "gather", name = "integers", inputs = {gen.int {4, 5}, index({2, 5}, 4)}, attrs = {dim = 1}, batch = {2}}
case {op = "gather", name = "known values", inputs = {gen.values {2, 2, values = {1, 2, 3, 4}}, gen.values {2, 2, values = {0, 0, 1, 0}, dtype = "i32"}}, attrs = {dim = 2},
  batch = {1, 2}, expect = {{1, 1, 4, 3}, grads = {{2, 0, 1, 1}}}}

-- cuda cannot read an index back: there it gives NaN, below
local host = {"ref", "cpu"}
case {op = "gather", name = "too large an index", inputs = {{4, 5}, gen.values {1, 2, values = {1, 5}, dtype = "i32"}}, attrs = {dim = 2},
  fails = {"value", "index[1,2] is 5, it must be in 0..4 (values count from 0)", on = host}}
case {op = "gather", name = "a negative index", inputs = {{4, 5}, gen.values {1, 2, values = {1, -1}, dtype = "i64"}}, attrs = {dim = 1},
  fails = {"value", "index[1,2] is -1, it must be in 0..3", on = host}}
case {op = "gather", name = "other dims", inputs = {{4, 5}, index({3}, 4)}, attrs = {dim = 1}, fails = {"shape", "index is (3), x is (4,5): they need as many dims"}}
case {op = "gather", name = "longer elsewhere", inputs = {{4, 5}, index({3, 6}, 4)}, attrs = {dim = 1}, fails = {"shape", "index may be longer in dim 1 only"}}
case {op = "gather", name = "a float index", inputs = {{4, 5}, {3, 5}}, attrs = {dim = 1}, fails = {"dtype", "index must be i32 or i64, it is f32"}}

-- ---- scatter ----

local different = gen.values {2, 3, values = {0, 1, 2, 3, 0, 1}, dtype = "i32"}
case {op = "scatter", inputs = {{4, 3}, different, {2, 3}}, attrs = {dim = 1}, batch = false}
case {op = "scatter", name = "a value", inputs = {{4, 3}, different}, attrs = {dim = 1, value = 2.5}, batch = false}
case {op = "scatter", name = "images", inputs = {{2, 3, 2, 2}, gen.values {1, 2, 2, 2, values = {0, 1, 2, 0, 1, 2, 0, 1}, dtype = "i32"}, {1, 2, 2, 2}}, attrs = {dim = 2}, batch = false}
case {op = "scatter", name = "the last of several wins", inputs = {gen.values {1, 3, values = {7, 8, 9}}, gen.values {1, 4, values = {1, 0, 1, 1}, dtype = "i32"},
  gen.values {1, 4, values = {1, 2, 3, 4}}}, attrs = {dim = 2}, only = {"expected", "any_layout", "against_ref"}, expect = {{2, 4, 9}, grads = {{0, 0, 1}, [3] = {1, 1, 1, 1}}}}
case {op = "scatter", name = "integers", inputs = {gen.int {4, 3}, different, gen.int {2, 3}}, attrs = {dim = 1}, batch = false}
case {op = "scatter", name = "too large an index", inputs = {{4, 3}, gen.values {1, 1, values = {4}, dtype = "i32"}, {1, 1}}, attrs = {dim = 1},
  fails = {"value", "index[1,1] is 4, it must be in 0..3", on = host}}
case {op = "scatter", name = "another shape", inputs = {{4, 3}, different, {3, 3}}, attrs = {dim = 1}, fails = {"shape", "src is (3,3), index is (2,3)"}}
case {op = "scatter", name = "another dtype", inputs = {{4, 3}, different, gen.int {2, 3}}, attrs = {dim = 1}, fails = {"dtype", "src is i32, x is f32"}}

case {op = "scatter_add", inputs = {{4, 3}, index({5, 3}, 4), {5, 3}}, attrs = {dim = 1}, batch = {2, 3}}
case {op = "scatter_add", name = "last dim", inputs = {{3, 4}, index({2, 9}, 4, "i64"), {2, 9}}, attrs = {dim = -1}, batch = {2, 3}}
case {op = "scatter_add", name = "all to one", inputs = {{1, 33}, index({500, 33}, 1), {500, 33}}, attrs = {dim = 1}, batch = {2, 3}, only = {"against_ref", "twice_the_same"}}
case {op = "scatter_add", name = "large and small", inputs = {gen.values {1, values = {0}}, gen.values {3, values = {0, 0, 0}, dtype = "i32"}, gen.values {3, values = {1e6, 1e-2, -1e6}}},
  attrs = {dim = 1}, only = {"expected"}, expect = {{1e-2}, tolerance = 0.7}, batch = false}
case {op = "scatter_add", name = "counts", inputs = {gen.int {4}, index({9}, 4), gen.int {9}}, attrs = {dim = 1}, batch = {2, 3}}
case {op = "scatter_add", name = "a negative index", inputs = {{4}, gen.values {1, values = {-1}, dtype = "i32"}, {1}}, attrs = {dim = 1},
  fails = {"value", "index[1] is -1, it must be in 0..3", on = host}}

-- ---- index_select ----

for dim = 1, 3 do
  case {op = "index_select", name = "dim " .. dim, inputs = {{3, 4, 5}, index({6}, 3)}, attrs = {dim = dim}, batch = {2}}
end
case {op = "index_select", name = "images", inputs = {{2, 3, 4, 5}, index({7}, 4, "i64")}, attrs = {dim = 3}, batch = {2}}
case {op = "index_select", name = "long rows", inputs = {{50, 67}, index({90}, 50)}, attrs = {dim = 1}, batch = {2}, only = {"against_ref", "twice_the_same"}}
case {op = "index_select", name = "bytes", inputs = {gen.bool {3, 4}, index({2}, 3)}, attrs = {dim = 1}, batch = {2}}
case {op = "index_select", name = "a matrix of indices", inputs = {{3, 4}, index({2, 2}, 3)}, attrs = {dim = 1}, fails = {"shape", "index must have 1 dims, it has 2"}}
case {op = "index_select", name = "too large an index", inputs = {{3, 4}, gen.values {2, values = {0, 3}, dtype = "i32"}}, attrs = {dim = 1},
  fails = {"value", "index[2] is 3, it must be in 0..2", on = host}}
case {op = "index_select", name = "nothing to choose from", inputs = {gen.float {0, 4}, index({2}, 1)}, attrs = {dim = 1},
  fails = {"value", "there is nothing to choose from", on = host}}

-- ---- embedding ----

case {op = "embedding", inputs = {{7, 4}, index({3, 2}, 7)}, batch = {2}}
case {op = "embedding", name = "of a sequence", inputs = {{7, 33}, index({40}, 7, "i64")}, batch = {2}}
case {op = "embedding", name = "padding", inputs = {gen.values {3, 1, values = {1, 2, 3}}, gen.values {2, 3, values = {0, 2, 2, 1, 1, 2}, dtype = "i32"}},
  attrs = {padding_idx = 1}, batch = {2}, only = {"expected"}, expect = {{1, 3, 3, 2, 2, 3}, grads = {{1, 0, 3}}}}
case {op = "embedding", name = "a scalar index", inputs = {{5, 3}, gen.values {values = {2}, dtype = "i32"}}, batch = false}
case {op = "embedding", name = "too large an index", inputs = {{3, 2}, gen.values {2, values = {0, 3}, dtype = "i32"}},
  fails = {"value", "index[2] is 3, it must be in 0..2", on = host}}
case {op = "embedding", name = "padding beyond the rows", inputs = {{3, 2}, index({2}, 3)}, attrs = {padding_idx = 3}, fails = {"value", "padding_idx is 3, weight has rows 0 to 2"}}
case {op = "embedding", name = "integers are refused", inputs = {gen.int {3, 2}, index({2}, 3)}, fails = {"dtype", "weight must be floating point"}}

return cases
