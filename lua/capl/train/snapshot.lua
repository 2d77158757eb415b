-- snapshot.lua: everything a few trial steps change, so that afterwards they never happened: weights, statistics,
-- optimizer, random streams, and where the loader stands.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local tensor = require "tensor"

local Snapshot = {}
Snapshot.__index = Snapshot

-- Tensors of a tree as copies of their own.
local function copy(value)
  if core.is_tensor(value) then
    return core.no_grad(function() return tensor.empty_like(value):copy_(value):keep() end) end
  if type(value) ~= "table" or getmetatable(value) then return value end
  local out = {}
  for key, entry in pairs(value) do out[key] = copy(entry) end
  return out
end

local function let_go(value)
  if core.is_tensor(value) then value:free() return end
  if type(value) ~= "table" or getmetatable(value) then return end
  for _, entry in pairs(value) do let_go(entry) end
end

local function counters_of(model)
  local out = {}
  for _, module in model:named_modules() do
    for key in pairs(module.counters or {}) do
      out[module] = out[module] or {}
      out[module][key] = module[key]
    end
  end
  return out
end

-- The optimizers behind one, which may be several joined ones.
local function members(optimizer) return optimizer.optimizers or {optimizer} end

-- Rates and their factors, which a state_dict does not hold where they are schedules.
local function rates_of(optimizer)
  local out = {}
  for i, opt in ipairs(members(optimizer)) do
    out[i] = {factor = opt.lr_factor, position = opt.position, lr = {}}
    for k, group in ipairs(opt.groups) do out[i].lr[k] = group.lr end
  end
  return out
end

local function put_rates(optimizer, rates)
  for i, opt in ipairs(members(optimizer)) do
    opt.lr_factor, opt.position = rates[i].factor, rates[i].position
    for k, group in ipairs(opt.groups) do group.lr = rates[i].lr[k] end
    opt.lr = opt:lr_of(opt.groups[1])
  end
  optimizer.lr = members(optimizer)[1].lr
end

--- What is now. o: {model, optimizer, train = loader, may be nil}
local function take(o)
  local seed, streams = core.rng()
  return setmetatable({
    o = o, weights = copy(o.model:state_dict()), counters = counters_of(o.model),
    optimizer = copy(o.optimizer:state_dict()), rates = rates_of(o.optimizer), seed = seed, streams = streams,
    loader = o.train and o.train:state(), images = observer.step_images, epochs = observer.epochs,
  }, Snapshot)
end

--- Puts weights, optimizer and random streams back; the copies stay for another time.
function Snapshot:rewind()
  local o = self.o
  o.optimizer:zero_grad()
  o.model:load_state_dict(self.weights)
  for module, values in pairs(self.counters) do
    for key, value in pairs(values) do module[key] = value end
  end
  o.optimizer:load_state_dict(self.optimizer)
  put_rates(o.optimizer, self.rates)
  core.rng(self.seed, self.streams)
end

--- Puts everything back, and lets the copies go.
function Snapshot:restore()
  self:rewind()
  if self.loader then self.o.train:set_state(self.loader) end
  observer.step_images, observer.epochs = self.images, self.epochs
  let_go(self.weights)
  let_go(self.optimizer)
end

--- Iterates over batches of a loader for ever, without ever ending an epoch.
local function batches(loader)
  local epoch, left, next_batch = 0, 0, nil
  return function()
    if left == 0 then
      epoch, left = epoch + 1, loader:batches()
      next_batch = loader:epoch(epoch)
    end
    left = left - 1
    return next_batch()
  end
end

return {take = take, batches = batches, members = members}
