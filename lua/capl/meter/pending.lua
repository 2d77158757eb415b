-- pending.lua: small results of many batches that stay on the device until they are read all at once.
--
-- Reading a tensor waits for the device; an evaluation that read after each batch would leave it idle in between. So
-- batches are joined and read when many samples have come together, and at the end.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local pending = {}
pending.__index = pending

local MOST = 16384 -- samples that wait at most
local BATCHES = 256 -- likewise

--- read(columns, keys): gets what was added, joined: a flat list of numbers for each tensor, and the list of keys.
function pending.new(read) return setmetatable({read = read, columns = {}, keys = {}, batches = 0}, pending) end

-- Nothing of the graph stays, and nothing that the end of a scope would take.
local function kept(x) return x:detach():contiguous():keep() end

--- Adds tensors (N,…) of a batch and a key for each of its N samples; reads when it is time.
function pending:add(tensors, keys)
  for i, x in ipairs(tensors) do
    self.columns[i] = self.columns[i] or {}
    table.insert(self.columns[i], kept(x:reshape(-1)))
  end
  for _, key in ipairs(keys) do self.keys[#self.keys + 1] = key end
  self.batches = self.batches + 1
  if #self.keys >= MOST or self.batches >= BATCHES then self:flush() end
end

local function joined(list)
  return core.no_grad(function() return (#list == 1 and list[1] or core.op.concat(list, {dim = 1})):tolist() end)
end

--- Reads what waits.
function pending:flush()
  if self.batches == 0 then return end
  local lists, keys = {}, self.keys
  for i, column in ipairs(self.columns) do lists[i] = joined(column) end
  self.columns, self.keys, self.batches = {}, {}, 0
  self.read(lists, keys)
end

return pending
