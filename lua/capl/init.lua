-- capl: what `require "capl"` gives, and the global capl of recipes.
--
-- Tensors and their settings are here; layers in capl.nn, optimisers in capl.optim, data in capl.data.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local hooks = require "hooks"
local tensor = require "tensor"

local capl = {version = core.version(), op = core.op, nn = require "nn", optim = require "optim"}

-- ---- tensors ----

--- capl.tensor(number or nested table[, {dtype, device, requires_grad}])
-- eg  capl.tensor{{1, 2}, {3, 4}}:size(1)  --> 2
capl.tensor = core.tensor
--- capl.zeros(size, …[, {dtype, device, requires_grad}]), and so ones, empty, rand (0 to 1), randn (standard normal).
-- rand and randn take {seed = n, stream = {a, b, c}} too: the numbers of that stream, whenever they are drawn.
capl.zeros, capl.ones, capl.empty, capl.rand, capl.randn = core.zeros, core.ones, core.empty, core.rand, core.randn
--- capl.full({size, …}, value[, options])
capl.full = core.full
--- capl.arange(stop) = 0 … stop-1; capl.arange(start, stop[, step][, options]). i64 for whole numbers
capl.arange = core.arange
--- capl.is_tensor(value)
capl.is_tensor = core.is_tensor
for name, fn in pairs(tensor) do capl[name] = fn end

-- ---- settings ----

--- capl.device([name]): the default device, set if given: "cpu", "cuda:0", "ref" (slow, exact), "meta" (shapes only),
-- "auto" (a GPU where one works, else cpu).
function capl.device(name) return (core.device(name)) end

--- capl.devices() -> list of {name, available, description or why}
function capl.devices()
  local out = {}
  for i, name in ipairs{"cpu", "cuda", "ref", "meta"} do
    local info, why = core.device_info(name)
    out[i] = {name = name, available = info ~= nil, why = why, description = info and info.description}
  end
  return out
end

--- capl.manual_seed(n): every random number from here on follows from n. 42 at start.
function capl.manual_seed(seed) core.rng(check.arg(1, "manual_seed", "number", seed)) end

local low_types = {bf16 = "bf16", fp16 = "f16", fp32 = "f32", f16 = "f16", f32 = "f32"}
local precision_names = {"auto", "bf16", "fp16", "fp32"}

--- capl.precision(p) -> the type that autocast(p, …) computes in, and why.
-- in   "bf16", "fp16", "fp32", "auto" (bf16 where it is faster), or {cpu = …, cuda = …}
-- errs value: unknown name; unsupported: fp16 on a CPU
function capl.precision(precision)
  local device = core.device()
  local kind = device:match("^%a+")
  if type(precision) == "table" then precision = precision[kind] or "auto" end
  if precision == "auto" then
    local info = core.device_info(device)
    return info.precision, "auto: " .. info.why
  end
  if not low_types[precision] then check.unknown("precision", "precision", precision, precision_names) end
  if low_types[precision] == "f16" and kind == "cpu" then
    core.error{code = "unsupported", op = "precision", message = "fp16 has no kernels on cpu; available: bf16, fp32",
      hint = 'use "bf16" or "auto"'}
  end
  return low_types[precision], "asked for"
end

--- capl.autocast(precision, fn, …) -> fn's results: matrix products and convolutions in 16 bit, sums in f32.
function capl.autocast(precision, fn, ...)
  return core.autocast(capl.precision(precision), check.arg(2, "autocast", "function", fn), ...)
end

--- capl.no_grad(fn, …) -> fn's results, computed without keeping a graph
capl.no_grad = core.no_grad
--- capl.scope(fn, …) -> fn's results; every other tensor made meanwhile is released at once, unless :keep()ed
capl.scope = core.scope

--- capl.fuse([on]) -> whether Sequential joins batch norm, ReLU and pooling into one op; set if given.
function capl.fuse(on)
  local settings = require "nn.settings"
  if on ~= nil then settings.fuse = check.arg(1, "fuse", "boolean", on) end
  return settings.fuse
end

-- ---- figures ----

--- capl.memory([device]) -> {live, peak, cached (free, kept for reuse), captured (free, of captured steps), limit (0 = none),
-- allocations, reuses} in bytes; on a GPU card_free and card_total too, as the driver says: other programs count
capl.memory = core.memory
--- capl.memory_reset_peak([device]): peak counts from what is in use now.
capl.memory_reset_peak = core.memory_reset_peak
--- capl.memory_limit(bytes[, device]): tensors beyond it raise a "nomem" error; 0 = no limit.
capl.memory_limit = core.memory_limit
--- capl.counters() -> how often each feature was in force: bf16_kernels, fp32_kernels, fused_ops, ref_fallbacks …
capl.counters = core.counters
--- capl.clock() -> seconds, for differences
capl.clock = core.clock

--- capl.profile(fn, …) -> list of kernel runs {op, label, backend, seconds, bytes, macs, dtype, shape}, fn's results.
-- label is the layer's name in the model given to capl.model, else its class
function capl.profile(fn, ...)
  check.arg(1, "profile", "function", fn)
  local labels = require "nn.labels"
  return labels.with(hooks.model, core.profile, fn, ...)
end

--- capl.ops() -> list of {name, ins, outs, attrs, doc, amp, fused, differentiable, view, has}
capl.ops = core.ops

-- ---- the run ----

--- capl.model(model, {output = "text", charset = "0-9A-Z", length = 4}): the model that training is about.
function capl.model(model, opts)
  if not capl.nn.is_module(model) then check.arg(1, "model", "module", model) end
  hooks.set_model(model, opts or {})
  return model
end

--- capl.error{code, op, message, hint}: raises an error that names recipe line and layer.
capl.error = core.error
--- capl.is_error(value) -> whether it is one of capl's error tables
capl.is_error = core.is_error

-- ---- parts that are loaded when first used ----

local later = {
  data = {"data"}, plot = {"plot"}, train = {"train"}, io = {"io"}, params = {"params", "params"}, choice = {"params", "choice"},
  capture = {"capture"}, distributed = {"distributed", "distributed"}, text_meter = {"run.text_meter", "new"},
  progress = {"run.progress", "new"}, final = {"run", "final"},
  run_folder = {"run", "folder"}, save_model = {"run.modelfile", "save"},
}

return setmetatable(capl, {
  __index = function(_, key)
    local where = later[key]
    if where and core.has_module(where[1]) then
      local value = require(where[1])
      if where[2] then value = value[where[2]] end
      rawset(capl, key, value)
      return value
    end
    local names = {}
    for name in pairs(capl) do names[#names + 1] = name end
    for name in pairs(later) do names[#names + 1] = name end
    table.sort(names)
    check.unknown("capl", "name", key, names)
  end,
})
