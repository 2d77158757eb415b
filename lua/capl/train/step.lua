-- step.lua: the training step of train.fit: plain or captured, whole or in micro-batches when memory runs out.
--
-- A step that ran out of memory is undone before anything is done again: gradients are forgotten, running statistics
-- and counters of layers put back, and so are the random streams. The optimizer's own step comes last and, once its
-- state is there, takes no memory of its own; where one does all the same (Muon), it may not be cut short and made
-- again.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sync = require "dist.sync"
local capture = require "capture"
local check = require "check"
local forward = require "forward"
local part_of = require "train.part"
local Shards = require("train.callbacks.shards").Shards
local tensor = require "tensor"

local OP = "train.fit"

local Step = {}
Step.__index = Step

-- ---- what a step does ----

local function loss_of(o, batch) return (forward.loss(o, batch)) end

-- Samples of all ranks in a batch, and of this one. A round that ends an epoch, or a width, may be dealt out unevenly.
local function samples_of(o, batch)
  local ranks = o.train.ranks and o.train:ranks() or 1
  if ranks == 1 or ranks ~= sync.size() then return batch.count, batch.count end
  return batch.global_batch_size or batch.count * ranks, (batch.count - (batch.padded or 0)) * ranks
end

-- The loss is a mean over this rank's batch, and gradients become the mean over ranks: it counts by its share of a
-- batch, or of a group of batches, of `all` samples on all ranks. So each sample counts as it does in one process.
local function shared(o, loss, batch, all)
  local all_ranks, own = samples_of(o, batch)
  all = all or all_ranks
  return own == all and loss or loss * (own / all)
end

local function whole(o)
  return function(batch)
    local loss = shared(o, loss_of(o, batch), batch)
    o.optimizer:backward_step(loss)
    return loss
  end
end

-- The sum of losses so far (nil: none), with one more; backward is done with it.
local function plus(total, loss)
  local value = loss:detach()
  return total and core.no_grad(function() return total + value end) or value
end

-- The optimizer's step with gradients that were summed up.
local function update(optimizer)
  optimizer:step()
  optimizer:zero_grad()
end

-- A group of batches {count, global_batch_size, batch, batch, …} as one step: each batch counts by its share of the
-- samples, also in the last group of an epoch, which may be smaller.
local function summed(o)
  return function(group)
    local total = nil
    for _, batch in ipairs(group) do
      local loss = shared(o, loss_of(o, batch), batch, group.global_batch_size)
      o.optimizer:backward(loss)
      total = plus(total, loss)
    end
    update(o.optimizer)
    return total
  end
end

-- The same step in micro-batches of `size` samples; the loss is a mean over the batch, so each part counts by its
-- share.
local function in_parts(o, size)
  return function(batch)
    local samples, total = batch.count, nil
    for first = 1, samples, size do
      local count = math.min(size, samples - first + 1)
      local loss = shared(o, loss_of(o, part_of(batch, first, count, samples)) * (count / samples), batch)
      o.optimizer:backward(loss)
      total = plus(total, loss)
    end
    update(o.optimizer)
    return total
  end
end

-- The same step in shards, whose number says what it computes, and not the number of ranks.
local function sharded(o)
  local job = Shards.new{op = OP, model = o.model, optimizer = o.optimizer, shards = o.shards,
    full = o.train.batch * (o.train.ranks and o.train:ranks() or 1) / o.shards}
  local function loss_of_part(part) return loss_of(o, part) end
  return function(batch) return job:step(batch[1] and batch or {batch}, loss_of_part) end
end

-- ---- capture ----

-- The step as it is to be called. "auto" captures where the device can, and stays eager where the step cannot.
function Step:make()
  local o = self.o
  if o.shards then return sharded(o) end
  local plain = self.size and in_parts(o, self.size) or o.accumulate > 1 and summed(o) or whole(o)
  local wanted = o.capture
  if wanted == false or (wanted == "auto" and not core.can_capture(core.device())) then return plain end
  return capture(plain, {strict = wanted == true})
end

-- ---- groups ----

-- The next `most` batches of an epoch, fewer at its end, as {count = samples, global_batch_size = those of all ranks,
-- batch, …}.
local function next_group(o, iterator, most)
  local group = {count = 0, global_batch_size = 0}
  for i = 1, most do
    local batch = iterator()
    if not batch then return group, true end
    group[i], group.count = batch, group.count + batch.count
    group.global_batch_size = group.global_batch_size + samples_of(o, batch)
  end
  return group, false
end

--- What the steps take from an epoch's iterator: its batches, or with accumulate groups of them.
function Step:batches(iterator)
  local most, over = self.o.accumulate, false
  if most == 1 then return iterator end
  return function()
    if over then return nil end -- an iterator that has ended is not asked again
    local group
    group, over = next_group(self.o, iterator, most)
    return group[1] and group or nil
  end
end

-- ---- undoing ----

