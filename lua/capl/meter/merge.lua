-- merge.lua: what the ranks of a world have read of a set, put together: each rank then counts all samples in their
-- order.
--
-- Metrics that are merged afterwards would depend on the order of their sums, and lists of the first or the worst
-- samples on who saw them. So each rank keeps its batches' results as they are; at the end all get those of all, batch
-- by batch in the order of the ranks, which is the order of the set, and count them as one process would: the metrics
-- are the same to the bit, on every rank. A reading is a few numbers, so a set of a million samples is some ten
-- megabytes.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local merge = {}

local MOST = 16384 -- samples that are counted at a time
local LOOSE = 64 -- batches whose tensors are not yet joined
local HALF = 2 ^ 24 -- f32 is exact up to here: keys travel as two numbers

local is_alone = false

--- fn(…), whose meters count for this process alone.
function merge.alone(fn, ...)
  is_alone = true
  local ok, result = pcall(fn, ...)
  is_alone = false
  if not ok then error(result, 0) end
  return result
end

--- The world whose ranks share their readings, nil where there is one process alone.
function merge.world()
  if is_alone then return nil end
  local world = require("dist").world()
  return world.size > 1 and world or nil
end

-- ---- one rank's part ----

local Parts = {}
Parts.__index = Parts

--- What this rank has read; nil where it is the only one.
function merge.parts()
  local world = merge.world()
  return world and setmetatable({world = world, loose = {}, heads = {}, numbered = 0}, Parts) or nil
end

-- Keys as a tensor of their upper and lower halves.
local function keys_tensor(keys, device)
  local out = {}
  for i, key in ipairs(keys) do
    local upper = math.floor(key / HALF)
    out[2 * i - 1], out[2 * i] = upper, key - upper * HALF
  end
  return core.tensor(out, {dtype = "f32", device = device})
end

-- Many small tensors as one.
local function join(self)
  if #self.loose <= 1 then return end
  local whole = core.no_grad(core.op.concat, self.loose, {dim = 1}):keep()
  for _, x in ipairs(self.loose) do x:free() end
  self.loose = {whole}
end

local function keep(self, x) table.insert(self.loose, x:detach():to("f32"):reshape(-1):contiguous():keep()) end

