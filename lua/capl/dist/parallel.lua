-- parallel.lua: one model on several ranks: weights that begin alike, gradients averaged while they are made.
--
-- Optimizers call it in a world of more than one rank, through dist.parallel. Each keeps its gradients in flat pieces
-- (engine/dist/buckets.c). opt:backward_step sends them during its backward pass; gradients of earlier loss:backward
-- and opt:backward calls stay here until the step and travel once with the rest. opt:step without it sends all at once.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local parameters_of = require "parameters"
local weights = require "dist.weights"

local parallel = {}

local MB = 1e6
local settings = {bucket_mb = 25, first_bucket_mb = 1}
local states = setmetatable({}, {__mode = "k"}) -- optimizer -> {buckets, order = of the parameters, names}
local spent = {steps = 0, busy = 0, waited = 0} -- of the exchange of gradients
local world -- of more than one rank

-- ---- pieces ----

-- Before it has been seen: the last layers have their gradients first.
local function backwards(n)
  local order = {}
  for i = 1, n do order[i] = n + 1 - i end
  return order
end

local function in_order(params, order)
  local out = {}
  for i, k in ipairs(order) do out[i] = params[k] end
  return out
end

-- What ranks must agree about: how many numbers of which parameters they are about to average.
local function signature(list)
  local parts = {}
  for _, p in ipairs(list) do
    if p.requires_grad then parts[#parts + 1] = ("%s(%s)"):format(p.dtype, table.concat(p.shape, ",")) end
  end
  return table.concat(parts, " ")
end

local function check_alike(opt, list)
  local texts = world:all_gather_text(signature(list))
  for r, text in ipairs(texts) do
    if text ~= texts[1] then
      local _, here = text:gsub("%(", "")
      local _, there = texts[1]:gsub("%(", "")
      core.error{code = "value", op = opt.name, path = false,
        message = ("rank %d trains other parameters than rank 0: %d of them, rank 0 %d%s"):format(r - 1, here, there,
          here == there and ", of other shapes" or ""),
        hint = "every rank builds and freezes the same layers: let nothing of the model depend on the rank"}
    end
  end
end

local function make_buckets(opt, state)
  local list = in_order(state.params, state.order)
  check_alike(opt, list)
  local former = state.buckets
  state.buckets = core.buckets(list, settings.first_bucket_mb * MB, settings.bucket_mb * MB)
  if former then former:free() end
end

local function rebuild(opt, state)
  state.params = parameters_of(opt)
  if not state.order or #state.order ~= #state.params then
    state.order, state.learned = backwards(#state.params), false
  end
  make_buckets(opt, state)
end

-- The pieces of an optimizer, made anew when its parameters were exchanged, frozen or let go.
local function buckets_of(opt)
  local state = states[opt]
  if not state then
    state = {}
    states[opt] = state
  end
  if not state.buckets or not state.buckets:fit(state.params) then
    if observer.captured_work then
      core.error{code = "state", op = opt.name, path = false,
        message = "parameters were exchanged or frozen inside a captured step"}
    end
    observer:before_launch(rebuild, opt, state)
  end
  return state.buckets, state
end

-- Positions of the parameters of opt as their gradients became complete; frozen ones come last.
local function order_seen(state)
  local trained, seen, out = {}, {}, {}
  for _, k in ipairs(state.order) do
    if state.params[k].requires_grad then trained[#trained + 1] = k end
  end
  for _, i in ipairs(state.buckets:figures().order) do
    out[#out + 1] = trained[i]
    seen[trained[i]] = true
  end
  for _, k in ipairs(state.order) do
    if not seen[k] then out[#out + 1] = k end
  end
  return out
end

-- Rank 0 has seen in which order gradients become complete; all ranks send them in that one.
local function learn_order(opt, state)
  state.learned = true
  local text = world:all_gather_text(world.is_main and table.concat(order_seen(state), " ") or "")[1]
  if text == table.concat(state.order, " ") then return end
  state.order = {}
  for k in text:gmatch("%d+") do table.insert(state.order, tonumber(k)) end
  make_buckets(opt, state)
end

-- ---- a step ----

-- Tensors of a device that computes nothing (capl check) have no gradients to average.
local function takes_part(opt)
  local device = opt.groups[1].params[1].device
  if device == "meta" then return false end
  if device:match("^%a+") ~= world.device:match("^%a+") then
    core.error{code = "value", op = opt.name, path = false,
      message = ("the parameters are on %s, but the ranks exchange tensors of %s"):format(device, world.device),
      hint = ('move the model: model:to("%s"), or start with --device=%s'):format(world.device, device)}
  end
  return true
end

--- Called before the backward pass that is the last one of a step.
function parallel.begin(opt)
  if observer.gradients_reduced or not takes_part(opt) then return end
  local buckets, state = buckets_of(opt)
  state.begun, state.traffic = true, world:traffic()
  buckets:begin()
end

local function settle(buckets) buckets:settle(true) end

-- Adds what the exchange of this step's gradients took: from before its first piece on. A GPU knows that only later:
-- there it is all exchanges since the first step's (parallel.overlap).
local function count_time(state)
  local now, before = world:traffic(), state.traffic
  state.traffic = nil
  if not before then return end
  if world.backend == "nccl" then
    spent.steps, spent.since = spent.steps + 1, spent.since or before
    return
  end
  spent.steps, spent.busy, spent.waited = spent.steps + 1, spent.busy + now.busy - before.busy,
    spent.waited + now.waited - before.waited
end

local function average(opt)
  local buckets, state = buckets_of(opt)
  state.traffic = state.traffic or world:traffic()
  local absent = buckets:finish()
  count_time(state)
  if absent > 0 then
    if observer.captured_work then buckets:settle(false) else observer:before_launch(settle, buckets) end
  end
  if state.begun and not state.learned and not observer.captured_work then
    observer:before_launch(learn_order, opt, state)
  end
  state.begun = false
  return state
end

--- Called before the arithmetic of a step: afterwards the gradients are the mean over all ranks, on each of them.
function parallel.finish(opt)
  if observer.gradients_reduced or not takes_part(opt) then return end
  local state = states[opt]
  if not (state and state.averaged) then return average(opt) end
  state.averaged = false
  if state.buckets:fresh() then
    core.error{code = "state", op = opt.name, path = false,
      message = "gradients were added after they had been averaged over the ranks",
      hint = "call backward for all parts of a step before clipping or capl.replicate's average"}
  end
end

--- Averages the gradients of an optimizer now; its next step does not do it again.
function parallel.average(opt)
  if takes_part(opt) and not (states[opt] and states[opt].averaged) then average(opt).averaged = true end
end

--- For functions that look at gradients before a step: those of these parameters are averaged first.
function parallel.average_of(parameters)
  local wanted = {}
  for _, p in ipairs(parameters) do wanted[p] = true end
  for _, opt in ipairs(parallel.optimizers()) do
    for _, p in ipairs(parameters_of(opt)) do
      if wanted[p] then
        parallel.average(opt)
        break
      end
    end
  end
end

-- ---- the beginning ----

local attached = setmetatable({}, {__mode = "k"}) -- optimizer -> number, in the order in which they were made
local n_attached = 0

--- Optimizers that step by themselves, in the order in which they were made.
function parallel.optimizers()
  local out = {}
  for opt in pairs(attached) do out[#out + 1] = opt end
  table.sort(out, function(a, b) return attached[a] < attached[b] end)
  return out
end

--- Called by a new optimizer: what it trains begins as it is on rank 0.
function parallel.attach(opt)
  if not takes_part(opt) then return end
  n_attached = n_attached + 1
  attached[opt] = n_attached
  weights.share(world, weights.of_parameters(parameters_of(opt)))
end

--- Called by optim.join: from now on they step together.
function parallel.joined(opt, parts)
  for _, part in ipairs(parts) do
    attached[part] = nil
    if states[part] and states[part].buckets then states[part].buckets:free() end
    states[part] = nil
  end
  n_attached = n_attached + 1
  attached[opt] = n_attached
end

local replicate_spec = {{"bucket_mb", "number"}, {"first_bucket_mb", "number"}}

--- An alias of world:replicate, as the seed recipes call it. Nothing is wrapped: in a world of more than one rank every
-- optimizer averages its gradients by itself; this shares the weights and buffers of rank 0 now, and sets the size of
-- the pieces.
-- in   model; opts bucket_mb = 25 (of gradients that travel together), first_bucket_mb = 1 (the first ones, sent early)
-- out  the model
function parallel.replicate(model, opts)
  if not require("module_class").is_module(model) then check.arg(1, "replicate", "module", model) end
  local o = check.options("replicate", replicate_spec, opts)
  for key, value in pairs(o) do
    if not (value > 0 and value < math.huge) then
      check.fail("replicate", ("%s is above 0, got %g"):format(key, value))
    end
    settings[key] = value
  end
  if world then weights.share(world, weights.of_module(model)) end
  return model
end

--- Statistics of the pieces of all optimizers: {pieces, leaves, bytes, sent, early}; early: sent while a backward pass
-- went on.
function parallel.statistics()
  local out = {pieces = 0, leaves = 0, bytes = 0, sent = 0, early = 0}
  for _, state in pairs(states) do
    if state.buckets then
      for key, value in pairs(state.buckets:figures()) do
        if out[key] then out[key] = out[key] + value end
      end
    end
  end
  return out
end

-- ---- between steps ----

--- Called by all ranks before an evaluation, before saving, at the end of an epoch and of the run: batch norm's running
-- statistics become the mean over the ranks, and weights that have drifted apart are an error. models: nil = the
-- registered one
function parallel.settle(models)
  if not models then models = observer.model and {observer.model} or {} end
  if #models > 0 and not observer.captured_work then weights.settle(world, models) end
end

local function megabytes(bytes) return ("%.1f MB"):format(bytes / 1e6) end

--- Line for the header: what came from rank 0; nil before anything did.
function parallel.header_line()
  return weights.bytes > 0 and megabytes(weights.bytes) .. " of weights from rank 0" or nil
end

--- Share of the exchange of gradients that was hidden behind the backward pass, nil where nothing was exchanged; and
-- statistics:
--- {steps, busy, waited (seconds), pieces, bytes (of a step), sent, early}
function parallel.overlap()
  local f = parallel.statistics()
  f.steps, f.busy, f.waited = spent.steps, spent.busy, spent.waited
  if spent.since then
    local now = world:traffic()
    f.busy, f.waited = now.busy - spent.since.busy, now.waited - spent.since.waited
  end
  if f.busy <= 0 then return nil, f end
  return math.max(0, math.min(1, 1 - f.waited / f.busy)), f
end

--- Line for the report at the end; nil where no gradients were exchanged.
function parallel.report_line()
  local share, f = parallel.overlap()
  if f.steps == 0 then return nil end
  local hidden = share and (", %.0f %% of %.1f s of communication overlapped with the backward pass"):format(100
    * share, f.busy) or ""
  return ("gradients: %s in %d piece%s a step%s"):format(megabytes(f.bytes), f.pieces, f.pieces == 1 and "" or "s",
    hidden)
end

-- ---- the world ----

--- Takes part from now on; called once, when more than one rank has joined. -> itself
function parallel.install(joined)
  world = joined
  observer:on("model", function(model) weights.share(world, weights.of_module(model)) end)
  observer:on("epoch", function(loader)
    if loader.role == "train" and loader.low and (loader.low.world or 1) > 1 then parallel.settle() end
  end)
  return parallel
end

return parallel
