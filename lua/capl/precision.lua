-- precision.lua: the setting "precision" by device, also for devices that are only planned; and autocast.
--
-- What a name means on a device, and which names it offers, core.precision says (engine/backend/precision.c).
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"

local precision = {}

local by_device = {}
for i, backend in ipairs(core.backends()) do by_device[i] = {backend.name, "string"} end

-- What of {cpu = …, cuda = …} holds on a kind of device.
local function of_device(given, kind)
  if type(given) ~= "table" then return given end
  for _, name in pairs(check.options("precision", by_device, given)) do core.precision(name, false) end
  return given[kind] or "auto"
end

--- Name of the precision that a setting means, the type autocast computes in, and the reason of "auto".
-- in   given: as of capl.precision; device: whose, the default one when left out; a planned one stands for it
-- errs value: unknown name; unsupported: one that the device does not offer
function precision.settle(given, device)
  local planned = observer.planned
  given = of_device(given, planned and planned.kind or (device or core.device()):match("^%a+"))
  if planned and given == "auto" then return planned.precision, nil, planned.name end
  if planned then device = "meta" end -- which offers all
  return core.precision(given, device)
end

--- What "auto" is, and why: "bf16", "this processor …".
function precision.best()
  local name, _, why = precision.settle("auto")
  return name, why
end

--- capl.precision(p) -> the type that autocast(p, …) computes in, why, and the name of the precision.
-- in   "bf16", "fp16", "fp32", "tf32" (f32 whose products are rounded on the way in; GPUs from compute capability 8.0),
--      "auto" (the fastest that trains well here), or {cpu = …, cuda = …}
-- errs value: unknown name; unsupported: one that this device does not have
-- eg   capl.precision("bf16")  --> bf16
function precision.read(given)
  local device = core.device()
  given = of_device(given, device:match("^%a+"))
  local name, low, why = core.precision(given)
  return low, why and "auto: " .. why or "asked for", name
end

--- The name of a precision, also for devices that are only planned.
function precision.name(given) return (precision.settle(given)) end

--- capl.autocast(precision, fn, …) -> fn's results: matrix products and convolutions in 16 bit, sums in f32. With
-- "tf32" they stay f32 and GPUs round their factors to TF32; without, they never do.
-- eg   capl.autocast("bf16", function() return nn.Linear(2, 3)(capl.ones(1, 2)) end).dtype  --> bf16
function precision.autocast(given, fn, ...)
  check.arg(2, "autocast", "function", fn)
  local low, _, name = precision.read(given)
  return core.autocast(low, name == "tf32", fn, ...)
end

return precision
