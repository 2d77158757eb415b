--- Cases of matmul.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

return {
  {op = "matmul", inputs = {{4, 6}, {6, 5}}},
  {op = "matmul", name = "a turned", inputs = {{6, 4}, {6, 5}}, attrs = {transpose_a = true}, batch = false},
  {op = "matmul", name = "b turned", inputs = {{4, 6}, {5, 6}}, attrs = {transpose_b = true}},
  {op = "matmul", name = "both turned", inputs = {{6, 4}, {5, 6}}, attrs = {transpose_a = true, transpose_b = true}, batch = false},
  {op = "matmul", name = "batches", inputs = {{3, 4, 6}, {3, 6, 5}}, batch = {1, 2}},
  {op = "matmul", name = "one b for all batches", inputs = {{3, 4, 6}, {6, 5}}},
  {op = "matmul", name = "batches broadcast", inputs = {{2, 1, 4, 3}, {5, 3, 2}}},
  {op = "matmul", name = "batches, b turned", inputs = {{2, 3, 4}, {2, 5, 4}}, attrs = {transpose_b = true}, batch = {1, 2}},
  {op = "matmul", name = "expected", inputs = {gen.values {2, 2, values = {1, 2, 3, 4}}, gen.values {2, 2, values = {5, 6, 7, 8}}}, expect = {{19, 22, 43, 50}}},
  {op = "matmul", name = "other inner size", inputs = {{4, 6}, {5, 7}}, fails = {"shape", "5"}},
}
