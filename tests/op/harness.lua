--- harness.lua -- runs the cases of one op: a case states shapes, the harness supplies the rigour.
--
-- For every case, as far as it applies: gradients against finite differences in f64 on ref; forward and
-- gradients of every other backend against ref in f32 and bf16; fused against expanded; the same on
-- permuted and narrowed inputs; shapes on meta; batch 0; the same bits twice; inputs left alone.
-- SPDX-License-Identifier: Apache-2.0
local capl = require("capl")
local gen = require("gen")

local harness = {}

-- Relative to the size of the compared tensor; a case may loosen them with a reason.
local TOLERANCE = {
  f64 = 1e-6,  -- of central differences with a step of 1e-6
  f32 = 2e-5,  -- some hundred roundings of 6e-8
  bf16 = 1.6e-2, -- two roundings of 2^-8 = 3.9e-3 each, doubled
  whole = 0,   -- integers are exact
}
-- CAPL_TEST_BRIEF=1, under sanitizers: what only repeats accesses to memory is left out.
local BRIEF = os.getenv("CAPL_TEST_BRIEF") == "1"
local FD_STEP, FD_ELEMENTS = 1e-6, BRIEF and 2 or 60

-- ORDER: what capl.ops() lists, by name.
local function describe_ops()
  local by_name = {}
  for key, op in pairs(capl.ops()) do by_name[type(key) == "string" and key or op.name] = op end
  return by_name
end
harness.ops = describe_ops()

