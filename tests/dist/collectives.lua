--- capl: 1
-- collectives.lua: every collective against the arithmetic in plain Lua, for every dtype and odd sizes. Run on some
-- ranks.
-- SPDX-License-Identifier: Apache-2.0
local world = capl.distributed()
local rank, size = world.rank, world.size
local SIZES = {0, 1, 2, 3, 7, 64, 1000, 4099}
local FLOATS = {"f32", "f64", "f16", "bf16"}
local WHOLE = {"i32", "i64"}
local checks = 0

local function all_of(...)
  local out = {}
  for _, list in ipairs{...} do
    for _, value in ipairs(list) do out[#out + 1] = value end
  end
  return out
end

local function same(what, got, wanted)
  checks = checks + 1
  if got ~= wanted and not (got ~= got and wanted ~= wanted) then
    error(("rank %d of %d: %s: %s, not %s"):format(rank, size, what, tostring(got), tostring(wanted)), 2)
  end
end

-- Small whole numbers: exact in every dtype, also when 16 ranks add them up.
local function value_of(r, i) return (r * 7 + i * 3) % 11 - 5 end

local function tensor_of(r, n, dtype)
  local t = capl.zeros(n, {dtype = dtype})
  for i = 1, n do t:set(i, value_of(r, i)) end
  return t
end

-- Element i of the reduction, added up in Lua.
local function reduced(op, i)
  local total = op == "max" and -math.huge or 0
  for r = 0, size - 1 do
    local v = value_of(r, i)
    total = op == "max" and math.max(total, v) or op ~= "max" and total + v or total
  end
  return op == "mean" and total / size or total
end

-- What dtype makes of a number.
local function as(dtype, x) return capl.full({1}, x, {dtype = dtype}):get(1) end

local function looks_at(n) return n <= 64 and n or 64 end

local function compare(what, t, n, wanted)
  same(what .. " size", t:size(1), n)
  for k = 1, looks_at(n) do
    local i = n <= 64 and k or math.floor((k - 1) * (n - 1) / 63) + 1
    same(("%s, element %d of %d"):format(what, i, n), t:get(i), wanted(i))
  end
end

-- ---- every dtype, every size ----

for _, dtype in ipairs(all_of(FLOATS, WHOLE)) do
  for _, n in ipairs(SIZES) do
    for _, op in ipairs{"sum", "max", "mean"} do
      if op ~= "mean" or dtype:match("f") then
        local t = tensor_of(rank, n, dtype)
        local out = world:all_reduce(t, {op = op})
        compare(("all_reduce %s of %s"):format(op, dtype), out, n, function(i) return as(dtype, reduced(op, i)) end)
      end
    end
    local whole = capl.zeros(size, n, {dtype = dtype})
    for r = 1, size do whole:select(1, r):copy_(tensor_of(rank * size + r, n, dtype)) end
    local part = world:reduce_scatter(whole)
    compare("reduce_scatter of " .. dtype, part, n, function(i)
      local total = 0
      for r = 0, size - 1 do total = total + value_of(r * size + rank + 1, i) end
      return as(dtype, total)
    end)
  end
end

for _, dtype in ipairs(all_of(FLOATS, WHOLE, {"u8", "bool"})) do
  local function small(r, i) return (r + i) % 2 end
  for _, n in ipairs(SIZES) do
    local function mine()
      local t = capl.zeros(n, {dtype = dtype})
      for i = 1, n do t:set(i, small(rank, i)) end
      return t
    end
    for root = 0, size - 1 do
      compare("broadcast of " .. dtype, world:broadcast(mine(), {from = root}), n, function(i)
        return small(root, i) end)
    end
    local all = world:all_gather(mine())
    same("all_gather ranks", all:size(1), size)
    for r = 1, size do
      compare("all_gather of " .. dtype, all:select(1, r), n, function(i) return small(r - 1, i) end)
    end
  end
end

-- ---- numbers that are no small whole ones ----

-- 16-bit numbers are added as f32 and rounded once, so that the mean of large ones does not overflow on its way.
same("f16 mean of 60000", world:all_reduce(capl.full({3}, 60000, {dtype = "f16"}), {op = "mean"}):get(2),
  as("f16", 60000))
local many = capl.full({5}, rank == 0 and 1 or 2 ^ -9, {dtype = "bf16"})
same("bf16 sum, rounded once", world:all_reduce(many):get(1), as("bf16", 1 + (size - 1) * 2 ^ -9))
same("infinity stays", world:all_reduce(capl.full({1}, rank == 0 and math.huge or 1)):get(1), math.huge)
local lost = world:all_reduce(capl.full({1}, rank == size - 1 and 0 / 0 or 1)):get(1)
same("no number stays none", lost ~= lost, true)

-- ---- dims and memory order ----

-- Images are channels-last in memory: parts of ranks keep that order.
local images = capl.arange(2 * 3 * 4 * 5):view(2, 3, 4, 5):to("f32") * (rank + 1)
local gathered = world:all_gather(images)
same("dims of gathered images", gathered.ndim, 5)
for r = 1, size do same("an image's place", gathered:get(r, 2, 3, 4, 5), 119 * r) end
local nhwc = capl.zeros(2, 3, 4, 5)
nhwc:copy_(capl.arange(120):view(2, 3, 4, 5))
world:all_reduce(nhwc)
same("channels-last, reduced", nhwc:get(2, 1, 4, 5), 79 * size)
local scalar = world:all_reduce(capl.tensor(rank + 1))
same("a scalar", scalar:item(), size * (size + 1) / 2)
same("a gathered scalar", world:all_gather(capl.tensor(rank + 1)):get(size), size)

-- ---- works ----

local works, expected = {}, {}
for k = 1, 40 do
  local n = k % 4 == 0 and 5000 or k
  works[k] = k % 3 == 0 and world:broadcast(capl.full({n}, rank * 100 + k), {from = k % size, async = true})
    or world:all_reduce(capl.full({n}, rank + k), {async = true})
  expected[k] = k % 3 == 0 and (k % size) * 100 + k or size * (size - 1) / 2 + k * size
end
for k = 40, 1, -1 do
  local t = works[k]:wait()
  same("work " .. k .. " is done", works[k]:done(), true)
  same("work " .. k, t:get(t:size(1)), expected[k])
  same("waiting twice", works[k]:wait() == t, true)
end
for _ = 1, 300 do world:all_reduce(capl.ones(3), {async = true}) end -- dropped; more than the queue is long
collectgarbage()
world:barrier()
same("after dropped works", world:all_reduce(capl.ones(1)):get(1), size)

-- ---- pairs ----

local peer = rank % 2 == 0 and rank + 1 or rank - 1
if peer >= size then peer = rank end
same("exchange", world:exchange(capl.full({9}, rank), peer):get(9), peer)
same("exchange of nothing", world:exchange(capl.zeros(0), peer):size(1), 0)

-- ---- metrics and words ----

same("a sum of metrics", world:sum{a = rank + 0.25}.a, size * (size - 1) / 2 + 0.25 * size)
same("a metric that one rank has", world:sum(rank == 0 and {only = 3} or {}).only, 3)
local texts = world:all_gather_text(("x"):rep(rank * 1000) .. "\0end")
for r = 1, size do same("a text's length", #texts[r], (r - 1) * 1000 + 4) end
local values = world:all_gather_object{rank = rank, text = "é\n"}
for r = 1, size do same("a gathered value", values[r].rank, r - 1) same("its text", values[r].text, "é\n") end
local before = world:traffic()
world:all_reduce(capl.zeros(1000))
local after = world:traffic()
same("calls counted", after.calls - before.calls, size > 1 and 1 or 0)
same("bytes counted", after.bytes - before.bytes, size > 1 and 4000 or 0)
same("nothing waits longer than it takes", after.waited >= before.waited and after.busy >= before.busy, true)

world:barrier()
world:print(checks .. " checks")
