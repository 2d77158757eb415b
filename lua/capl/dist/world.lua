-- world.lua: what ranks do together: tensors that become one, numbers that are added up, words that only one of them
-- says.
--
-- All ranks make the same calls in the same order. Rank numbers count from 0, as launchers count.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local World = {}
local renamed = {gather = "all_gather_object", tell = "all_gather_text"} -- methods of recipes from before

-- Alone the device is the default one at the moment: a recipe may choose it later.
World.__index = function(_, key)
  if key == "device" then return (core.device()) end
  if renamed[key] then check.fail("world", ("world:%s was renamed"):format(key), "call world:" .. renamed[key]) end
  return World[key]
end
World.__tostring = function(self) return ("rank %d of %d on %s"):format(self.rank, self.size, self.device) end

local world = {}

--- The world from what core.dist.join gives.
function world.new(place, backend, hosts)
  if place.size > 1 then place.device = (core.device()) end
  place.backend, place.hosts, place.is_main = backend, hosts, place.rank == 0
  return setmetatable(place, World)
end

function world.is_world(value) return getmetatable(value) == World end

-- ---- tensors ----

local reductions = {"sum", "mean", "max"}
local op_option, async_option = {"op", "string", default = "sum"}, {"async", "boolean", default = false}

-- What a method's first argument has to be.
local function tensor_of(self, op, t)
  if not world.is_world(self) then
    check.fail(op, "its world is missing", ("call it with a colon: world:%s(…)"):format(op))
  end
  return check.arg(1, op, "tensor", t)
end

local function reduction_of(op, opts) return check.one_of(op, "op", opts.op, reductions) end

--- Reduces t over all ranks, in place: sum, mean or max of every element.
-- in   t: contiguous (other views are an error); op "sum", "mean", "max"; async = true: runs in parallel to later code
-- out  t, or with async a work: work:wait() returns t when it is ready, work:done() whether it is
-- errs shape, dtype, state: the ranks do not make the same call; every rank gets it
-- eg   return capl.distributed():all_reduce(capl.ones(2)):get(1)  --> 1
function World:all_reduce(t, opts)
  opts = check.options("all_reduce", {op_option, async_option}, opts)
  return core.dist.all_reduce(tensor_of(self, "all_reduce", t), reduction_of("all_reduce", opts), opts.async)
end

--- Copies rank from's t to all ranks, in place; from = 0 unless given.
function World:broadcast(t, opts)
  opts = check.options("broadcast", {{"from", "whole", default = 0}, async_option}, opts)
  return core.dist.broadcast(tensor_of(self, "broadcast", t), opts.from, opts.async)
end

--- A new tensor (size, …) of every rank's t (…), in the order of ranks.
function World:all_gather(t, opts)
  opts = check.options("all_gather", {async_option}, opts)
  return core.dist.all_gather(tensor_of(self, "all_gather", t), opts.async)
end

--- This rank's part (…) of the reduction of every rank's t (size, …).
function World:reduce_scatter(t, opts)
  opts = check.options("reduce_scatter", {op_option, async_option}, opts)
  return core.dist.reduce_scatter(tensor_of(self, "reduce_scatter", t), reduction_of("reduce_scatter", opts),
    opts.async)
end

--- Exchanges t with rank peer, which names this rank in the same call; returns the peer's tensor.
function World:exchange(t, peer, opts)
  opts = check.options("exchange", {async_option}, opts)
  return core.dist.exchange(tensor_of(self, "exchange", t), check.arg(2, "exchange", "whole", peer), opts.async)
end

--- Returns when every rank has called it and all earlier work is done.
function World:barrier() core.dist.barrier() end

-- ---- texts and numbers ----

--- List of every rank's text, in the order of ranks. For kilobytes.
function World:all_gather_text(text) return core.dist.tell(check.arg(1, "all_gather_text", "string", text)) end

--- List of every rank's value: numbers, texts, booleans, lists and tables of them.
function World:all_gather_object(value)
  local values = {}
  for i, text in ipairs(self:all_gather_text(core.json_encode{value})) do values[i] = core.json_decode(text)[1] end
  return values
end

--- {key = sum over all ranks}, bit-exact on each rank: added in the order of ranks. A key that a rank lacks counts as
-- 0.
-- eg   return capl.distributed():sum{right = 3, seen = 4}.right  --> 3
function World:sum(values)
  local lines = {}
  for key, value in pairs(check.arg(1, "sum", "table", values)) do
    if type(key) ~= "string" or key:find("%c") then
      check.fail("sum", "the names of metrics are strings of one line")
    end
    if type(value) ~= "number" then
      check.fail("sum", ("%s is a %s, and metrics are numbers"):format(key, core.typename(value)))
    end
    lines[#lines + 1] = ("%s\t%.17g"):format(key, value)
  end
  local sums = {}
  for _, text in ipairs(self:all_gather_text(table.concat(lines, "\n"))) do
    for key, value in text:gmatch("([^\t\n]*)\t([^\n]*)") do sums[key] = (sums[key] or 0) + tonumber(value) end
  end
  return sums
end

--- {calls, bytes, busy, waited} of the collectives so far: bytes of this rank's tensors; seconds with at least one in
-- flight, and seconds in which this rank only waited.
function World:traffic()
  local calls, bytes, busy, waited = core.dist.traffic()
  return {calls = calls, bytes = bytes, busy = busy, waited = waited}
end

--- The global batch size where each rank takes n.
-- eg   capl.distributed():batch(64)  --> 64
function World:batch(n) return n * self.size end

--- capl.replicate(model): broadcasts the weights of rank 0, and sets the bucket size of gradients.
function World:replicate(model, opts) return require("dist.parallel").replicate(model, opts) end

--- print on rank 0 alone.
function World:print(...)
  if self.is_main then print(...) end
end

--- While a reason is set ("compiling"), the watchdog does not report this rank as hanging; nil clears it.
function World:hold(reason)
  core.dist.hold(reason ~= nil and check.arg(1, "hold", "string", reason) or nil)
end

return world
