--- Cases of the optimizer steps. Expected values are one or two steps by hand from PyTorch's formulas.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local cases = {}
local function case(c) cases[#cases + 1] = c end
local function positive(size)
  return gen.float {size[1], size[2], lo = 0.1, hi = 1, dtype = "f32"}
end
local function f32(size) -- one or two dims
  return gen.float {size[1], size[2], dtype = "f32"}
end
local f32_only = {"f32"}
local small = "small singular values are multiplied by up to 3.4445^5, and so is their rounding"

-- Two parameters and n states each, in groups; states of squares are positive.
local function tensors(n_states, square)
  local list = {}
  for group = 1, 2 + n_states do
    for _, size in ipairs {{3, 4}, {17}} do
      list[#list + 1] = group == 2 + (square or 0) and square and positive(size) or f32(size)
    end
  end
  return list
end

for _, attrs in ipairs {
  {lr = 0.1}, {lr = 0.1, momentum = 0.9}, {lr = 0.1, momentum = 0.9, nesterov = true, weight_decay = 0.01},
  {lr = 0.1, momentum = 0.9, dampening = 0.5, first_step = true}, {lr = 0.1, momentum = 0.9, grad_scale = 0.25},
} do
  case {op = "sgd_step", inputs = tensors(1), attrs = attrs, writes = {1, 2, 5, 6}, dtypes = f32_only, batch = {1, 3, 5}}
end
for _, attrs in ipairs {
  {lr = 0.01, step = 1}, {lr = 0.01, step = 7, beta1 = 0.8, beta2 = 0.95, eps = 1e-4}, {lr = 0.01, step = 3, weight_decay = 0.1},
  {lr = 0.01, step = 3, weight_decay = 0.1, decoupled = true}, {lr = 0.01, step = 1000, grad_scale = 0.5},
} do
  case {op = "adam_step", inputs = tensors(2, 2), attrs = attrs, writes = {1, 2, 5, 6, 7, 8}, dtypes = f32_only, batch = {1, 3, 5, 7}}
end
for _, attrs in ipairs {{lr = 0.01, step = 3, weight_decay = 0.1}, {lr = 0.01, step = 3, weight_decay = 0.1, decoupled = true, grad_scale = 2}} do
  local list = tensors(3, 2)
  list[9], list[10] = positive {3, 4}, positive {17}
  case {op = "amsgrad_step", inputs = list, attrs = attrs, writes = {1, 2, 5, 6, 7, 8, 9, 10}, dtypes = f32_only, batch = {1, 3, 5, 7, 9}}
end
for _, attrs in ipairs {
  {lr = 0.01}, {lr = 0.01, alpha = 0.9, momentum = 0.9, weight_decay = 0.01}, {lr = 0.01, grad_scale = 2},
} do
  case {op = "rmsprop_step", inputs = tensors(3, 1), attrs = attrs, writes = {1, 2, 5, 6, 7, 8, 9, 10}, dtypes = f32_only, batch = {1, 3, 5, 7, 9}}
end
local function matrices(shapes)
  local list = {}
  for group = 1, 3 do
    for _, size in ipairs(shapes) do
      size.dtype = "f32"
      list[#list + 1] = gen.float(size)
    end
  end
  return list
end
for _, attrs in ipairs {{lr = 0.1}, {lr = 0.1, momentum = 0.9, nesterov = true, weight_decay = 0.1, grad_scale = 0.25}, {lr = 0.1, ns_steps = 1},
  {lr = 0.1, ns_steps = 2}} do
  case {op = "muon_step", inputs = matrices {{3, 5}, {7, 2}, {4, 2, 3, 3}}, attrs = attrs, writes = {1, 2, 3, 7, 8, 9}, dtypes = f32_only,
    batch = false, tolerance = {f32 = 2e-4}, because = small, backends = {"cpu"}}
end
case {op = "muon_step", name = "several tiles, wide and tall", inputs = matrices {{70, 90}, {150, 40}, {1, 33}, {33, 1}}, attrs = {lr = 0.1, nesterov = true},
  writes = {1, 2, 3, 4, 9, 10, 11, 12}, dtypes = f32_only, batch = false, tolerance = {f32 = 2e-3}, because = small, backends = {"cpu"}}
case {op = "muon_step", name = "longer than a sum at once", inputs = matrices {{3, 1100}, {1030, 2}}, attrs = {lr = 0.1}, writes = {1, 2, 5, 6},
  dtypes = f32_only, batch = false, tolerance = {f32 = 2e-4}, because = small, backends = {"cpu"}}
case {op = "muon_step", name = "a bias", inputs = {f32 {3}, f32 {3}, f32 {3}}, attrs = {lr = 1}, fails = {"shape", "params[1] is (3), muon_step is for matrices and convolutions"}}
local function one(v) return gen.values {1, values = {v}} end
-- square_avg must exceed the square of grad_avg, as it does in real runs
case {op = "rmsprop_step", name = "centered, expected", inputs = {one(1), one(2), one(4), one(0), one(0.5)}, writes = {1, 3, 4, 5}, dtypes = f32_only, batch = false,
  attrs = {lr = 0.1, alpha = 0.5, eps = 0, centered = true},
  expect = {after = {[1] = {1 - 0.1 * 2 / math.sqrt(4 - 1.25 ^ 2)}, [3] = {4}, [5] = {1.25}}}}
case {op = "sgd_step", name = "expected", inputs = {one(1), one(2), one(3)}, writes = {1, 3}, dtypes = f32_only, batch = false,
  attrs = {lr = 0.1, momentum = 0.5, dampening = 0.25, weight_decay = 0.5},
  expect = {after = {[1] = {1 - 0.1 * (0.5 * 3 + 0.75 * 2.5)}, [3] = {0.5 * 3 + 0.75 * 2.5}}}}
case {op = "sgd_step", name = "nesterov, expected", inputs = {one(1), one(2), one(3)}, writes = {1, 3}, dtypes = f32_only, batch = false,
  attrs = {lr = 0.1, momentum = 0.5, nesterov = true}, expect = {after = {[1] = {1 - 0.1 * (2 + 0.5 * 3.5)}, [3] = {3.5}}}}
case {op = "adam_step", name = "expected", inputs = {one(1), one(2), one(0.5), one(0.25)}, writes = {1, 3, 4}, dtypes = f32_only, batch = false,
  attrs = {lr = 0.1, beta1 = 0.5, beta2 = 0.75, eps = 0.5, step = 2},
  expect = {after = {[1] = {1 - 0.1 * (1.25 / 0.75) / (math.sqrt(1.1875 / 0.4375) + 0.5)}, [3] = {1.25}, [4] = {1.1875}}}}
case {op = "adam_step", name = "decoupled, expected", inputs = {one(1), one(2), one(0.5), one(0.25)}, writes = {1, 3, 4}, dtypes = f32_only, batch = false,
  attrs = {lr = 0.1, beta1 = 0.5, beta2 = 0.75, eps = 0.5, step = 2, weight_decay = 0.2, decoupled = true},
  expect = {after = {[1] = {0.98 - 0.1 * (1.25 / 0.75) / (math.sqrt(1.1875 / 0.4375) + 0.5)}}}}
for largest, name in pairs {[2] = "a larger one before, expected", [0.5] = "a smaller one before, expected"} do
  local v = math.max(largest, 1.1875)
  case {op = "amsgrad_step", name = name, inputs = {one(1), one(2), one(0.5), one(0.25), one(largest)}, writes = {1, 3, 4, 5}, dtypes = f32_only, batch = false,
    attrs = {lr = 0.1, beta1 = 0.5, beta2 = 0.75, eps = 0.5, step = 2},
    expect = {after = {[1] = {1 - 0.1 * (1.25 / 0.75) / (math.sqrt(v / 0.4375) + 0.5)}, [4] = {1.1875}, [5] = {v}}}}
end
case {op = "muon_step", name = "a row becomes a polynomial of 1", inputs = {gen.values {1, 2, values = {1, 1}}, gen.values {1, 2, values = {3, 0}}, gen.values {1, 2, values = {0, 8}}},
  writes = {1, 3}, dtypes = f32_only, batch = false, attrs = {lr = 0.5, momentum = 0.5, ns_steps = 1, weight_decay = 0.2}, backends = {"cpu"},
  expect = {on = {"ref", "cpu"}, after = {[1] = {0.9 - 0.5 * 0.701 * 0.6, 0.9 - 0.5 * 0.701 * 0.8}, [3] = {3, 4}}}}
case {op = "sgd_step", name = "a parameter without gradient stays", inputs = {one(1), one(5), one(2), false, one(3), one(4)}, writes = {1, 5}, dtypes = f32_only, batch = false,
  attrs = {lr = 1, momentum = 1}, expect = {after = {[1] = {1 - 5}, [2] = {5}, [6] = {4}}}}
case {op = "sgd_step", name = "shapes that differ", inputs = {f32 {2, 2}, f32 {3}, f32 {2, 2}}, attrs = {lr = 1}, fails = {"shape", "grads[1] is (3), params[1] is (2,2)"}}
case {op = "adam_step", name = "groups of unequal length", inputs = {one(1), one(1), one(1)}, attrs = {lr = 1, step = 1}, fails = {"value", "3 tensors cannot be cut into 4 groups"}}

case {op = "grad_norm", inputs = {{3, 4}, {17}, {2, 3, 4, 5}}, batch = {1, 2, 3}}
case {op = "grad_norm", name = "expected", inputs = {one(3), one(4)}, expect = {{5}}, batch = {1, 2}}
case {op = "grad_norm", name = "missing ones are skipped", inputs = {one(3), false, one(4)}, expect = {{5}}, batch = false}

return cases