--- Backends to compare with ref: list of those that can be opened, list of reasons why others cannot.
function harness.backends()
  local list, missing = {}, {}
  for word in (os.getenv("CAPL_TEST_BACKENDS") or "cpu"):gmatch("[%w:]+") do
    local ok, err = pcall(capl.tensor, 1, {device = word})
    if not ok then missing[#missing + 1] = tostring(err) elseif word ~= "ref" then list[#list + 1] = word end
  end
  return list, missing
end

---- values ------------------------------------------------------------------------------------

local function flatten(nested, out)
  if type(nested) ~= "table" then
    out[#out + 1] = nested
    return out
  end
  for _, v in ipairs(nested) do flatten(v, out) end
  return out
end

local function values_of(t) return flatten(t:tolist(), {}) end

local function nest(values, size, dim, at)
  if dim > #size then return values[at.i], at end
  local row = {}
  for k = 1, size[dim] do
    if dim == #size then
      row[k] = values[at.i]
      at.i = at.i + 1
    else
      row[k] = nest(values, size, dim + 1, at)
    end
  end
  return row
end

local function make(values, size, dtype, device)
  local options = {dtype = dtype, device = device}
  if gen.count(size) == 0 then return capl.zeros(size, options) end
  return capl.tensor(nest(values, size, 1, {i = 1}), options)
end

local function shape_text(size) return "(" .. table.concat(size, ",") .. ")" end

---- inputs ------------------------------------------------------------------------------------

-- dtype of an input in a run: fixed ones stay, but f32 parameters are f64 in an f64 run.
local function dtype_in(input, run_dtype)
  if input.kind == "whole" then return input.dtype end
  if run_dtype == "f64" then return "f64" end
  return input.dtype or run_dtype
end

local function draw(case, sizes)
  local next, all = gen.stream(case.seed), {}
  for i, input in ipairs(case.inputs) do
    local size, values = sizes and sizes[i] or (input and input.size), {}
    for k = 1, input and gen.count(size) or 0 do values[k] = input.value(next, k) end
    all[i] = input and {values = values, size = size} or false
  end
  return all
end

local function wants_gradient(case, i)
  local input, info = case.inputs[i], harness.ops[case.op]
  if not input or input.kind ~= "float" or input.diff == false then return false end
  return info.differentiable and not (case.writes and case.writes[i])
end

---- running one case --------------------------------------------------------------------------

-- The same values in another memory order, with the history kept: x -> reversed dims, copied, reversed back.
local function permuted(x)
  local n, dims = #x.shape, {}
  if n < 2 then return x end
  for d = 1, n do dims[d] = n + 1 - d end
  return capl.op.permute(capl.op.contiguous(capl.op.permute(x, {dims = dims})), {dims = dims})
end

-- The same values inside a larger tensor: x beside itself in its last dim, cut back.
local function narrowed(x)
  local n = #x.shape
  if n == 0 then return x end
  local wide = capl.op.concat(x, x, {dim = n})
  return capl.op.narrow(wide, {dim = n, start = x.shape[n] + 1, length = x.shape[n]})
end

local LAYOUTS = {permuted = permuted, narrowed = narrowed}

-- The same values as the result of a matrix product, which wants the gradient of its result in the dtype of the result.
local function multiplied(x)
  local one = capl.ones({1, 1}, {dtype = x.dtype, device = x.device})
  return capl.op.reshape(capl.op.linear(capl.op.reshape(x, {size = {-1, 1}}), one), {size = x.shape})
end

-- Inputs left out are nil; the attributes, if any, come last.
local function call(case, inputs)
  local list, n = {}, #case.inputs
  for i = 1, n do list[i] = inputs[i] or nil end
  if case.attrs and next(case.attrs) then
    n = n + 1
    list[n] = case.attrs
  end
  return {capl.op[case.op](unpack(list, 1, n))}
end

-- Weights of the outputs in the loss: fixed per case, so that every element of every output counts.
local function loss_weights(case, k, size, plain)
  local next, w = gen.stream(case.seed + 7919 * k), {}
  for i = 1, gen.count(size) do w[i] = plain and 1 or 0.25 + next() end
  return w
end

local function backward(case, outputs, carries, device, plain)
  local loss
  for k, y in ipairs(outputs) do
    if carries[k] then
      local w = make(loss_weights(case, k, y.shape, plain), y.shape, y.dtype, device)
      local part = capl.op.sum(capl.op.mul(y, w))
      loss = loss and capl.op.add(loss, part) or part
    end
  end
  if loss then loss:backward() end
  return loss ~= nil
end

--- Runs a case once: {outputs = lists of values, sizes, inputs after the call, grads by input}.
-- how: {layout = "permuted"|"narrowed"|nil, multiplied = inputs that want a gradient are results of a matrix product,
-- grad = whether to run backward, plain = the loss is the plain sum, brief = what became of the inputs is not asked}.
local function run(case, device, dtype, drawn, how)
  how = how or {}
  local leaves, inputs, result = {}, {}, {dtype = dtype, outputs = {}, sizes = {}, dtypes = {}, carries = {}, after = {}, grads = {}}
  for i, input in ipairs(case.inputs) do
    if input then
      leaves[i] = make(drawn[i].values, drawn[i].size, dtype_in(input, dtype), device)
      if how.grad and wants_gradient(case, i) then leaves[i]:requires_grad_() end
      inputs[i] = how.layout and LAYOUTS[how.layout](leaves[i]) or leaves[i]
      if how.multiplied and leaves[i].requires_grad then inputs[i] = multiplied(leaves[i]) end
    end
  end
  local outputs = call(case, inputs)
  for k, y in ipairs(outputs) do
    result.sizes[k], result.dtypes[k], result.carries[k] = y.shape, y.dtype, y.requires_grad
    if device ~= "meta" then result.outputs[k] = values_of(y) end
  end
  if device == "meta" then return result end
  for i in ipairs(how.brief and {} or case.inputs) do
    if inputs[i] then result.after[i] = values_of(inputs[i]) end
  end
  if how.grad then
    result.walked = backward(case, outputs, result.carries, device, how.plain)
    for i in ipairs(case.inputs) do
      local grad = leaves[i] and leaves[i].grad
      if grad then result.grads[i] = values_of(grad) end
    end
  end
  return result
end

-- What several checks of a case begin with is run once: the case as drawn, its loss walked back where it has one.
-- Only the latest case is kept: busted takes them one after the other.
local latest = {}

local function known(case)
  if latest.case ~= case then latest = {case = case, drawn = draw(case), runs = {}} end
  return latest
end

local function drawn_once(case) return known(case).drawn end

local function run_once(case, device, dtype)
  local runs, key = known(case).runs, device .. " " .. dtype
  runs[key] = runs[key] or run(case, device, dtype, drawn_once(case), {grad = harness.ops[case.op].differentiable})
  return runs[key]
end

---- comparing ---------------------------------------------------------------------------------

-- Errors below tolerance * the tensor's typical size do not count: cancellation makes small elements of
-- large terms. NaN equals NaN, infinities equal themselves.
local function scale_of(values)
  local sum, n = 0, 0
  for _, v in ipairs(values) do
    if v == v and math.abs(v) < math.huge then sum, n = sum + v * v, n + 1 end
  end
  return n > 0 and math.sqrt(sum / n) or 0
end

local function compare(what, got, want, tolerance, fail)
  if #got ~= #want then return fail("%s has %d elements, expected %d", what, #got, #want) end
  local scale = scale_of(want)
  for i = 1, #want do
    local g, w = got[i], want[i]
    local same = g == w or (g ~= g and w ~= w)
    if not same and not (math.abs(g - w) <= tolerance * (math.abs(w) + scale)) then
      return fail("%s[%d] is %.9g, expected %.9g (tolerance %g, size of the whole %.3g)", what, i, g, w, tolerance, scale)
    end
  end
end

-- of: the case: reserve, a set of outputs that only the same backend's gradient reads, of which sizes alone are compared;
-- low, one of outputs that a backend may give in the 16 bits of the inputs where ref gives f32.
local function compare_runs(got, want, tolerance, fail, of)
  local reserve, low = of and of.reserve, of and of.low
  for k = 1, #want.outputs do
    if not (reserve and reserve[k]) then
      compare("output " .. k, got.outputs[k], want.outputs[k], tolerance, fail)
      local same = got.dtypes[k] == want.dtypes[k] or low and low[k] and got.dtypes[k] == got.dtype
      if not same then fail("output %d is %s, expected %s", k, got.dtypes[k], want.dtypes[k]) end
    end
    if shape_text(got.sizes[k]) ~= shape_text(want.sizes[k]) then
      fail("output %d is %s, expected %s", k, shape_text(got.sizes[k]), shape_text(want.sizes[k]))
    end
  end
  for i, values in pairs(want.after) do compare("input " .. i .. " afterwards", got.after[i], values, tolerance, fail) end
  for i, values in pairs(want.grads) do
    if not got.grads[i] then return fail("gradient of input %d is missing", i) end
    compare("gradient of input " .. i, got.grads[i], values, tolerance, fail)
  end
end

-- f16 keeps three bits more than bf16.
local tolerance_of
function tolerance_of(case, dtype)
  if dtype == "f16" and not (case.tolerance and case.tolerance.f16) then return tolerance_of(case, "bf16") / 8 end
  return case.tolerance and case.tolerance[dtype] or TOLERANCE[dtype]
end

---- the checks --------------------------------------------------------------------------------

-- Weights by output; none for outputs that are no part of the loss.
local function weights_of(case, result)
  local weights = {}
  for k in ipairs(result.outputs) do
    weights[k] = result.carries[k] and loss_weights(case, k, result.sizes[k]) or nil
  end
  return weights
end

-- How the loss of a case changes between two values of one input element; weights: of the outputs that are part of
-- the loss. Differences are taken output by output: the difference of two large sums would drown in rounding.
local function loss_difference(case, weights, drawn, values, e, above, below)
  local x, difference = values[e], 0
  values[e] = above
  local high = run(case, "ref", "f64", drawn, {brief = true})
  values[e] = below
  local low = run(case, "ref", "f64", drawn, {brief = true})
  values[e] = x
  for k, w in pairs(weights) do
    for i, v in ipairs(high.outputs[k]) do difference = difference + w[i] * (v - low.outputs[k][i]) end
  end
  return difference
end

local function slope(case, weights, drawn, i, e)
  local x = drawn[i].values[e]
  local step = FD_STEP * math.max(1, math.abs(x))
  return loss_difference(case, weights, drawn, drawn[i].values, e, x + step, x - step) / (2 * step)
end

local checks = {}

function checks.finite_differences(case, fail)
  local drawn, analytic = draw(case), run_once(case, "ref", "f64")
  if not analytic.walked then return fail("no gradient was recorded") end
  local weights = weights_of(case, analytic)
  for i in ipairs(case.inputs) do
    if wants_gradient(case, i) then
      local grad, n = analytic.grads[i], #drawn[i].values
      if not grad then return fail("input %d got no gradient", i) end
      local scale, stride = scale_of(grad), math.max(1, math.ceil(n / FD_ELEMENTS))
      for e = 1, n, stride do
        local numeric = slope(case, weights, drawn, i, e)
        if not (math.abs(numeric - grad[e]) <= tolerance_of(case, "f64") * (1 + math.abs(grad[e]) + scale)) then
          return fail("gradient of input %d, element %d is %.9g, finite differences give %.9g", i, e, grad[e], numeric)
        end
      end
    end
  end
end

-- In f64 on ref, f32 elsewhere.
-- expect = {output 1, output 2, after = {[input] = values}, grads = {[input] = values, of the outputs' sum}}
function checks.expected(case, fail, device)
  local expect, tolerance = case.expect, case.expect.tolerance or 1e-6
  local dtype = device == "ref" and "f64" or "f32"
  local result = run(case, device, dtype, draw(case), {grad = expect.grads ~= nil, plain = true})
  for k, values in ipairs(expect) do compare("output " .. k, result.outputs[k], values, tolerance, fail) end
  for i, values in pairs(expect.after or {}) do compare("input " .. i .. " afterwards", result.after[i], values, tolerance, fail) end
  for i, values in pairs(expect.grads or {}) do compare("gradient of input " .. i, result.grads[i] or {}, values, tolerance, fail) end
end

function checks.inputs_unharmed(case, fail)
  for i, values in pairs(run_once(case, "ref", "f64").after) do
    if not (case.writes and case.writes[i]) then compare("input " .. i .. " afterwards", values, drawn_once(case)[i].values, 0, fail) end
  end
end

function checks.meta_shapes(case, fail)
  local want, got = run_once(case, "ref", "f32"), run(case, "meta", "f32", drawn_once(case))
  for k, size in ipairs(want.sizes) do
    if shape_text(got.sizes[k]) ~= shape_text(size) or got.dtypes[k] ~= want.dtypes[k] then
      fail("output %d is %s %s on meta, %s %s on ref", k, shape_text(got.sizes[k]), got.dtypes[k], shape_text(size), want.dtypes[k])
    end
  end
end

function checks.against_ref(case, fail, device, dtype)
  compare_runs(run_once(case, device, dtype), run_once(case, "ref", dtype), tolerance_of(case, dtype), fail, case)
end

-- On a GPU the same bits are promised for deterministic = true only.
function checks.twice_the_same(case, fail, device, dtype)
  local function again()
    return run(case, device, dtype, drawn_once(case), {grad = harness.ops[case.op].differentiable})
  end
  local asked = device:find("^cuda") ~= nil
  if asked then capl.deterministic(true) end
  local fine, first, second = pcall(function()
    return again(), asked and not BRIEF and again() or run_once(case, device, dtype)
  end)
  if asked then capl.deterministic(false) end
  if not fine then error(first, 0) end
  if not (asked and BRIEF) then compare_runs(first, second, 0, fail) end
end

function checks.any_layout(case, fail, device, dtype)
  local drawn, grad = drawn_once(case), harness.ops[case.op].differentiable
  local plain = run_once(case, device, dtype)
  for layout in pairs(LAYOUTS) do
    local function fail_layout(...) fail("%s inputs: %s", layout, string.format(...)) end
    local tolerance = device == "ref" and 1e-12 or tolerance_of(case, dtype)
    if device == "ref" and dtype ~= "f64" then tolerance = tolerance_of(case, dtype) / 4 end
    compare_runs(run(case, device, dtype, drawn, {grad = grad, layout = layout}), plain, tolerance, fail_layout)
  end
end

-- A 16-bit input made by another op hands that op a 16-bit gradient, also where it was broadcast and its gradient summed.
function checks.made_inputs(case, fail, dtype)
  local made = run(case, "ref", dtype, drawn_once(case), {grad = true, multiplied = true})
  compare_runs(made, run_once(case, "ref", dtype), tolerance_of(case, dtype), fail)
end

function checks.empty_batch(case, fail, device)
  local sizes = {}
  for i, input in ipairs(case.inputs) do
    sizes[i] = input and {unpack(input.size)}
    for _, b in ipairs(case.batch or {1}) do
      if b == i and input and #sizes[i] > 0 then sizes[i][1] = 0 end
    end
  end
  local drawn, grad = draw(case, sizes), harness.ops[case.op].differentiable
  local empty = run(case, device, "f32", drawn, {grad = grad})
  if device == "ref" then return end
  compare_runs(empty, run(case, "ref", "f32", drawn, {grad = grad}), TOLERANCE.f32, fail, case)
end

function checks.fails(case, fail, device)
  local ok, err = pcall(run, case, device, "f32", draw(case))
  if ok then return fail("no error; expected %s: %s", case.fails[1], case.fails[2]) end
  local code, text = type(err) == "table" and err.code or "lua", tostring(type(err) == "table" and err.message or err)
  if code ~= case.fails[1] or not text:find(case.fails[2], 1, true) then
    fail("error is %s: %s; expected %s: %s", code, text, case.fails[1], case.fails[2])
  end
end

--- A case's inputs as tensors, false where one is left out, and the function that calls the op with them -> outputs.
function harness.forward(case, device, dtype)
  local drawn, inputs = draw(case), {}
  for i, input in ipairs(case.inputs) do
    inputs[i] = input and make(drawn[i].values, drawn[i].size, dtype_in(input, dtype), device)
  end
  return inputs, function() return call(case, inputs) end
end

---- cases to tests ----------------------------------------------------------------------------

local KNOWN = {op = true, name = true, inputs = true, attrs = true, tolerance = true, because = true, batch = true,
  writes = true, expect = true, fails = true, seed = true, dtypes = true, only = true, index = true, reserve = true, low = true,
  backends = true}

local function hash(text)
  local h = 5381
  for i = 1, #text do h = (h * 33 + text:byte(i)) % 2147483647 end
  return h
end

local function set_of(list)
  if not list then return nil end
  local set = {}
  for _, v in ipairs(list) do set[v] = true end
  return set
end

-- Those that have the op of the case.
local function backends_of(case)
  local list = harness.backends()
  if not case.backends then return list end
  local some, set = {}, set_of(case.backends)
  for _, device in ipairs(list) do
    if set[device] then some[#some + 1] = device end
  end
  return some
end

--- Checks and completes a case as written in its file.
function harness.prepare(case, family, index)
  for key in pairs(case) do assert(KNOWN[key], family .. " case " .. index .. ": unknown key '" .. tostring(key) .. "'") end
  local c = {}
  for k, v in pairs(case) do c[k] = v end
  c.op = c.op or family
  assert(harness.ops[c.op], family .. " case " .. index .. ": there is no op '" .. c.op .. "'")
  assert(not c.tolerance or c.because, c.op .. " case " .. index .. ": a tolerance needs a reason in 'because'")
  c.inputs = {}
  for i, input in ipairs(case.inputs) do c.inputs[i] = gen.input(input) end
  c.writes, c.reserve, c.low = set_of(case.writes), set_of(case.reserve), set_of(case.low)
  c.index = index
  c.name = ("%s %d%s"):format(c.op, index, case.name and ": " .. case.name or "")
  c.seed = tonumber(os.getenv("CAPL_SEED")) or case.seed or hash(c.op .. index) % 100000 + 1
  return c
end

local function has_floats(case)
  for _, input in ipairs(case.inputs) do
    if input and input.kind == "float" then return true end
  end
  return false
end

local function has_gradient(case)
  for i in ipairs(case.inputs) do
    if wants_gradient(case, i) then return true end
  end
  return false
end

-- Where bf16 is tried, f16 is too, on backends that have it. BRIEF: kernels of f16 are templates that have run in bf16.
local function dtypes_on(device, dtypes)
  if BRIEF or not device:match("^cuda") or not set_of(dtypes).bf16 or set_of(dtypes).f16 then return dtypes end
  local all = {unpack(dtypes)}
  all[#all + 1] = "f16"
  return all
end

--- The tests of one prepared case: calls test(title, fn(fail)) for each.
function harness.tests(case, test)
  local function add(title, check, ...)
    if case.only and not set_of(case.only)[check] then return end
    local args = {...}
    test(title, function(fail) checks[check](case, fail, unpack(args)) end)
  end
  local dtypes = case.dtypes or (has_floats(case) and {"f32", "bf16"}) or {"whole"}
  if case.fails then
    for _, device in ipairs(case.fails.on or {"ref", unpack((harness.backends()))}) do
      add("refuses wrong input on " .. device, "fails", device)
    end
    return
  end
  if case.expect then
    for _, device in ipairs(case.expect.on or {"ref", unpack((harness.backends()))}) do
      add("gives the expected values on " .. device, "expected", device)
    end
  end
  add("leaves its inputs alone", "inputs_unharmed")
  if os.getenv("CAPL_TEST_REF") ~= "0" then -- 0: ref and meta have been tested elsewhere, only the backends now
    if has_gradient(case) then add("agrees with finite differences", "finite_differences") end
    if has_gradient(case) and set_of(dtypes).bf16 then add("gives 16-bit inputs 16-bit gradients", "made_inputs", "bf16") end
    add("has the same shapes on meta", "meta_shapes")
    add("takes any layout on ref", "any_layout", "ref", has_floats(case) and "f64" or "whole")
    if case.batch ~= false then add("takes an empty batch on ref", "empty_batch", "ref") end
  end
  for _, device in ipairs(backends_of(case)) do
    for _, dtype in ipairs(dtypes_on(device, dtypes)) do
      add(("agrees with ref on %s in %s"):format(device, dtype), "against_ref", device, dtype)
      add(("gives the same bits twice on %s in %s"):format(device, dtype), "twice_the_same", device, dtype)
      add(("takes any layout on %s in %s"):format(device, dtype), "any_layout", device, dtype)
    end
    if case.batch ~= false then add("takes an empty batch on " .. device, "empty_batch", device) end
  end
end

return harness
