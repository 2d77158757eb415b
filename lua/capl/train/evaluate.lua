-- evaluate.lua: reads a whole loader with a model and counts what it got right.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local forward = require "forward"
local dist = require "dist"
local lock = require "test_lock"
local merge = require "meter.merge"
local meters = require "meter"
local pending = require "meter.pending"
local progress = require "run.progress"
local reread = require "run.reread"
local sorted_keys = require "sorted_keys"

local OP = "train.evaluate"

local spec = {
  forward.precision, {"merge", "table"}, {"loss", "function"}, {"meter", "string", "function", "table"},
  {"main", "string"},
  {"decoding", "string"},
  forward.input,
}

local function check_loader(loader)
  if not loader.role or not loader.samples then check.fail(OP, "the second argument is no loader") end
  if loader.role == "train" then
    check.fail(OP, "a train loader shuffles, and may change its images",
      'data.loader{source = …, role = "val"} reads the same ones as they are')
  end
  if loader.low and loader.low.shuffle then
    check.fail(OP, ("the %s loader shuffles: its predictions could not be matched by order"):format(loader.role),
      "leave shuffle out")
  end
  if loader:samples() > 1e8 then check.fail(OP, "the loader has no end", "give its source a count") end
end

-- Samples of a batch, without those that are there twice for the sake of equal ranks.
local function without_padding(batch)
  local count = batch.count or batch.image:size(1)
  local extra = batch.padded or 0
  if extra == 0 then return batch, count end
  local out, ids = {}, batch.ids
  for key, value in pairs(batch) do
    local cut = core.is_tensor(value) and value.ndim > 0 and value.shape[1] == count
    out[key] = cut and value:narrow(1, 1, count - extra) or value
  end
  for i = count - extra + 1, count do ids[i] = nil end
  out.ids, out.count = ids, count - extra
  return setmetatable(out, getmetatable(batch)), out.count
end

-- The mean loss over all samples, read at the end.
local function mean_loss(meter)
  local sum, n = 0, 0
  return pending.new(function(columns, _, notes)
    for i, note in ipairs(notes) do sum, n = sum + columns[1][i] * note.n, n + note.n end
    meter.loss = n > 0 and sum / n or nil
  end)
end

local function add_batch(meter, batch, count, losses, o)
  local output = forward.output(o, batch)
  meter:add(output, batch)
  if losses then losses:add({forward.loss_of(o, output, batch)}, batch.ids or count, {n = count}) end
end

local function read_all(meter, loader, o)
  local losses, seen = o.loss and mean_loss(meter), 0
  local show = progress.counter(loader.role .. " images", loader:samples())
  for given in loader:epoch(1) do
    local batch, count = without_padding(given)
    core.scope(add_batch, meter, batch, count, losses, o)
    seen = seen + count
    show(seen)
  end
  if losses then losses:flush() end
  return seen
end

-- Some samples once more, for pictures -> their batch and the model's output, in another precision if asked for.
local function read_again(loader, ids, o, precision)
  local batch = reread(loader, ids)
  return batch, forward.output(setmetatable({precision = precision}, {__index = o}), batch)
end

local function is_shared(loader) return loader.low and loader.low.world and loader.low.world > 1 or false end

-- What this rank's loader was to give, and what all of them are.
local function expected(seen, loader)
  local part = loader.partial or is_shared(loader) -- train/loaders.lua says partial
  local whole = loader.source and loader.source.count and loader.source:count()
  local own = not part and whole or loader.given and loader.given() or loader:samples()
  local world = is_shared(loader) and merge.world()
  if not world then return own, own, seen end
  local sums = world:sum{seen = seen, own = own}
  return own, loader.partial and sums.own or whole or sums.own, sums.seen
end

-- Every sample once: anything else would be a metric of something else.
local function check_count(meter, seen, loader)
  local own, all, seen_by_all = expected(seen, loader)
  if seen ~= own then
    check.fail(OP, ("the %s loader gave %d of its %d samples"):format(loader.role, seen, own),
      "drop_last = true leaves the last ones out")
  end
  if seen_by_all ~= all then
    check.fail(OP, ("the ranks read %d samples of the %s loader, which has %d"):format(seen_by_all, loader.role, all),
      "drop_last = true leaves the last ones out")
  end
  local metrics = meter:result() -- reads what is still on the device
  if meter.parts and type(metrics[meter.main]) ~= "number" then
    check.unknown(OP, "metric", meter.main, sorted_keys(metrics))
  end
  if type(metrics) ~= "table" or type(metrics[meter.main]) ~= "number" then
    check.fail(OP, ("the main metric of the meter, %s, has no value"):format(meter.main),
      "it selects the best weights, so it must be a number")
  end
  if meter.n and meter.n ~= all then
    check.fail(OP, ("the meter counted %s of %d samples"):format(tostring(meter.n), all))
  end
