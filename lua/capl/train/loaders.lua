-- loaders.lua: loaders made of loaders: the first batches of each epoch, and a few samples held for good.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local data = require "data"

local loaders = {}

-- ---- the first batches ----

-- Batches of the present epoch that a resumed loader has given already.
local function given_already(inner, number)
  if inner.resumed ~= number then return 0 end
  return inner:batches() - inner:batches_left()
end

local function first_batches(inner, most, number, given)
  local left, iterator = most - given_already(inner, number), inner:epoch(number)
  given.samples = 0
  return function()
    if left <= 0 then
      if left == 0 then observer:epoch(inner, number) end
      left = -1
      return nil
    end
    left = left - 1
    local batch = iterator()
    given.samples = given.samples + (batch and batch.count or 0)
    return batch
  end
end

--- A loader whose epochs end after `most` batches; everything else is the given loader's, its state included.
function loaders.limited(inner, most)
  most = math.min(most, inner:batches())
  local all = most == inner:batches()
  -- samples of the last epoch; samples() is the most there may be: batches of several widths may be smaller
  local given = {}
  local own = {
    partial = not all or inner.partial,
    batches = function() return most end,
    samples = function() return all and inner:samples() or math.min(most * inner.batch, inner:samples()) end,
    all_samples = function()
      return all and inner:all_samples() or math.min(most * inner.batch * inner:ranks(), inner:all_samples())
    end,
    given = function() return given.samples end,
    epoch = function(_, number) return first_batches(inner, most, number, given) end,
  }
  return setmetatable({}, {
    __index = function(_, key)
      local value = own[key]
      if value == nil then value = inner[key] end
      return value
    end,
    __newindex = function(_, key, value) inner[key] = value end,
  })
end

-- ---- a few samples for good ----

local Held = {}
Held.__index = Held

-- The first `count` samples of a batch, with their numbers.
local function first_samples(batch, count)
  local out, ids = {}, batch.ids
  for key, value in pairs(batch) do
    local cut = core.is_tensor(value) and value.ndim > 0 and value.shape[1] == batch.count
    out[key] = cut and value:narrow(1, 1, count) or value
  end
  out.count, out.padded, out.global_batch_size = count, 0, nil
  for i = count + 1, ids and #ids or 0 do ids[i] = nil end
  local look_up = getmetatable(batch).__index
  return setmetatable(out, {__index = function(self, key)
    -- not a field: a list of numbers would be part of what a captured step is called with
    if key == "ids" then return ids end
    return look_up(self, key)
  end})
end

-- Batches with this rank's share of the first samples of a source as they are: not augmented, not shuffled.
local function collect(from, samples)
  local low = from.low or {}
  local share = math.ceil(samples / (low.world or 1))
  local plain = data.loader{source = from.source, role = "train", batch = math.min(from.batch, share), workers = 0,
    shuffle = false, normalize = from.normalize, dtype = low.dtype, seed = low.seed, cache = "none",
    shard = low.world == 1 and false or nil}
  local batches, left = {}, share
  for batch in plain:epoch(1) do
    batches[#batches + 1] = first_samples(batch, math.min(batch.count, left))
    left = left - batches[#batches].count
    if left == 0 then break end
  end
  return batches, share - left, plain
end

--- Two loaders, for training and for validation, that give the first `samples` samples of a train loader's source again
-- and again: the same bytes, in the same order, without augmentation. They hold fewer when the source has fewer.
function loaders.held(from, samples)
  local batches, count, plain = collect(from, samples)
  local ranks = plain:ranks()
  local function make(role)
    return setmetatable({role = role, held = batches, count = count, at = {epoch = 0, position = 0},
      source = from.source, charset = from.charset, classes = from.classes, length = from.length, batch = plain.batch,
      normalize = from.normalize, dtype = from.dtype, workers = 0, partial = true, low = ranks > 1 and plain.low or nil,
      all = math.min(math.ceil(samples / ranks) * ranks, plain:all_samples())}, Held)
  end
  return make("train"), make("val")
end

function Held:batches() return #self.held end
function Held:batches_left() return math.max(0, #self.held - self.at.position) end
function Held:samples() return self.count end
function Held:all_samples() return self.all end
function Held:ranks() return self.low and self.low.world or 1 end
function Held:stats() -- luacheck: no self
  return {batches = 0, samples = 0, augmented = 0, substituted = 0, bad = 0, wait_seconds = 0, seconds = 0}
end
function Held:path() return ("%d samples held"):format(self.count) end
function Held:report() return ("%s data: %s"):format(self.role, self:path()) end
function Held:state() return {epoch = self.at.epoch, position = self.at.position} end

function Held:set_state(state) self.at, self.resumed = {epoch = state.epoch, position = state.position}, state.epoch end
function Held.state_shape() return {epoch = "count", position = "count"} end

function Held:epoch(number)
  if self.resumed ~= number then self.at = {epoch = number, position = 0} end
  self.resumed = nil
  local at = self.at
  return function()
    local batch = self.held[at.position + 1]
    if not batch then
      if at.position == #self.held then observer:epoch(self, number) end
      at.position = #self.held + 1
      return nil
    end
    at.position = at.position + 1
    observer:batch(self, batch)
    return batch
  end
end

return loaders
