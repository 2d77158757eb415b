-- precision_counts.lua: the dtype in which the convolutions, linear layers and matmuls of a step ran.
--
-- Backends count these calls by dtype. The requested precision is compared with the counts before the first
-- step changes a weight, and printed after it.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local precision_counts = {}

local types = {"bf16", "fp16", "tf32", "fp32"}

--- Matmul and convolution calls since the process started, by dtype: {bf16 =, fp16 =, tf32 =, fp32 =}
function precision_counts.all()
  local counters, out = core.counters(), {}
  for _, name in ipairs(types) do out[name] = counters[name .. "_kernels"] end
  return out
end

--- The calls since then. before: of precision_counts.all() when the step began
function precision_counts.since(before)
  local out = precision_counts.all()
  for name, count in pairs(out) do out[name] = count - (before[name] or 0) end
  return out
end

--- "22 bf16 matmul/conv calls, 2 fp32 matmul/conv calls"; nil when there were none.
function precision_counts.text(counts)
  local parts = {}
  for _, name in ipairs(types) do
    if counts[name] > 0 then
      parts[#parts + 1] = ("%d %s matmul/conv call%s"):format(counts[name], name, counts[name] > 1 and "s" or "")
    end
  end
  return parts[1] and table.concat(parts, ", ")
end

--- The narrowest dtype of these calls: the precision of a run that sets none.
function precision_counts.lowest(counts)
  for _, name in ipairs(types) do
    if (counts or {})[name] and counts[name] > 0 then return name end
  end
  return "fp32"
end

local function hint(precision, counts)
  if precision == "tf32" and counts.fp32 > 0 then
    return 'these layers have no TF32 implementation on this GPU; precision = "auto" chooses what has'
  end
  return "put the forward pass into capl.autocast(p.precision, function() … end)"
end

--- Raises an error when no call of the step ran in the requested dtype.
-- in   precision: "fp32", "tf32", "fp16" or "bf16"; before: as of precision_counts.since
function precision_counts.check(precision, before)
  local counts = precision_counts.since(before)
  if counts[precision] ~= 0 or not (precision ~= "fp32" or precision_counts.text(counts)) then return end
  local instead = precision_counts.text(counts)
  core.error{code = "state", hint = hint(precision, counts),
    message = ("precision = %s was requested, but no matmul or convolution of the first step used it%s; no weight " ..
    "has been changed"):format(
      precision, instead and (" (it ran %s)"):format(instead) or "")}
end

return precision_counts
