-- capl: what `require "capl"` gives, and the global capl of recipes.
--
-- Tensors and their settings are here; layers in capl.nn, optimizers in capl.optim, data in capl.data.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local missing = require "missing"
local precision = require "precision"
local readonly = require "readonly"
local tensor = require "tensor"

local capl = {version = core.version(), op = missing.watch("capl.op", core.op)}

-- ---- tensors ----

--- capl.tensor(number or nested table[, {dtype, device, requires_grad}])
-- eg  capl.tensor{{1, 2}, {3, 4}}:size(1)  --> 2
capl.tensor = core.tensor
--- capl.zeros(size, …[, {dtype, device, requires_grad}]), and so ones, empty, rand (0 to 1), randn (standard normal).
-- rand and randn take {seed = n, stream = {a, b, c}} too: the numbers of that stream, whenever they are drawn.
-- eg   capl.ones(2, 3, {dtype = "i32"}):sum():item()  --> 6
capl.zeros, capl.ones, capl.empty, capl.rand, capl.randn = core.zeros, core.ones, core.empty, core.rand, core.randn
--- capl.full({size, …}, value[, options])
-- eg   capl.full({2, 2}, 7):get(2, 2)  --> 7
capl.full = core.full
--- capl.arange(stop) = 0 … stop-1; capl.arange(start, stop[, step][, options]). i64 for whole numbers
-- eg   capl.arange(2, 10, 4):tolist()[2]  --> 6
capl.arange = core.arange
--- capl.is_tensor(value): whether it is one.
-- eg   capl.is_tensor(3)  --> false
capl.is_tensor = core.is_tensor
for name, fn in pairs(tensor) do capl[name] = fn end

-- ---- settings ----

--- capl.device([name]): the default device, set if given: "cpu", "cuda:0", "ref" (slow, exact), "meta" (shapes only),
-- "auto" (a GPU where one works, else cpu).
function capl.device(name) return (core.device(name)) end

--- capl.devices() -> list of {name, available, description or why}
-- eg   capl.devices()[1].name  --> cpu
function capl.devices()
  local out = {}
  for i, name in ipairs(require("devices").names()) do
    local info, why = core.device_info(name)
    out[i] = {name = name, available = info ~= nil, why = why, description = info and info.description}
  end
  return out
end

--- capl.deterministic([on]) -> whether the same seed gives the same bits on the same device; set if given. Off at
-- start: a GPU may then take what is fastest. The CPU is always so. Also a setting of every recipe: --deterministic.
function capl.deterministic(on)
  if on ~= nil then check.arg(1, "deterministic", "boolean", on) end
  return require("determinism").deterministic(on)
end

--- capl.manual_seed(n): sets the seed of all random numbers from here on. 42 at start.
function capl.manual_seed(seed)
  core.rng(check.arg(1, "manual_seed", "number", seed))
  core.stream_owner(0) -- ranks that have trained draw the same numbers again
end

--- capl.precision(p) -> the type that autocast(p, …) computes in, why, and the name of the precision.
-- in   "bf16", "fp16", "fp32", "tf32", "auto", or {cpu = …, cuda = …}
-- errs value: unknown name; unsupported: one that this device does not have
capl.precision = precision.read
--- capl.autocast(precision, fn, …) -> fn's results: matrix products and convolutions in 16 bit, sums in f32. With
-- "tf32" they stay f32 and GPUs round their factors to TF32; without, they never do.
capl.autocast = precision.autocast

--- capl.no_grad(fn, …) -> fn's results, computed without keeping a graph
-- eg   capl.no_grad(function() return nn.Linear(2, 1)(capl.ones(1, 2)) end).requires_grad  --> false
capl.no_grad = core.no_grad
--- capl.scope(fn, …) -> fn's results; every other tensor made meanwhile is released at once, unless :keep()ed
-- eg   capl.scope(function() local a = capl.ones(1000); return a:sum() end):item()  --> 1000
capl.scope = core.scope

--- capl.fuse(fn) -> a function of up to 7 tensors that gives what fn gives, gradients included, in one pass over
-- memory: one kernel on a GPU, op by op elsewhere. fn may have elementwise ops and numbers only; it is looked at once
-- per dtypes and shapes. A number that changes from call to call belongs into a tensor without dims.
-- capl.fuse([on]) -> whether Sequential joins batch norm, ReLU and pooling into one op, and batch norm joins a ReLU
-- or SiLU that is the next to read its result in a forward() of your own; set if given.
-- in   fn: e.g. a weighted loss: capl.fuse(function(x, y, w) return (x - y) ^ 2 * w end)(x, y, w):mean()
-- errs value: another op, or a tensor that is no argument, with the recipe's line
-- eg   capl.fuse(function(x) return x * x:sigmoid() end)(capl.zeros(2, 3)):size(2)  --> 3
function capl.fuse(on)
  if type(on) == "function" then return require("fuse").new(on) end
  if on ~= nil then observer.fuse = check.arg(1, "fuse", "boolean", on) end
  return observer.fuse
