--- Cases of step_control, and of optimizer steps that take their numbers from it.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")

local cases = {}
local function case(c) cases[#cases + 1] = c end

-- scale, finite steps since it changed, steps, skipped, multiplier, skip, norm, growths; then the rates.
local function control(c)
  local values = {c.scale or 1, c.tracker or 0, c.steps or 0, c.skipped or 0, c.multiplier or 1, c.skip or 0, c.norm or 0,
    c.growths or 0}
  for _, rate in ipairs(c.rates or {0.1}) do values[#values + 1] = rate end
  return gen.values {#values, values = values, dtype = "f32"}
end
local function numbers(...)
  return gen.values {select("#", ...), values = {...}, dtype = "f32"}
end

-- What a decision does to the vector.
local function decide(name, before, norm, attrs, after, common)
  local values = {after.scale or 1, after.tracker or 0, after.steps or 0, after.skipped or 0, after.multiplier or 1,
    after.skip or 0, after.norm or 0, after.growths or 0, 0.25}
  before.rates = {0.25}
  local inputs = {control(before), norm and gen.values {1, values = {norm}, dtype = "f32"} or false, common and control(common)}
  case {op = "step_control", name = name, inputs = inputs, attrs = attrs, writes = {1}, dtypes = {"f32"}, batch = false,
    expect = {after = {[1] = values}}}
end

decide("without a norm a step counts", {steps = 3}, nil, {}, {steps = 4})
decide("a norm below max_norm changes nothing", {}, 2, {max_norm = 4}, {steps = 1, norm = 2})
decide("a norm above max_norm is held to it", {}, 8, {max_norm = 4}, {steps = 1, norm = 8, multiplier = 4 / (8 + 1e-6)})
decide("the scale is taken out", {scale = 8, tracker = 4}, 16, {scaling = true},
  {scale = 8, tracker = 5, steps = 1, norm = 2, multiplier = 1 / 8})
decide("the scale is taken out before clipping", {scale = 8}, 16, {scaling = true, max_norm = 1},
  {scale = 8, tracker = 1, steps = 1, norm = 2, multiplier = 1 / 8 / (2 + 1e-6)})
decide("without scaling the scale stays where it is", {scale = 8, tracker = 4}, 16, {max_norm = 32},
  {scale = 8, tracker = 4, steps = 1, norm = 16})
decide("the scale grows after the interval", {scale = 8, tracker = 4, growths = 2}, 8, {scaling = true, growth_interval = 5, growth_factor = 4},
  {scale = 32, steps = 1, norm = 1, multiplier = 1 / 8, growths = 3})
decide("the scale does not grow beyond what f32 holds", {scale = 2 ^ 127, tracker = 1}, 0, {scaling = true, growth_interval = 2},
  {scale = 2 ^ 127, steps = 1, multiplier = 2 ^ -127})
decide("an infinite norm backs off", {scale = 8, tracker = 4, steps = 7, skipped = 1}, math.huge, {scaling = true, backoff_factor = 0.25},
  {scale = 2, steps = 7, skipped = 2, skip = 1, multiplier = 0, norm = math.huge})
decide("NaN backs off, too", {scale = 8}, 0 / 0, {scaling = true, max_norm = 1},
  {scale = 4, skipped = 1, skip = 1, multiplier = 0, norm = 0 / 0})
decide("clipping alone skips, and knows no scale", {}, math.huge, {max_norm = 1},
  {skipped = 1, skip = 1, multiplier = 0, norm = math.huge})
decide("a common control lends its multiplier", {}, 16, {max_norm = 1}, {steps = 1, norm = 2, multiplier = 1 / 8 / (2 + 1e-6)},
  {scale = 8, multiplier = 1 / 8})
decide("what a common control skips is skipped", {steps = 2}, nil, {}, {steps = 2, skipped = 1, skip = 1, multiplier = 0},
  {skip = 1, multiplier = 0})

case {op = "step_control", name = "too short a state", inputs = {numbers(1, 2, 3)}, fails = {"shape", "state is a row of at least 9 numbers, this is (3)"}}
case {op = "step_control", name = "a state in 16 bit", inputs = {gen.values {9, values = {1, 0, 0, 0, 1, 0, 0, 0, 1}, dtype = "bf16"}},
  fails = {"dtype", "state must be f32, it is bf16"}}
case {op = "step_control", name = "clipping without a norm", inputs = {control {}}, attrs = {max_norm = 1},
  fails = {"value", "max_norm and scaling need the norm of the gradients"}}
case {op = "step_control", name = "two scales", inputs = {control {}, numbers(1), control {}}, attrs = {scaling = true},
  fails = {"value", "with a common control that one scales"}}

-- Steps read rate, number and multiplier from their last tensor; the same numbers as attributes give the same step.
local ignored = {lr = 77, grad_scale = 2, group = 1, behind = 2}
local now = {steps = 5, multiplier = 0.5, rates = {9, 0.125}} -- third step of group 1 with rate 1/8; gradients as they are
local function with(base, more)
  local out = {}
  for key, value in pairs(base) do out[key] = value end
  for key, value in pairs(more) do out[key] = value end
  return out
end
local function step(op, name, states, attrs, inputs, after, skip)
  local list = {numbers(1), numbers(2)}
  for _, v in ipairs(inputs) do list[#list + 1] = v and numbers(v) or false end
  list[#list + 1] = control(with(now, {skip = skip}))
  local writes = {1}
  for k = 1, states do writes[k + 1] = k + 2 end
  case {op = op, name = name, inputs = list, attrs = with(ignored, attrs), writes = writes, dtypes = {"f32"}, batch = false,
    expect = {after = after}}
end
local m, v = 0.5 * 0.5 + 0.5 * 2, 0.75 * 0.25 + 0.25 * 4
step("adam_step", "numbers of a control", 2, {step = 99, beta1 = 0.5, beta2 = 0.75, eps = 0.5}, {0.5, 0.25},
  {[1] = {1 - 0.125 * (m / (1 - 0.5 ^ 3)) / (math.sqrt(v / (1 - 0.75 ^ 3)) + 0.5)}, [3] = {m}, [4] = {v}})
step("adam_step", "a skipped step", 2, {step = 99}, {0.5, 0.25}, {[1] = {1}, [3] = {0.5}, [4] = {0.25}}, 1)
step("amsgrad_step", "numbers of a control", 3, {step = 99, beta1 = 0.5, beta2 = 0.75, eps = 0.5}, {0.5, 0.25, 2},
  {[1] = {1 - 0.125 * (m / (1 - 0.5 ^ 3)) / (math.sqrt(2 / (1 - 0.75 ^ 3)) + 0.5)}, [4] = {v}, [5] = {2}})
step("amsgrad_step", "a skipped step", 3, {step = 99}, {0.5, 0.25, 0.1}, {[1] = {1}, [4] = {0.25}, [5] = {0.1}}, 1)
step("sgd_step", "numbers of a control", 1, {momentum = 0.5, first_step = true}, {3}, {[1] = {1 - 0.125 * (0.5 * 3 + 2)}, [3] = {3.5}})
step("sgd_step", "the first step by a control", 1, {momentum = 0.5, behind = 4}, {3}, {[1] = {1 - 0.125 * 2}, [3] = {2}})
step("sgd_step", "a skipped step", 1, {momentum = 0.5}, {3}, {[1] = {1}, [3] = {3}}, 1)
step("rmsprop_step", "numbers of a control", 1, {alpha = 0.5, eps = 0}, {2, false, false},
  {[1] = {1 - 0.125 * 2 / math.sqrt(3)}, [3] = {3}})
step("rmsprop_step", "a skipped step", 1, {}, {2, false, false}, {[1] = {1}, [3] = {2}}, 1)

-- Many tensors, some large, some without a gradient; the same rule as with attributes.
local function f32(...) return gen.float {..., dtype = "f32"} end
local function many(states)
  local list, sizes = {}, {{3, 4}, {1}, {5000}, {2, 3, 4, 5}, {17}}
  for group = 1, 2 + states do
    for i, size in ipairs(sizes) do
      local missing = i == 4 and group == 2
      local lowest = group == 2 + states and 0.1 or -1
      list[#list + 1] = not missing and gen.float {size[1], size[2], size[3], size[4], lo = lowest, dtype = "f32"} or false
    end
  end
  return list
end
for _, c in ipairs {{"sgd_step", 1, {momentum = 0.9, weight_decay = 0.1}}, {"adam_step", 2, {step = 1, decoupled = true, weight_decay = 0.1}},
  {"rmsprop_step", 3, {momentum = 0.9}}} do
  local list, writes = many(c[2]), {}
  for i = 1, #list do
    if i <= 5 or i > 10 then writes[#writes + 1] = i end
  end
  list[#list + 1] = control {steps = 4, multiplier = 0.25, rates = {0.01}}
  case {op = c[1], name = "many tensors by a control", inputs = list, attrs = with({lr = 0}, c[3]), writes = writes, dtypes = {"f32"}, batch = false}
end

-- More tensors than one launch takes, sizes around its blocks, and empty ones.
local function crowd(groups, count)
  local list, odd = {}, {[3] = 0, [7] = 2047, [8] = 2048, [9] = 2049, [66] = 4099}
  for _ = 1, groups do
    for i = 1, count do list[#list + 1] = f32(odd[i] or i % 5 + 1) end
  end
  return list
end
local crowded = {}
for i = 1, 3 * 131 do
  if i <= 131 or i > 2 * 131 then crowded[#crowded + 1] = i end
end
case {op = "sgd_step", name = "131 tensors", inputs = crowd(3, 131), attrs = {lr = 0.1, momentum = 0.5}, writes = crowded, dtypes = {"f32"}, batch = false}
case {op = "grad_norm", name = "131 tensors", inputs = crowd(1, 131), batch = false}
case {op = "grad_norm", name = "nothing but empty tensors", inputs = {f32(0), f32(0)}, expect = {{0}}, batch = false}
case {op = "grad_norm", name = "not finite", inputs = {numbers(1, 2), numbers(3, math.huge)}, expect = {{math.huge}}, batch = false}
case {op = "grad_norm", name = "not a number", inputs = {numbers(1, 0 / 0), numbers(3, math.huge)}, expect = {{0 / 0}}, batch = false}

case {op = "sgd_step", name = "a group the control does not know", inputs = {f32(2), f32(2), f32(2), control {}}, attrs = {lr = 1, group = 1},
  fails = {"value", "group is 1, the control holds the rates of 1 groups"}}
case {op = "adam_step", name = "a last tensor that is no control", inputs = {f32(2), f32(2), f32(2), f32(2), f32(2)}, attrs = {lr = 1, step = 1},
  fails = {"shape", "control is a row of at least 9 numbers, this is (2)"}}

return cases
