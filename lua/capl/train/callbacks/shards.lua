-- shards.lua: train.sharded_step and the keys deterministic and shards of train.fit: a step whose bits do not depend on
-- the number of ranks.
--
-- The batch of all ranks is cut into S shards. Each is computed by itself: with batch statistics of its own, dropout
-- that follows from the step, the shard and the sample's place in it, and one compute thread. Gradients, losses and
-- what became of running statistics are then added up in one tree over the shards (dist/tree_reduce.lua), and only the
-- sum meets the optimizer.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local dist = require "dist"
local parameters_of = require "parameters"
local part_of = require "train.part"
local determinism = require "determinism"
local tensor = require "tensor"
local tree = require "dist.tree_reduce"

local Shards = {}
Shards.__index = Shards

-- ---- what a step is about ----

local floats = {f32 = true, f64 = true, f16 = true, bf16 = true}

-- Buffers that are averages of what a layer has seen, and what layers count.
local function statistics_of(model)
  local out = {buffers = {}, counters = {}}
  for _, buffer in model:named_buffers() do
    if floats[buffer.dtype] then out.buffers[#out.buffers + 1] = {now = buffer} end
  end
  for _, module in model:named_modules() do
    for key in pairs(module.counters or {}) do
      out.counters[#out.counters + 1] = {module = module, key = key}
    end
  end
  return out
end

local function begin_statistics(statistics)
  for _, b in ipairs(statistics.buffers) do b.start = (b.start or tensor.empty_like(b.now):keep()):copy_(b.now) end
  for _, c in ipairs(statistics.counters) do c.start = c.module[c.key] end
end

local function rewind_statistics(statistics)
  for _, b in ipairs(statistics.buffers) do b.now:copy_(b.start) end
  for _, c in ipairs(statistics.counters) do c.module[c.key] = c.start end
end

-- ---- one vector of all that is added up ----

local function row(x, dtype) return x:reshape(-1):to(dtype) end

-- Gradients, changes of statistics, which gradients there are, the loss, the weight.
local function packed(self, loss, weight)
  local list, present, dtype, device = {}, {}, self.dtype, self.device
  for i, p in ipairs(self.parameters) do
    local grad = p.grad
    present[i] = grad and 1 or 0
    list[#list + 1] = grad and row(grad, dtype) or core.zeros(p:numel(), {dtype = dtype, device = device})
  end
  for _, b in ipairs(self.statistics.buffers) do list[#list + 1] = row(b.now - b.start, dtype) * weight end
  list[#list + 1] = core.tensor(present, {dtype = dtype, device = device})
  list[#list + 1] = row(loss, dtype)
  list[#list + 1] = core.tensor({weight}, {dtype = dtype, device = device})
  return core.op.concat(list, {dim = 1})
end

-- Reads pieces of a vector one after the other.
local function reader(vector)
  local at = 1
  return function(n)
    local piece = vector:narrow(1, at, n)
    at = at + n
    return piece
  end
end

local function like(p, values) return tensor.empty_like(p):copy_(values:reshape(p.shape)) end

-- The mean over the batch goes back to where gradients and statistics belong -> the loss.
local function unpack_sum(self, sum)
  local n = sum:numel()
  local take = reader(sum * (1 / sum:narrow(1, n, 1)))
  local grads = {}
  for i, p in ipairs(self.parameters) do grads[i] = take(p:numel()) end
  for _, b in ipairs(self.statistics.buffers) do
    b.now:copy_(b.start + take(b.now:numel()):reshape(b.now.shape):to(b.now.dtype))
  end
  local present = take(#self.parameters)
  for i, p in ipairs(self.parameters) do
    local there = p.requires_grad and (not self.missing[i] or present:narrow(1, i, 1):item() > 0)
    core.set_grad(p, there and like(p, grads[i]) or nil)
  end
  return take(1):reshape{}:clone()
end

-- ---- one shard ----

local function weighted_loss(self, parts, fn)
  local total, weight = nil, 0
  for _, part in ipairs(parts) do
    -- 1 of a full shard, so that gradients in fp16 are no larger than those of a mean
    local share = part.count / self.full
    local loss = fn(part) * share
    self.optimizer:backward(loss)
    local value = loss:detach()
    total, weight = total and core.no_grad(function() return total + value end) or value, weight + share
  end
  return total, weight
end

-- A tensor of its own for each: the same numbers lie in memory in the same way wherever the shard is computed.
local function own_memory(part)
  for key, value in pairs(part) do
    if core.is_tensor(value) then part[key] = value:clone() end
  end
  return part
end

-- Part k of n of a batch: the first ones have one sample more.
local function cut(batch, k, n)
  local each, more = math.floor(batch.count / n), batch.count % n
  if each == 0 then
    check.fail(Shards.op, ("a batch of %d samples is less than the %d shards of this rank"):format(batch.count, n),
      ("data.loader{…, parts = S} with the number of shards, or drop_last = true, leaves no shard empty"))
  end
  local count = each + (k < more and 1 or 0)
  return core.no_grad(own_memory, part_of(batch, k * each + math.min(k, more) + 1, count, batch.count))
end

local function cut_all(batches, k, n)
  local parts = {}
  for i, batch in ipairs(batches) do parts[i] = cut(batch, k, n) end
  return parts
end

local function one_shard(self, shard, batches, fn)
  local here = self.count / self.world.size
  core.rng(self.seed, self.streams)
  core.stream_owner(shard)
  rewind_statistics(self.statistics)
  local loss, weight = weighted_loss(self, cut_all(batches, shard % here, here), fn)
  local vector = core.no_grad(core.scope, packed, self, loss, weight)
  for i, p in ipairs(self.parameters) do
    self.missing[i] = self.missing[i] or p.requires_grad and not p.grad
    p:zero_grad()
  end
  return vector
end

-- ---- the step ----

--- The gradients of a step, as the optimizer is to find them -> the loss, the mean over all samples of the step.
-- in   batches: this rank's, whose gradients are summed; fn = function(part) -> loss, a mean over the part's samples
function Shards:gradients(batches, fn)
  local world = self.world
  local here, sums = self.count / world.size, tree.new(self.count)
  self.seed, self.streams = core.rng()
  self.missing = {}
  core.no_grad(begin_statistics, self.statistics)
  local after = self.streams
  for k = 0, here - 1 do
    local vector = one_shard(self, world.rank * here + k, batches, fn)
    core.no_grad(sums.add, sums, world.rank * here + k, vector)
    local _, streams = core.rng()
    after = math.max(after, streams)
  end
  core.stream_owner(0)
  core.rng(self.seed, after)
  return core.no_grad(core.scope, function() return unpack_sum(self, tree.over_ranks(world, sums)) end)
end

--- The step itself: gradients, update, and they are forgotten -> the loss.
function Shards:step(batches, fn)
  local loss = self:gradients(batches, fn)
  observer.gradients_reduced = true
  local ok, err = pcall(self.optimizer.step, self.optimizer)
  observer.gradients_reduced = false
  if not ok then error(err, 0) end
  self.optimizer:zero_grad()
  return loss
end

-- ---- checks ----

--- --shards of the run, which is thereby used; nil = none.
function Shards.setting()
  local value = observer:take_setting("shards")
  return value ~= 0 and value or nil
end

local function refuse_layers(op, model)
  for name, module in model:named_modules() do
    if module.__name:match("^SyncBatchNorm") then
      check.fail(op, ("layer %s is a %s, whose statistics are of the whole batch, and shards keep their own"):format(name, module.__name),
        "nn.BatchNorm2d in its place, or no shards")
    end
  end
end

local function check_count(op, shards, world)
  check.value(op, {"shards", "whole", from = 1}, shards)
  if shards % world.size ~= 0 then
    check.fail(op, ("shards = %d is no multiple of the %d ranks"):format(shards, world.size),
      ("all ranks compute the same number: for example shards = %d"):format(math.ceil(shards / world.size)
      * world.size))
  end
end

--- Whether the settings of a run let steps be made of shards; one compute thread from now on.
function Shards.prepare(op, shards, world)
  check_count(op, shards, world or dist.world())
  if not determinism.deterministic() then
    check.fail(op, ("shards = %d are for the same bits on any number of ranks, and deterministic is not on"):format(shards),
      "deterministic = true of train.fit, or --deterministic, or leave shards out")
  end
  core.one_thread()
end

--- How to make steps of shards. o: {op, model, optimizer, shards, full = samples of a full shard, 1 without it}
function Shards.new(o)
  local self = setmetatable({op = o.op, optimizer = o.optimizer, count = o.shards, full = o.full or 1,
    world = dist.world()}, Shards)
  Shards.prepare(o.op, o.shards, self.world)
  refuse_layers(o.op, o.model)
  self.parameters, self.statistics = parameters_of(o.optimizer), statistics_of(o.model)
  self.device, self.dtype = self.parameters[1].device, "f32"
  for _, p in ipairs(self.parameters) do
    if p.dtype == "f64" then self.dtype = "f64" end
  end
  return self
end

-- ---- custom training loops ----

local made = setmetatable({}, {__mode = "k"}) -- of each optimizer

local spec = {{"shards", "whole"}, {"model", "table"}}

local function of(optimizer, opts)
  local OP = "train.sharded_step"
  local o = check.options(OP, spec, opts or {})
  local self = made[optimizer]
  local shards = o.shards or Shards.setting() or 0
  if self and self.count == shards then return self end
  if shards == 0 then check.fail(OP, "the number of shards is missing", "--shards=4 of the recipe, or {shards = 4}") end
  local model = o.model or observer.model
  if not model then check.fail(OP, "no model is registered for its running statistics",
    "capl.model(net), or {model = net}") end
  made[optimizer] = Shards.new{op = OP, model = model, optimizer = optimizer, shards = shards}
  return made[optimizer]
end

--- One step of a custom training loop, the same bits on any number of ranks: see shards of train.fit.
-- in   opt: an optimizer; batch of a train loader with parts = S; fn = function(part) -> loss: the mean over the part's
--      samples
-- opts shards = S (--shards without it); model = the one whose running statistics are kept (capl.model's without it)
-- out  the loss of all ranks' batches together, on the device
-- errs value: shards is no multiple of the ranks; deterministic is not on; the model has SyncBatchNorm
local function sharded_step(opt, batch, fn, opts)
  return of(check.arg(1, "sharded_step", "table", opt), opts):step({check.arg(2, "sharded_step", "table", batch)}, fn)
end

-- ---- the keys of train.fit ----

local OP = "train.fit"

local Callback = {}
Callback.__index = Callback

-- Images of a step's batch over all ranks.
local function of_all(o) return o.train.batch * (o.train.ranks and o.train:ranks() or 1) end

local function check_batch(o)
  local all, ranks = of_all(o), dist.world().size
  if o.train.ranks and o.train:ranks() ~= ranks then
    check.fail(OP, ("shards = %d, but the train loader gives the same images to all of the %d ranks"):format(o.shards,
      ranks), "leave shard = false out of data.loader")
  end
  if all % o.shards == 0 then return end
  check.fail(OP, ("a batch of %d on all ranks together makes no %d shards of one size"):format(all, o.shards),
    ("for example batch = %d"):format(math.ceil(all / o.shards) * o.shards / (all / o.train.batch)))
end

local function check_others(o)
  if o.on_oom == "split" then
    check.fail(OP, ("shards = %d and on_oom = \"split\" both cut a batch into parts; give one"):format(o.shards))
  end
  if o.capture == true then
    check.fail(OP, ("capture = true, but each of the %d shards of a step is a separate pass, with other dropout"):format(o.shards),
      "leave capture out: such a step is made op by op")
  end
end

local function prepare(o)
  if o.deterministic ~= nil then determinism.deterministic(o.deterministic) end
  local given = Shards.setting()
  o.shards = o.shards or given
  if not o.shards then return end
  Shards.prepare(OP, o.shards)
  check_others(o)
  check_batch(o)
  if o.train.set_parts then o.train:set_parts(o.shards) end
end

local function new(fit)
  local o = fit.o
  if not o.shards then return nil end
  local counter = {n = 0}
  fit.run:add_feature{name = ("shards = %d"):format(o.shards),
    what = "steps whose bits do not depend on the number of ranks", count = function() return counter.n end}
  return setmetatable({fit = fit, counter = counter}, Callback)
end

-- 12 -> "1, 2, 3, 4, 6 or 12"
local function divisors(n)
  local out = {}
  for k = 1, n do
    if n % k == 0 then out[#out + 1] = k end
  end
  local last = table.remove(out)
  return #out > 0 and table.concat(out, ", ") .. " or " .. last or tostring(last)
end

function Callback:lines()
  local o = self.fit.o
  local all, ranks = of_all(o), o.train.ranks and o.train:ranks() or 1
  return {("shards: %d of %d images, %d on each rank, one compute thread: the same bits on %s ranks"):format(o.shards,
    all / o.shards, o.shards / ranks, divisors(o.shards))}
end

function Callback:after_step() self.counter.n = self.counter.n + 1 end

function Callback:state() return {steps = self.counter.n} end
function Callback:set_state(state) self.counter.n = state.steps end
function Callback.state_shape() return {steps = "count"} end

return {name = "shards", spec = {{"shards", "whole"}, {"deterministic", "boolean"}}, prepare = prepare, new = new,
  Shards = Shards, sharded_step = sharded_step}