end

-- ---- metrics ----

--- capl.memory([device]) -> {live, peak, cached (free, kept for reuse), captured (free, of captured steps), limit (0 =
-- none), allocations, reuses} in bytes; on a GPU card_free and card_total too, as the driver says: other programs count
-- eg   capl.memory("cpu").live >= 0  --> true
capl.memory = core.memory
--- capl.memory_reset_peak([device]): resets the peak to the memory in use now.
capl.memory_reset_peak = core.memory_reset_peak
--- capl.memory_limit(bytes[, device]): the memory limit: tensors beyond it raise a "nomem" error; 0 = no limit.
capl.memory_limit = core.memory_limit
--- capl.counters() -> how often each feature was active: bf16_kernels, fp32_kernels, fused_ops, ref_fallbacks …
capl.counters = core.counters
--- capl.own_kernels() -> {conv2d_grad_w = {own = 1, total = 7}, …}: different products that ran on a GPU, and how many
-- of them on slow own kernels, for want of an engine of cuDNN or an algorithm of cuBLASLt; {} on other devices
capl.own_kernels = core.own_kernels
--- capl.clock() -> seconds, for differences
-- eg   capl.clock() > 0  --> true
capl.clock = core.clock

local ELAPSED = 4092 -- the first of two marks; train/timing.lua takes those below, loaders those behind

--- capl.elapsed(fn) -> seconds of the default device for the work that fn() launches, between two events of its queue.
-- Waits for the second one. On a processor the host's clock.
-- eg   capl.elapsed(function() return capl.ones(10, 10):sum() end) >= 0  --> true
function capl.elapsed(fn)
  check.arg(1, "elapsed", "function", fn)
  core.mark(ELAPSED)
  fn()
  core.mark(ELAPSED + 1)
  return core.between(ELAPSED, ELAPSED + 1)
end

--- capl.profile(fn, …) -> list of kernel runs {op, label, backend, seconds, bytes, macs, dtype, shape}, fn's results.
-- label is the layer's name in the model given to capl.model, else its class
function capl.profile(fn, ...)
  check.arg(1, "profile", "function", fn)
  local labels = require "nn.labels"
  return labels.with(observer.model, core.profile, fn, ...)
end

--- capl.ops() -> list of {name, ins, outs, attrs, doc, amp, fused, differentiable, view, has}
-- eg   #capl.ops() > 100  --> true
capl.ops = core.ops

-- ---- the run ----

--- capl.model(model, {output = "text", charset = "0-9A-Z", length = 4}): registers the model to train. Its output
-- (N,T,K) has a character of the charset at each of T places; with decoding = "ctc" T time steps for a text of any
-- length, K being the charset and a blank behind it. "class": (N,K), a score of each class; "classes": (N,K), a logit
-- of each, of which an image has those whose sigmoid is at least threshold (0.5); "mask": (N,K,H,W), or (N,1,H,W) of
-- two classes; "points": (N,P,2), x and y in px of the points called names, or (N,P,3) with the logit of being visible,
-- or with decoding = "heatmap" (N,P,H,W); "boxes": (N,B,4+K); "numbers": (N,D), which times std plus mean are the
-- numbers called names; "series": (N,T,D), steps = T; "image": (N,C,H,W). A model that returns a table of named tensors
-- has outputs = {gap = {kind = "points", names = {"gap"}}, …} with the same options each.
-- opts inputs = list of the names of a batch's fields that the model is called with: one as it is, several as a table
--      by name; or function(batch) -> what it is called with; without it batch.image, else batch.input
-- errs value: unknown option, output or decoding, CTC without a charset, points without names
-- eg capl.model(net, {outputs = {gap = {kind = "points", names = {"gap"}}, angle = {kind = "numbers", names = {"a"}}}})
function capl.model(model, opts)
  if not require("module_class").is_module(model) then check.arg(1, "model", "module", model) end
  require("fields").check(opts or {})
  require("forward").check_inputs((opts or {}).inputs)
  observer:set_model(model, opts or {})
  return model
end

--- capl.error{code, op, message, hint}: raises an error that names recipe line and layer.
capl.error = core.error
--- capl.is_error(value) -> whether it is one of capl's error tables
-- eg   capl.is_error("boom")  --> false
capl.is_error = core.is_error

-- ---- parts that are loaded when first used ----

local lazy = require "lazy"

local loaded = {}

return setmetatable(capl, {
  __index = function(_, key)
    if loaded[key] ~= nil then return loaded[key] end
    local where = lazy[key]
    if where and core.has_module(where[1]) then
      local value = require(where[1])
      if where[2] then value = value[where[2]] end
      loaded[key] = readonly.late(value)
      return loaded[key]
    end
    missing.fail("capl", capl, key, lazy)
  end,
})
