-- loss_parts.lua: what all losses share: their arguments' checks, reductions, modules of functions, and who observes
-- them.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local classes = require "module_class"
local Module = require "nn.module"

local parts = {}

--- {"reduction", "string", default = "mean"}: the option that every loss has.
parts.reduction = {"reduction", "string", default = "mean"}

--- Raises unless each value is a tensor.
function parts.tensors(fname, ...)
  for i = 1, select("#", ...) do check.arg(i, fname, "tensor", (select(i, ...))) end
end

local function shape_text(x) return "(" .. table.concat(x.shape, ",") .. ")" end

--- Raises unless a and b are of one shape.
function parts.alike(fname, a, a_name, b, b_name)
  local same = a.ndim == b.ndim
  for d = 1, a.ndim do same = same and a:size(d) == b:size(d) end
  if same then return end
  check.fail(fname, ("%s is %s, %s is %s: they must be of one shape"):format(a_name, shape_text(a), b_name,
    shape_text(b)))
end

--- a and b in the shape in which they meet.
function parts.broadcast(fname, a, a_name, b, b_name)
  local left, right, size = a.shape, b.shape, {}
  local n = math.max(#left, #right)
  for d = 1, n do
    local p, q = left[d - n + #left] or 1, right[d - n + #right] or 1
    if p ~= q and p ~= 1 and q ~= 1 then
      check.fail(fname, ("%s is %s, %s is %s: every dim must be equal or 1, from the last on"):format(a_name,
        shape_text(a), b_name, shape_text(b)))
    end
    size[d] = p == 1 and q or p
  end
  return core.op.expand(a, {size = size}), core.op.expand(b, {size = size})
end

--- x, whose values have to be from low to high. A GPU cannot raise an error: there x is NaN where one is not.
-- errs value: with the place of the first one that is not; what: "is a probability, from 0 to 1"
function parts.in_range(fname, x, name, low, high, what, hint)
  if x.device:match("^cuda") then
    local nan = core.full({}, 0 / 0, {dtype = x.dtype, device = x.device})
    return core.op.where(x:eq(x:clamp(low, high)), x, nan)
  end
  local value, at = core.outside(x, low, high)
  if value then
    local place = #at > 0 and "[" .. table.concat(at, "][") .. "]" or ""
    check.fail(fname, ("%s%s is %g: it %s"):format(name, place, value, what), hint)
  end
  return x
end

--- Reports a loss to its observer; nn/expected.lua knows what it should be at first.
function parts.computed(name, value, x, target, o)
  if observer.on_loss_value then observer.on_loss_value(name, value, x, target, o) end
  return value
end

--- 16-bit values as f32: sums and differences of losses need the bits.
function parts.wide(x) return (x.dtype == "f16" or x.dtype == "bf16") and x:float() or x end

local reductions = {"mean", "sum", "none"}

--- each, as reduction says: its mean, its sum, or itself.
function parts.reduce(fname, each, reduction)
  check.one_of(fname, "reduction", reduction, reductions)
  return reduction == "mean" and each:mean() or reduction == "sum" and each:sum() or each
end

--- A module that holds the options of a loss function; name without "nn.". spec.reductions: those it has, unless the
-- usual ones. inputs: how many the function takes before its options, 2 or 3; 2 unless said.
function parts.module(name, fn, spec, inputs)
  local class = classes.class(name, Module)
  class.runs, class.spec = fn, spec -- for its docstring
  function class:init(...)
    if select("#", ...) > 0 and (type((...)) ~= "table" or core.is_tensor((...))) then
      check.fail("nn." .. name, "options are given by name")
    end
    self.options = check.arguments("nn." .. name, spec, ...)
    local reduction = self.options.reduction
    if reduction then check.one_of("nn." .. name, "reduction", reduction, spec.reductions or reductions) end
  end
  class.inputs = inputs or 2
  if class.inputs == 2 then
    function class:forward(a, b) return (fn(a, b, self.options)) end
  else
    function class:forward(a, b, c) return (fn(a, b, c, self.options)) end
  end
  return class
end

--- Labels of classes as whole numbers with ignored ones as class 0, and true where they are not ignored.
function parts.labels(fname, labels, ignore_index)
  if labels.dtype == "u8" then labels = labels:int() end
  if labels.dtype ~= "i32" and labels.dtype ~= "i64" then
    check.fail(fname, ("labels must be i32, i64 or u8, they are %s"):format(labels.dtype))
  end
  local counts = labels:ne(ignore_index)
  return labels * counts:to(labels.dtype), counts
end

--- x (N, K, …) at the class of each label (N, …): (N, …).
function parts.at_label(x, labels)
  return core.op.gather(x, labels:unsqueeze(2), {dim = 2}):squeeze(2)
end

return parts
