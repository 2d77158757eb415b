-- pending.lua: small results of many batches that stay on the device until they are read all at once.
--
-- Reading a tensor waits for the device; an evaluation that read after each batch would leave it idle in between. So
-- batches are joined and read when many samples have come together, and at the end. Where several ranks read their
-- parts of a set, they are read at the end alone, those of all ranks on each rank: meter/merge.lua.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local merge = require "meter.merge"

local pending = {}
pending.__index = pending

local MOST = 16384 -- samples that wait at most
local BATCHES = 256 -- likewise

--- read(columns, keys, notes): gets what was added, joined: a flat list of numbers for each tensor, the list of keys,
-- and that of the batches' notes.
function pending.new(read)
  return setmetatable({read = read, columns = {}, keys = {}, notes = {}, batches = 0, parts = merge.parts()}, pending)
end

-- Nothing of the graph stays, and nothing that the end of a scope would take.
local function kept(x) return x:detach():contiguous():keep() end

--- Adds tensors (N,…) of a batch, a key (a number) for each of its N samples, and what else reading them takes, which
-- JSON holds; reads when it is time. keys = N: the samples have no numbers, and are counted.
function pending:add(tensors, keys, note)
  if self.parts then return self.parts:add(tensors, keys, note) end
  for i, x in ipairs(tensors) do
    self.columns[i] = self.columns[i] or {}
    table.insert(self.columns[i], kept(x:reshape(-1)))
  end
  for i = 1, type(keys) == "number" and keys or #keys do
    self.keys[#self.keys + 1] = type(keys) == "table" and keys[i] or (self.counted or 0) + #self.keys
  end
  self.batches = self.batches + 1
  self.notes[self.batches] = note or false
  if #self.keys >= MOST or self.batches >= BATCHES then self:flush() end
end

local function joined(list)
  return core.no_grad(function() return (#list == 1 and list[1] or core.op.concat(list, {dim = 1})):tolist() end)
end

--- Reads what waits. In a world of several ranks all of them call it.
function pending:flush()
  if self.parts then return self.parts:flush(self.read) end
  if self.batches == 0 then return end
  local lists, keys, notes = {}, self.keys, self.notes
  for i, column in ipairs(self.columns) do lists[i] = joined(column) end
  self.columns, self.keys, self.notes, self.batches = {}, {}, {}, 0
  self.counted = (self.counted or 0) + #keys
  self.read(lists, keys, notes)
end

return pending