-- Running statistics and counters of the model, so that a step can be undone. The copies are made once.
function Step:save_statistics()
  local saved = self.saved or {buffers = {}, counters = {}}
  core.no_grad(function()
    for name, buffer in self.o.model:named_buffers() do
      saved.buffers[name] = (saved.buffers[name] or tensor.empty_like(buffer):keep()):copy_(buffer)
    end
  end)
  for _, module in self.o.model:named_modules() do
    for key in pairs(module.counters or {}) do
      saved.counters[module] = saved.counters[module] or {}
      saved.counters[module][key] = module[key]
    end
  end
  saved.seed, saved.streams = core.rng()
  self.saved = saved
end

function Step:undo()
  local saved = self.saved
  self.o.optimizer:zero_grad()
  core.no_grad(function()
    for name, buffer in self.o.model:named_buffers() do buffer:copy_(saved.buffers[name]) end
  end)
  for module, values in pairs(saved.counters) do
    for key, value in pairs(values) do module[key] = value end
  end
  core.rng(saved.seed, saved.streams)
  core.collect()
end

-- ---- memory ----

local function megabytes(bytes) return ("%.0f MB"):format(bytes / 1e6) end

-- Bytes that the device could give to a step that finds `live` bytes in use; nil when it is not known.
local function capacity()
  local m = core.memory()
  if m.limit > 0 then return m.limit end
  return m.card_free and m.card_free + m.cached + m.captured + m.live or nil
end

-- Bytes a sample takes in forward and backward, measured with a few samples; nil when even those do not fit.
local function bytes_per_sample(o, batch)
  local samples = batch.count
  local count = math.max(1, math.floor(samples / 16))
  local live = core.memory().live
  core.memory_reset_peak()
  local ok = pcall(function() o.optimizer:backward(loss_of(o, part_of(batch, 1, count, samples))) end)
  o.optimizer:zero_grad()
  local peak = core.memory().peak
  core.collect()
  return ok and (peak - live) / count or nil
end

--- The largest batch that fits beside what is in use, measured; nil when it is not known.
function Step:fitting(batch)
  local each, all = bytes_per_sample(self.o, batch), capacity()
  if not each or not all then return nil end
  return math.floor((all - core.memory().live) / each * 0.95), each -- a twentieth is left to rounding
end

-- The error of a step that does not fit, with what would.
function Step:explain(err, batch)
  batch = batch[1] or batch -- of a group each batch fits or does not
  local ok, count, each = pcall(self.fitting, self, batch)
  local samples = batch.count
  local hint = "use a smaller batch"
  if ok and count and count >= 1 and count < samples then
    hint = ("a batch of about %d would fit (%s a sample)"):format(count, megabytes(each))
  end
  if self.o.on_oom == "stop" then hint = hint .. '; on_oom = "split" in train.fit makes smaller steps of a batch' end
  core.error{code = "nomem", op = OP, path = false, context = err.context, hint = hint,
    message = ("a batch of %d does not fit: %s"):format(samples, err.message)}
end

local function is_nomem(err) return core.is_error(err) and err.code == "nomem" end

-- Halves the micro-batch.
function Step:split(batch)
  local samples = batch.count
  local size = math.ceil((self.size and math.min(self.size, samples) or samples) / 2)
  if type(self.call) == "table" then self.call:free() end
  self.size = size
  self.call = self:make()
  self.run:print(("note: out of memory: split %d -> %d x %d, BN per micro-batch"):format(
    samples, math.ceil(samples / size), size))
end

-- -> whether it went well, and the loss or the error. self.updating: the optimizer had begun to change weights.
function Step:try(batch)
  local optimizer = self.o.optimizer
  self.updating = false
  local listener = self.run:on("gradients", function(opt)
    if opt == optimizer then self.updating = true end
  end)
  local ok, loss = pcall(function()
    if self.o.on_oom == "split" then optimizer:make_states() end
    return self.call(batch)
  end)
  self.run:off("gradients", listener)
  return ok, loss
end

--- One step on a batch -> its loss, on the device.
-- errs nomem: it does not fit, and on_oom does not allow smaller steps or they are down to one sample
function Step:step(batch)
  local undoable = self.o.on_oom == "split"
  if undoable then self:save_statistics() end
  local ok, loss = self:try(batch)
  if ok then return loss end
  if not is_nomem(loss) then error(loss, 0) end
  if self.updating then
    core.error{code = "nomem", op = OP, path = false,
      message = "the optimizer's own step ran out of memory: " .. loss.message,
      hint = "the weights are inconsistent; resume from the last checkpoint, with a smaller batch or model"}
  end
  local one = batch.count == 1 or self.size == 1
  if not undoable or one then
    self.o.optimizer:zero_grad()
    core.collect()
    self:explain(loss, batch)
  end
  self:undo()
  self:split(batch)
  return self:step(batch)
end

--- {size = of a micro-batch or nil, captured = state of the captured step or nil}
function Step:state()
  return {size = self.size, captured = type(self.call) == "table" and self.call:state() or nil}
end

--- The step that train.fit makes. o: its options.
local function new(o, run)
  check.arg(1, OP, "table", o)
  local self = setmetatable({o = o, run = run}, Step)
  self.call = self:make()
  return self
end

return {new = new}
