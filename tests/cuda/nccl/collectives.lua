--- capl: 1
-- collectives.lua: each collective in every dtype and a few sizes, against sums in Lua; answers are asked for late, so
-- that several are under way. Run by ranks.py. (tests/dist has more cases, for the same calls on processors.)
-- SPDX-License-Identifier: Apache-2.0
local world = capl.distributed()
local rank, size = world.rank, world.size
local wanted = {} -- {what, work, list of numbers}

-- Small whole numbers, exact in every dtype.
local function value(r, i) return (r * 5 + i) % 7 - 3 end

local function list_of(n, at)
  local out = {}
  for i = 1, n do out[i] = at(i) end
  return out
end

local function mine(n, dtype) return capl.tensor(list_of(n, function(i) return value(rank, i) end)):to(dtype) end

local function reduced(op, i)
  local total = value(0, i)
  for r = 1, size - 1 do
    total = op == "max" and math.max(total, value(r, i)) or op ~= "max" and total + value(r, i) or total
  end
  return op == "mean" and total / size or total
end

local function expect(what, work, n, at) wanted[#wanted + 1] = {what, work, list_of(n, at)} end

local later = {async = true}

local function try(dtype, n)
  for _, op in ipairs{"sum", "max", dtype:match("^[fb]") and "mean"} do
    expect(op, world:all_reduce(mine(n, dtype), {op = op, async = true}), n, function(i) return reduced(op, i) end)
  end
  expect("broadcast", world:broadcast(mine(n, dtype), {from = size - 1, async = true}), n, function(i)
    return value(size - 1, i) end)
  expect("all_gather", world:all_gather(mine(n, dtype), later), n * size,
    function(i) return value(math.floor((i - 1) / n), (i - 1) % n + 1) end)
  expect("reduce_scatter", world:reduce_scatter(mine(n * size, dtype):view(size, n), later), n,
    function(i) return reduced("sum", rank * n + i) end)
  local peer = size - 1 - rank -- with an odd number of ranks the middle one talks to itself
  expect("exchange", world:exchange(mine(n, dtype), peer, later), n, function(i) return value(peer, i) end)
end

for _, dtype in ipairs{"f32", "f64", "f16", "bf16", "i32", "i64"} do
  for _, n in ipairs{1, 7, 300} do try(dtype, n) end
end
expect("broadcast of bytes", world:broadcast(mine(9, "f32"):gt(0):to("u8"), later), 9, function(i)
  return value(0, i) > 0 and 1 or 0 end)
world:all_reduce(capl.zeros(0))

for _, case in ipairs(wanted) do
  local what, got, numbers = case[1], case[2]:wait(), case[3]
  local off = (got:to("f32"):view(-1) - capl.tensor(numbers)):abs():sum():item()
  if off ~= 0 then error(("rank %d: %s of %d %s is off by %g"):format(rank, what, #numbers, got.dtype, off)) end
end
local traffic = world:traffic()
if size > 1 and not (traffic.busy > 0) then error("the collectives took no time: " .. tostring(traffic.busy)) end
-- The GPU has nothing else to do than these, so nothing of them is hidden; its processor never waits.
local big = capl.ones(200000)
for _ = 1, 4 do world:all_reduce(big, {op = "max"}) end
local _ = big:sum():item()
local now = world:traffic()
local busy, waited = now.busy - traffic.busy, now.waited - traffic.waited
if size > 1 and waited < 0.8 * busy then error(("waited %g s for %g s of collectives"):format(waited, busy)) end
world:print(#wanted .. " answers are right")