--- As pending:add.
function Parts:add(tensors, keys, note)
  local counted = type(keys) == "number"
  local head = {n = counted and keys or #keys, counted = counted or nil, note = note or nil, sizes = {}}
  for i, x in ipairs(tensors) do
    head.sizes[i] = x:numel()
    if x:numel() > 0 then keep(self, x) end
  end
  if not counted and head.n > 0 then keep(self, keys_tensor(keys, tensors[1] and tensors[1].device)) end
  self.heads[#self.heads + 1] = head
  if #self.loose >= LOOSE then join(self) end
end

-- ---- all ranks' parts ----

local function length_of(heads)
  local sum = 0
  for _, head in ipairs(heads) do
    for _, size in ipairs(head.sizes) do sum = sum + size end
    if not head.counted then sum = sum + 2 * head.n end
  end
  return sum
end

-- All ranks' numbers, each rank's in a list; heads: of all ranks.
local function exchanged(self, heads)
  local longest, own = 0, self.loose[1]
  for _, list in ipairs(heads) do longest = math.max(longest, length_of(list)) end
  if longest == 0 then return {} end
  local have = own and own:numel() or 0
  local device = self.world.device
  local parts = {own and own:to(device)}
  if have < longest then parts[#parts + 1] = core.zeros(longest - have, {dtype = "f32", device = device}) end
  local mine = #parts == 1 and parts[1] or core.op.concat(parts, {dim = 1})
  local rows = self.world:all_gather(mine:contiguous()):to("f32"):reshape(self.world.size, longest)
  local out = {}
  for rank = 1, self.world.size do out[rank] = rows:narrow(1, rank, 1):reshape(-1):tolist() end
  return out
end

-- A batch of numbers from place `at` on: its columns and its keys; and the place behind it.
local function unpacked(head, numbers, at)
  local columns, keys = {}, {}
  for i, size in ipairs(head.sizes) do
    local column = {}
    for k = 1, size do column[k] = numbers[at + k - 1] end
    columns[i], at = column, at + size
  end
  if head.counted then return columns, nil, at end
  for i = 1, head.n do keys[i] = numbers[at + 2 * i - 2] * HALF + numbers[at + 2 * i - 1] end
  return columns, keys, at + 2 * head.n
end

-- Whether every rank has read the very same samples, as of a loader that is not shared: they count once.
local function all_alike(batches)
  for rank = 2, #batches do
    if #batches[rank] ~= #batches[1] then return false end
    for i, batch in ipairs(batches[rank]) do
      local first = batches[1][i]
      if not batch.keys or not first.keys or #batch.keys ~= #first.keys then return false end
      for k, key in ipairs(batch.keys) do
        if key ~= first.keys[k] then return false end
      end
    end
  end
  return #batches[1] > 0
end

local function batches_of(heads, numbers)
  local out, at = {}, 1
  for i, head in ipairs(heads) do
    local columns, keys, after = unpacked(head, numbers, at)
    out[i], at = {columns = columns, keys = keys, note = head.note, n = head.n}, after
  end
  return out
end

local function append(list, more)
  for _, x in ipairs(more) do list[#list + 1] = x end
end

-- Collects batches and reads them, many at a time.
local function reader(self, read)
  local columns, keys, notes = {}, {}, {}
  local function flush()
    if #notes > 0 then read(columns, keys, notes) end
    columns, keys, notes = {}, {}, {}
  end
  return function(batch)
    for i, column in ipairs(batch.columns) do
      columns[i] = columns[i] or {}
      append(columns[i], column)
    end
    for i = 1, batch.n do keys[#keys + 1] = batch.keys and batch.keys[i] or self.numbered + i - 1 end
    if not batch.keys then self.numbered = self.numbered + batch.n end
    notes[#notes + 1] = batch.note or false
    if #keys >= MOST then flush() end
  end, flush
end

--- Calls fn(batch) for the batches of all ranks in the order of the set: the first of each rank, the second of each …
-- lists: of batches, by rank; those of the first rank alone where all have read the same.
function merge.each(lists, fn)
  local most = 0
  for _, list in ipairs(lists) do most = math.max(most, #list) end
  for i = 1, most do
    for _, list in ipairs(lists) do
      if list[i] then fn(list[i]) end
    end
  end
end

--- Reads what all ranks have; every rank calls it. Nothing new after a first time: nobody is asked.
function Parts:flush(read)
  if #self.heads == 0 and self.merged then return end
  join(self)
  local heads = self.world:all_gather_object(self.heads)
  local numbers = core.no_grad(exchanged, self, heads)
  for _, x in ipairs(self.loose) do x:free() end
  self.loose, self.heads, self.merged = {}, {}, true
  local lists = {}
  for rank, list in ipairs(heads) do lists[rank] = batches_of(list, numbers[rank]) end
  local add, flush = reader(self, read)
  merge.each(all_alike(lists) and {lists[1]} or lists, add)
  flush()
end

-- ---- readings that are no tensors ----

local Values = {}
Values.__index = Values

--- The same for lists of anything that JSON holds, such as texts; nil where this rank is the only one.
function merge.values()
  local world = merge.world()
  return world and setmetatable({world = world, list = {}}, Values) or nil
end

--- Adds one batch: any value.
function Values:add(value) table.insert(self.list, value) end

--- read(value) for each batch of all ranks.
function Values:flush(read)
  if #self.list == 0 and self.merged then return end
  local lists = {}
  for rank, one in ipairs(self.world:all_gather_object({list = self.list})) do lists[rank] = one.list or {} end
  self.list, self.merged = {}, true
  merge.each(lists, read)
end

-- ---- meters of a recipe's own ----

--- Whether a meter puts the ranks' readings together by itself, as those of capl do.
local function is_whole(meter) return meter.kind ~= nil end

--- A meter of a recipe's own that has counted what all ranks have: made anew, and given every rank's state() by its
-- merge(state).
-- in   meter: counted this rank's part; fresh = function() -> a new one
-- errs unsupported: it has no state() and merge(state)
function merge.own(op, meter, fresh)
  local world = merge.world()
  if not world or is_whole(meter) then return meter end
  if not core.is_callable(meter.state) or not core.is_callable(meter.merge) then
    core.error{code = "unsupported", op = op, path = false,
      message = ("each of %d ranks reads a part of the images, and this meter cannot put them together"):format(world.size),
      hint = "give it state(), which JSON can hold, and merge(state), which adds that of another rank; or shard = " ..
      "false to the loader"}
  end
  local whole = fresh()
  for _, state in ipairs(world:all_gather_object(meter:state())) do whole:merge(state) end
  return whole
end

return merge
