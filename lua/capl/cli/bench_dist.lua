-- bench_dist.lua: `capl bench dist --ranks=N`: how long these ranks take to sum a tensor, from a few bytes to many;
-- with --simulate what that would make of a training step on up to 1,024 ranks (bench_dist_simulate.lua).
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json = require "json"
local options = require "cli.options"
local simulate = require "cli.bench_dist_simulate"

local bench_dist = {}

local SIZES = {4, 1024, 65536, 1e6, 8e6, 20e6, 76.3e6} -- bytes; the last: gradients of captcha_cnn in f32
local LEAST, MOST, BUDGET = 5, 200, 0.2 -- rounds of a size, and the seconds they should take in all

local own = {
  {name = "device", type = "text", value = "DEVICE", open = true, choices = {"auto", "cpu", "cuda"},
    doc = "auto, cpu, cuda: where the tensors are (auto)"},
  {name = "json", type = "flag", default = false, doc = "one JSON object instead of the table"},
  {name = "simulate", type = "flag", default = false, doc = "what a training step would cost on 1, 2, 4 … ranks; nothing is trained"},
}

bench_dist.options = {}
for _, list in ipairs{own, simulate.options} do
  for _, option in ipairs(list) do table.insert(bench_dist.options, option) end
end

-- Seconds of one sum of n values, on this rank; a GPU's work is waited for.
local function once(world, t)
  world:barrier()
  local before = core.clock()
  world:all_reduce(t)
  core.mark(0)
  core.mark(1)
  core.between(0, 1)
  return core.clock() - before
end

local function middle(list)
  table.sort(list)
  return list[math.floor((#list + 1) / 2)]
end

-- The slowest rank's seconds, for each round the same number on all ranks.
local function slowest(world, seconds)
  local most = 0
  for _, other in ipairs(world:gather(seconds)) do most = math.max(most, other) end
  return most
end

local function row(world, bytes)
  local t = core.zeros({math.max(1, bytes / 4)}, {dtype = "f32"})
  once(world, t)
  local first = slowest(world, once(world, t))
  local rounds = math.max(LEAST, math.min(MOST, math.floor(BUDGET / math.max(first, 1e-6))))
  local times = {}
  for i = 1, rounds do times[i] = once(world, t) end
  local seconds = slowest(world, middle(times))
  t:free()
  return {bytes = bytes, us = 1e6 * seconds, rounds = rounds, rate = bytes / seconds,
    link = bytes / seconds * 2 * (world.size - 1) / world.size}
end

local function size_text(bytes)
  if bytes < 1000 then return ("%d B"):format(bytes) end
  return bytes < 1e6 and ("%.0f KB"):format(bytes / 1e3) or ("%g MB"):format(bytes / 1e6)
end

local function print_table(world, rows)
  local out = core.sys.out
  out(("all-reduce of f32 between %d ranks (%s), the slowest rank's median\n"):format(world.size, world.backend))
  out(("  %9s  %10s  %9s  %9s  %6s\n"):format("tensor", "time", "GB/s", "per link", "rounds"))
  for _, r in ipairs(rows) do
    out(("  %9s  %7.1f us  %9.3f  %9.3f  %6d\n"):format(size_text(r.bytes), r.us, r.rate / 1e9, r.link / 1e9, r.rounds))
  end
  out("  GB/s: bytes of the tensor a second; per link: what each rank sends, 2 (R - 1) / R of them\n")
end

local function measure(o)
  local world = require("dist").world()
  if world.size < 2 then
    core.error{code = "value", message = "one rank has nobody to exchange with",
      hint = "capl bench dist --ranks=2 measures two; --simulate needs none"}
  end
  local rows = {}
  for i, bytes in ipairs(SIZES) do rows[i] = row(world, bytes) end
  if world.rank > 0 then return end
  if not o.json then return print_table(world, rows) end
  core.sys.out(json.encode({ranks = world.size, backend = world.backend, device = (core.device()), version = core.version(), rows = rows})
    .. "\n")
end

--- job: its words begin with "dist"
function bench_dist.run(job)
  local o, words = options.read(job.args, bench_dist.options, {command = "bench dist"})
  if words[2] then core.error{code = "value", message = ("'%s' is no option; write --key=value"):format(words[2])} end
  if o.device then core.device(o.device) end
  if o.simulate then return simulate.run(o) end
  for _, option in ipairs(simulate.options) do
    if o[option.name] ~= option.default then
      core.error{code = "value", message = ("--%s is an option of --simulate"):format(option.name)}
    end
  end
  return measure(o)
end

return bench_dist
