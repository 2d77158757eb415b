-- Ops on a GPU beside the same ops on ref, with inputs large enough for many blocks of threads.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local op = capl.op
local support = {}

--- "4x64x20x33"
local function text(size) return table.concat(size, "x") end

--- What may differ: f32 sums in another order; a rounding to 16 bits of values that differ so little.
support.tolerance = {f32 = 1e-5, f16 = 1e-3, bf16 = 8e-3}

--- Normal numbers around mean, on ref, as the dtype holds them. The same seed gives the same numbers.
function support.normal(size, dtype, seed, mean, std)
  capl.manual_seed(seed or 1)
  return (capl.randn(size, {device = "ref"}) * (std or 1) + (mean or 0)):to(dtype)
end

--- Whole numbers lo .. hi, on ref.
function support.whole(size, dtype, seed, lo, hi)
  capl.manual_seed(seed or 1)
  return (capl.rand(size, {device = "ref"}) * (hi - lo + 1) + (lo - 0.5)):to("i32"):clamp(lo, hi):to(dtype)
end

--- The first number of a tensor on any device.
local function number(t) return t:to("cpu"):item() end

--- The largest difference of an element, by its own size and the usual one together; huge where one is NaN or infinite
--- and the other is not the same.
function support.distance(got, want)
  got, want = got:to("cpu"):float(), want:to("cpu"):float()
  if want:numel() == 0 then return text(got.shape) == text(want.shape) and 0 or math.huge end
  local zeros = capl.zeros(want.shape, {device = "cpu"})
  local finite = op.lt(op.abs(want), zeros + math.huge)
  local size = op.where(finite, want, zeros)
  local usual = math.sqrt(number(op.mean(op.mul(size, size)))) + 1e-30
  local off = op.div(op.abs(op.sub(op.where(finite, got, zeros), size)), op.abs(size) + usual)
  local both_nan = op.mul(op.ne(got, got):float(), op.ne(want, want):float())
  local same = op.add(op.eq(got, want):float(), both_nan)
  local worst = number(op.amax(op.where(finite, off, op.affine(same, {scale = -1, shift = 1}))))
  return worst == worst and worst or math.huge
end

--- Elements that differ.
function support.different(got, want)
  return number(op.sum(op.ne(got:to("cpu"):float(), want:to("cpu"):float()):float()))
end

--- Runs op name on copies of the inputs on a device: its outputs, and the inputs afterwards.
-- rearrange: what to do with an input on its device first.
function support.run(device, name, inputs, attrs, rearrange)
  local list = {}
  for i, x in ipairs(inputs) do
    list[i] = x:to(device):clone()
    if rearrange then list[i] = rearrange(list[i], i) end
  end
  local n = #list
  list[n + 1] = attrs
  local outputs = {op[name](unpack(list, 1, n + 1))}
  list[n + 1] = nil
  return outputs, list
end

--- Compares an op on cuda with ref: every output, and every input afterwards.
-- tolerances: by output; nil is that of the outputs' dtype, 0 is equality.
function support.same(name, inputs, attrs, tolerances, rearrange)
  local want, kept = support.run("ref", name, inputs, attrs)
  local got, written = support.run("cuda", name, inputs, attrs, rearrange)
  for k, y in ipairs(want) do
    local tolerance = tolerances and tolerances[k] or support.tolerance[y.dtype] or 0
    local distance = support.distance(got[k], y)
    assert(distance <= tolerance, ("%s: output %d is off by %.3g, allowed are %g"):format(name, k, distance, tolerance))
  end
  for i, x in ipairs(kept) do
    local distance = support.distance(written[i], x)
    assert(distance <= 1e-5, ("%s: input %d afterwards is off by %.3g"):format(name, i, distance))
  end
  return got, want
end

support.text = text

return support
