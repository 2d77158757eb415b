-- precision.lua: which types products may run in on a device, and what "auto" is there.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local precision = {
  planned = nil, -- {kind, precision, gigabytes, name} of devices that are not here: what a plan on meta takes them for
}

-- Name of a setting -> the type that autocast takes; tf32 keeps f32 tensors and rounds inside products.
local types = {bf16 = "bf16", fp16 = "f16", fp32 = "f32", tf32 = "f32", f16 = "f16", f32 = "f32"}
local full_names = {f16 = "fp16", f32 = "fp32", bf16 = "bf16"}
local all = {"auto", "bf16", "fp16", "fp32", "tf32"}
local names = {"auto", "bf16", "fp16", "fp32", "tf32", "f16", "f32"}

-- A GPU whose best type is fp16 is older than bf16 and TF32 (compute capability 8.0).
local of_gpu = {bf16 = {"bf16", "fp16", "fp32", "tf32"}, f16 = {"fp16", "fp32"}, f32 = {"fp32"}}
local of_kind = {cpu = {"bf16", "fp32"}, ref = {"bf16", "fp16", "fp32"}, meta = {"bf16", "fp16", "fp32", "tf32"}}

-- What the default device offers, as a device of that kind.
local function offers(kind)
  local info = kind == "cuda" and core.device_info((core.device()))
  return of_kind[kind] or of_gpu[info and info.precision or "f32"]
end

--- What "auto" is on the default device, and why: "bf16", "this processor …".
function precision.best()
  local info = core.device_info((core.device()))
  if not info then return "fp32", "the device is not available" end
  return full_names[info.precision], info.why
end

--- Whether the default device offers a precision, and the text of what it does offer. kind: "cpu", "cuda", "ref", "meta"
function precision.is_offered(name, kind)
  local list = offers(kind)
  name = full_names[name] or name
  for _, known in ipairs(list) do
    if known == name then return true end
  end
  return false, table.concat(list, ", ")
end

local by_device = {{"cpu", "string"}, {"cuda", "string"}, {"ref", "string"}, {"meta", "string"}}

local function of_devices(given)
  for _, name in pairs(check.options("precision", by_device, given)) do check.one_of("precision", "precision", name, names) end
  return given
end

--- capl.precision(p) -> the type that autocast(p, …) computes in, why, and the name of the precision.
-- in   "bf16", "fp16", "fp32", "tf32" (f32 whose products are rounded on the way in; GPUs from compute capability 8.0),
--      "auto" (the fastest that trains well here), or {cpu = …, cuda = …}
-- errs value: unknown name; unsupported: one that this device does not have
-- eg   capl.precision("bf16")  --> bf16
function precision.read(given)
  local kind = core.device():match("^%a+")
  if type(given) == "table" then given = of_devices(given)[kind] or "auto" end
  if given == "auto" then
    local best, why = precision.best()
    return types[best], "auto: " .. why, best
  end
  if not types[given] then check.unknown("precision", "precision", given, all) end
  local offered, list = precision.is_offered(given, kind)
  if not offered then
    core.error{code = "unsupported", op = "precision", hint = 'use "auto", or set it for one device: {cuda = "'
      .. given .. '", cpu = "auto"}', message = ("%s has no kernels on %s; available: %s"):format(given, kind, list)}
  end
  return types[given], "asked for", full_names[given] or given
end

--- The name of a precision as precision.read settles it, also for devices that are only planned.
function precision.name(given)
  local planned = precision.planned
  if planned and type(given) == "table" then given = given[planned.kind] or "auto" end
  if planned and given == "auto" then return planned.precision end
  return (select(3, precision.read(given)))
end

--- capl.autocast(precision, fn, …) -> fn's results: matrix products and convolutions in 16 bit, sums in f32. With "tf32"
-- they stay f32 and GPUs round their factors to TF32; without, they never do.
-- eg   capl.autocast("bf16", function() return nn.Linear(2, 3)(capl.ones(1, 2)) end).dtype  --> bf16
function precision.autocast(given, fn, ...)
  check.arg(2, "autocast", "function", fn)
  local low, _, name = precision.read(given)
  return core.autocast(low, name == "tf32", fn, ...)
end

return precision
