--- pointwise.lua -- cases of pointwise programs: every op that may be in one, shapes, dtypes, and texts that are none.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local function away_from_zero(sizes)
  sizes.lo, sizes.hi = 0.3, 1.7
  return gen.float(sizes)
end

local function one(name, program, inputs, more)
  local case = {op = "pointwise", name = name, inputs = inputs, attrs = {program = program}, batch = false}
  for key, value in pairs(more or {}) do case[key] = value end
  return case
end

-- Each op alone: dtypes, shapes and layouts are tested by other cases, and every kernel takes a compiler's time.
local ALONE = {only = {"against_ref", "finite_differences"}, dtypes = {"f32"}}

local cases = {
  one("silu", "sigmoid a; mul a t0", {{3, 5}}, {batch = {1}}),
  one("several steps of one value", "mul a a; mul t0 a; add t1 a; sub t2 t0", {{7, 3}}, ALONE),
  one("a loss with weights", "sub a b; mul t0 t0; mul t1 c", {{4, 5}, {4, 5}, {5}}),
  one("three shapes", "add a b; tanh t0; mul t1 c", {{4, 1}, {1, 5}, {}}),
  one("an image", "relu a; mul t0 b; affine t1 2 -1", {{2, 3, 4, 5}, {1, 3, 1, 1}}),
  one("six dims", "mul a b", {{1, 2, 1, 3, 1, 2}, {2, 1, 2, 1, 2, 1}}),
  one("more than one block", "exp a; affine t0 0.5 1; mul t1 a", {{70, 67}}, {only = {"against_ref", "twice_the_same", "meta_shapes"}}),
  one("one element", "sigmoid a; affine t0 -1 1; mul t0 t1", {{}}, ALONE),
  one("an input that is not used", "mul a c", {{3, 4}, gen.float {3, 4, diff = false}, {3, 4}}, ALONE),
  one("a condition", "gt a b; where t0 a b; mul t1 a", {gen.distinct {5, 7}, {5, 7}}, ALONE),
  one("where with a constant", "const 0 a; gt a t0; const 0.5 a; where t1 a t2", {gen.distinct {5, 7}}, ALONE),
  one("a comparison is the result", "affine a 2 0; lt t0 b", {gen.float {4, 5, diff = false}, gen.float {4, 5, diff = false}},
    {batch = {1, 2}}),
  one("worked out by hand", "affine a 3 1; mul t0 b", {gen.values {3, values = {0, 1, 2}}, gen.values {3, values = {5, 6, 7}}},
    {expect = {{5, 24, 49}}, only = {"expected"}}),
  one("integers", "add a b; mul t0 b", {gen.int {3, 4, hi = 9}, gen.int {3, 4, hi = 9}}),

  {op = "pointwise", inputs = {{2, 3}}, attrs = {program = "sum a"}, fails = {"value", "'sum' is no elementwise op"}},
  {op = "pointwise", inputs = {{2, 3}}, attrs = {program = "mul a"}, fails = {"value", "mul takes 2 values and 0 numbers, 1 words follow it"}},
  {op = "pointwise", inputs = {{2, 3}}, attrs = {program = "mul a t0"}, fails = {"value", "'t0' is none of the inputs a to h"}},
  {op = "pointwise", inputs = {{2, 3}}, attrs = {program = "affine a x 1"}, fails = {"value", "'x' is no number"}},
  {op = "pointwise", inputs = {{2, 3}}, attrs = {program = "relu a;"}, fails = {"value", "a step is empty"}},
  {op = "pointwise", inputs = {{2, 3}}, attrs = {program = "mul a b"}, fails = {"value", "has 2 inputs, 1 are given"}},
  {op = "pointwise", inputs = {{2, 3}, {4}}, attrs = {program = "mul a b"}, fails = {"shape", "(2,3) and (4) cannot be broadcast"}},
}

for _, name in ipairs {"relu", "sigmoid", "tanh", "abs", "sign"} do
  cases[#cases + 1] = one(name, name .. " a; mul t0 a", {gen.distinct {5, 7}}, ALONE)
end
for _, name in ipairs {"exp", "log", "sqrt", "pow a 3", "pow a -0.5", "pow a 0", "affine a -2 0.25"} do
  cases[#cases + 1] = one(name, (name:find(" ") and name or name .. " a") .. "; mul t0 a", {away_from_zero {5, 7}}, ALONE)
end
for _, name in ipairs {"add", "sub", "mul", "div", "maximum", "minimum"} do
  cases[#cases + 1] = one(name, name .. " a b; mul t0 a", {gen.distinct {5, 7}, away_from_zero {5, 7}}, ALONE)
end
for _, name in ipairs {"eq", "ne", "lt", "le", "gt", "ge"} do
  cases[#cases + 1] = one(name, name .. " a b; where t0 a b", {gen.distinct {5, 7}, {5, 7}}, ALONE)
end
cases[#cases + 1] = one("activations", "silu a; gelu a 0; mul t0 t1; gelu a 1; add t2 t3; softplus a 2 1; mul t4 t5; leaky_relu a 0.2; " ..
  "add t6 t7; elu a 0.7; mul t8 t9; log_sigmoid a; add t10 t11", {gen.distinct {5, 7, scale = 2.03}}, ALONE)
cases[#cases + 1] = one("functions and bounds", "erf a; sin a; mul t0 t1; cos a; add t2 t3; hardsigmoid a; mul t4 t5; hardswish a; " ..
  "add t6 t7; clamp a -0.4 0.405; mul t8 t9", {gen.distinct {5, 7, scale = 2.03}}, ALONE)
cases[#cases + 1] = one("relu_grad", "relu_grad a b; mul t0 b", {gen.distinct {5, 7, diff = false}, gen.float {5, 7, diff = false}},
  ALONE)
cases[#cases + 1] = one("equals share the gradient", "maximum a b; minimum a b; mul t0 t1",
  {gen.values {2, values = {1, 2}}, gen.values {2, values = {1, 3}}}, {expect = {{1, 6}}, only = {"expected", "against_ref"}})
cases[#cases + 1] = one("a cast within", "mul a a; cast t0 f32; exp t1", {{5, 7}}, {only = {"against_ref", "any_layout"}})

return cases