end

-- The mode of each module, put back after fn: some may be frozen.
local function in_eval_mode(model, fn)
  local modes = {}
  for _, module in model:named_modules() do modes[module] = module.training end
  model:eval()
  local ok, first, second = pcall(core.no_grad, fn)
  for module, training in pairs(modes) do module.training = training end
  if not ok then error(first, 0) end
  return first, second
end

-- fn(), during which other ranks, which may have less to read, wait for this one without a watchdog.
local function waiting_for_nobody(fn)
  local world = merge.world()
  if not world then return fn() end
  world:hold("evaluating")
  local ok, err = pcall(fn)
  world:hold(nil)
  if not ok then error(err, 0) end
end

local function sum_of_ranks(loader, count)
  local world = is_shared(loader) and merge.world()
  return world and world:sum{count = count}.count or count
end

-- The meter with what all ranks have counted.
local function whole_meter(meter, loader, o)
  if not is_shared(loader) then return meter end
  local function fresh() return meters.make(OP, o.meter, loader, {}) end
  local whole = meter.parts and meter:joined(function(part, i)
    return merge.own(OP, part, function() return fresh().parts[i].meter end)
  end) or merge.own(OP, meter, fresh)
  for _, key in ipairs{"role", "loader", "again", "loss"} do whole[key] = meter[key] end
  return whole
end

--- Predicts all samples of a loader once, in order, and compares with their labels. The model's mode is restored.
-- in   model; loader with role "val" or "test". Test images are read with one set of weights only: what is compared or
--      chosen is compared on "val"
-- opts precision = "auto"; meter = "text" (where the samples have texts) | "classification" | "multilabel" (where
--      their labels are classes) | "segmentation" | "localization" | "detection" | "regression" | "image" |
--      function(loader) -> meter | {NAME = one of these, …} for the outputs of that name of a model that returns a
--      table: their metrics are called "NAME.mae"; main = "NAME.mae": the one that says which of two models is
--      better; merge = {"0O", …} sets of characters counted as one beside the strict metric (default: the look-alikes
--      of the charset); decoding = "argmax" | "ctc" (that of capl.model); loss = function(output, batch) for its mean;
--      input = function(batch) -> what the model is called with (as capl.model says, else batch.image or batch.input)
-- In a world of several ranks each reads its part, and all get the meter that one process would have.
-- out  meter: meter:result(), meter:line(), meter.main = name of the metric that says which model is better,
--      meter.better = "max" | "min"; meter.loss; meter.replaced = unreadable samples that on_error = "skip" replaced by
--      others
-- errs value: the loader is endless, shuffles, has nothing that the meter reads, or did not give each of its samples
--      once; the output's size; test images that other weights were tried on
local function evaluate(model, loader, opts)
  local o = check.options(OP, spec, opts)
  check.arg(1, "evaluate", "table", model)
  check.arg(2, "evaluate", "table", loader)
  check_loader(loader)
  o.model = model
  if is_shared(loader) and dist.parallel then dist.parallel.settle{model} end
  local meter = meters.make(OP, o.meter, loader, {merge = o.merge, decoding = o.decoding, main = o.main})
  local replaced, seen = loader:stats().substituted, nil
  meter.role, meter.loader = loader.role, loader
  meter.again = function(ids, precision)
    return in_eval_mode(model, function() return read_again(loader, ids, o, precision) end)
  end
  waiting_for_nobody(function()
    lock.evaluation(OP, loader, model, function()
      in_eval_mode(model, function() seen = read_all(meter, loader, o) end)
    end)
  end)
  meter = whole_meter(meter, loader, o)
  check_count(meter, seen, loader)
  meter.replaced = sum_of_ranks(loader, loader:stats().substituted - replaced)
  return meter
end

return evaluate
