-- preflight.lua: before the first batch: whether all ranks are about to do the same, and how fast they and their links
-- are.
--
-- Everything that would part the ranks later, or spoil the weights without a word, is found in one exchange: another
-- capl, another recipe, other settings, devices, types, data, numbers of batches, another model. The rest is measured,
-- in tens of milliseconds.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local precision = require "precision"

local preflight = {}

local BYTES = 8e6 -- of an all-reduce that is measured
local ROUNDS = 3 -- of those, the fastest counts
local SIDE, PRODUCTS = 256, 4 -- of the matrices whose products are timed
local SLOW = 1.2 -- times the fastest rank's time from which on the slowest one is a matter

-- ---- what must be alike ----

local function hash_of(source)
  local fine, hash = pcall(source.box.hash, source.box)
  return fine and hash or nil -- a file that went away is the loader's business
end

local function ranks_of(loader) return loader.ranks and loader:ranks() or 1 end

local function loader_facts(entry)
  local loader, shared = entry.loader, ranks_of(entry.loader) > 1
  return {role = entry.role, batch = loader.batch, batches = entry.role == "train" and loader:batches() or nil,
    shared = shared, rank = shared and loader.low.rank or nil, samples = shared and loader:all_samples() or nil,
    hash = shared and hash_of(loader.source) or nil}
end

-- Values of settings that a person chose; what capl chose may differ between machines, as the number of threads does.
local function settings_facts(run)
  local out = {}
  for _, s in ipairs(run.settings) do
    if s.origin ~= "auto" and s.key ~= "device" and type(s.value) ~= "table" then out[s.key] = tostring(s.value) end
  end
  return out
end

local function model_facts(model)
  local parts, count = {}, 0
  if not model then return nil end
  for name, p in model:named_parameters() do
    parts[#parts + 1] = ("%s %s %s"):format(name, table.concat(p.shape, ","), p.dtype)
    count = count + p:numel()
  end
  return {parameters = count, shapes = core.sha256(table.concat(parts, "\n"))}
end

local function own_facts(run)
  local kind = run:precision() or precision.name("auto")
  local out = {host = require("dist").world().host, version = core.version(), recipe = core.sha256(run.text or ""),
    device = core.device():match("^%a+"), precision = kind, settings = settings_facts(run),
    model = model_facts(run.model), loaders = {}}
  for i, entry in ipairs(run.loaders) do out.loaders[i] = loader_facts(entry) end
  return out
end

-- ---- how two ranks differ ----

local function short(hash) return hash and hash:sub(1, 12) or "none" end

-- -> what, this rank's value, rank 0's value, what helps; nil when they are alike
local function loaders_differ(one, first)
  if #one.loaders ~= #first.loaders then
    return "has other loaders", #one.loaders, #first.loaders,
      "every rank makes the same loaders: let none of them depend on the rank"
  end
  for i, a in ipairs(one.loaders) do
    local b = first.loaders[i]
    if a.role ~= b.role then
      return "has another loader", a.role, b.role, "every rank makes the same loaders in the same order"
    end
    if a.batch ~= b.batch then
      return ("has another %s batch size"):format(a.role), a.batch, b.batch, "give the same batch on all ranks"
    end
    if a.hash ~= b.hash or a.samples ~= b.samples then
      local what = ("has other %s data"):format(a.role)
      local text = "%d samples, hash %s"
      return what, text:format(a.samples or 0, short(a.hash)), text:format(b.samples or 0, short(b.hash)),
        "copy the data to all hosts once more, or read them from one place"
    end
    if a.batches ~= b.batches then
      return ("has another number of %s batches an epoch"):format(a.role), a.batches, b.batches,
        "the ranks would wait for each other: leave out shard, which gives all of them equally many"
    end
  end
end

local function settings_differ(one, first)
  local keys = {}
  for _, settings in ipairs{one.settings, first.settings} do
    for key in pairs(settings) do keys[key] = true end
  end
  for key in pairs(keys) do
    local a, b = one.settings[key], first.settings[key]
    if a ~= b then
      return "has another setting " .. key, a or "none", b or "none", "start all ranks with the same arguments"
    end
  end
end

local function difference(one, first)
  local function simple(key, what, help)
    if one[key] ~= first[key] then return what, one[key], first[key], help end
  end
  local tests = {
    function() return simple("version", "runs another capl", "install one version on all hosts") end,
    function()
      if one.recipe ~= first.recipe then
        return "runs another text of the recipe", "sha256 " .. short(one.recipe), "sha256 " .. short(first.recipe),
          "copy it to all hosts"
      end
    end,
    function() return simple("device", "computes on another kind of device", "--device= names one that all hosts have")
    end,
    function() return simple("precision", "computes in another type", "--precision= names one that all hosts have") end,
    function() return settings_differ(one, first) end, function() return loaders_differ(one, first) end,
    function()
      if (one.model or {}).shapes ~= (first.model or {}).shapes then
        return "trains another model", ("%d parameters"):format(one.model and one.model.parameters or 0),
          ("%d parameters"):format(first.model and first.model.parameters or 0),
          "let nothing of the model depend on the rank"
      end
    end,
  }
  for _, test in ipairs(tests) do
    local what, a, b, help = test()
    if what then return what, a, b, help end
  end
end

--- Raises, on every rank, for the first rank that is about to do something else than rank 0.
-- in   all: own facts of every rank; hosts: their names
function preflight.compare(all, hosts)
  for i = 2, #all do
    local what, a, b, help = difference(all[i], all[1])
    if what then
      core.error{code = "value", op = "preflight", path = false, hint = help,
        message = ("rank %d (host %s) %s than rank 0 (host %s): %s, there %s"):format(i - 1, hosts[i], what, hosts[1],
          tostring(a), tostring(b))}
    end
  end
end

-- Loaders that are shared by hand: each rank has to name its own part.
local function check_shards(all)
  for k, first in ipairs(all[1].loaders) do
    for i, one in ipairs(all) do
      local rank = one.loaders[k].rank
      if first.shared and rank ~= i - 1 then
        core.error{code = "value", op = "preflight", path = false,
          message = ("rank %d reads the part of rank %s of the %s loader"):format(i - 1, tostring(rank), first.role),
          hint = "leave shard out: every rank gets its own part"}
      end
    end
  end
end

local function warn_unshared(run, all)
  for _, loader in ipairs(all[1].loaders) do
    if loader.role == "train" and not loader.shared then
      run:print(("warning: the train loader is not sharded (shard = false): each of the %d ranks reads all of it, " ..
        "and a step may see " ..
        "the same images several times"):format(#all))
    end
  end
end

-- ---- how fast they are ----

local function seconds_of(fn, times)
  local best = math.huge
  for i = 0, times do
    local began = core.clock()
    fn()
    if i > 0 then best = math.min(best, core.clock() - began) end -- the first one makes plans
  end
  return best
end

-- Seconds of a few products, on this rank alone.
local function compute_probe(device)
  local a = core.zeros(SIDE, SIDE, {dtype = "f32", device = device})
  return seconds_of(function()
    local x = a
    for _ = 1, PRODUCTS do x = x:matmul(a) end
    x:sum():item()
  end, ROUNDS)
end

local function link_probe(world)
  local t = core.zeros(BYTES / 4, {dtype = "f32", device = world.device})
  return seconds_of(function()
    world:all_reduce(t)
    if world.backend ~= "mpi" then t:narrow(1, 1, 1):sum():item() end -- a GPU is waited for
  end, ROUNDS)
end

local function count_of(list)
  local seen, n = {}, 0
  for _, name in ipairs(list) do
    if not seen[name] then seen[name], n = true, n + 1 end
  end
  return n
end

-- The slowest rank (from 0) and by how many times the fastest one's time.
local function slowest_of(seconds)
  local slow, least = 1, math.huge
  for i, s in ipairs(seconds) do
    if s > seconds[slow] then slow = i end
    least = math.min(least, s)
  end
  return slow - 1, seconds[slow] / math.max(least, 1e-9)
end

--- "ranks 2 on 1 host (mpi): all-reduce 2.8 GB/s, slowest rank 1 (1.04x)", and a note where one is much slower.
-- in   t: {hosts = names by rank, backend, bandwidth, compute = seconds by rank}
function preflight.lines(t)
  local rank, times = slowest_of(t.compute)
  local n = count_of(t.hosts)
  local lines = {("ranks %d on %d host%s (%s): all-reduce %.1f GB/s, slowest rank %d (%.2fx)"):format(#t.hosts, n,
    n == 1 and "" or "s", t.backend, t.bandwidth / 1e9, rank, times)}
  if times > SLOW then
    lines[2] = ("note: rank %d (host %s) takes %.1f times as long to compute as the fastest rank, and every step " ..
      "waits for it"):format(
      rank, t.hosts[rank + 1], times)
  end
  return lines
end

local function measure(world)
  local compute, link = compute_probe(world.device), link_probe(world)
  local all, out = world:all_gather_object{compute = compute, link = link, host = world.host},
    {compute = {}, hosts = {}, backend = world.backend}
  for i, one in ipairs(all) do
    out.compute[i], out.hosts[i] = one.compute, one.host
    out.bandwidth = math.min(out.bandwidth or math.huge, BYTES / one.link)
  end
  return out
end

local function size_text(bytes)
  return bytes < 1e6 and ("%.1f kB"):format(bytes / 1e3) or ("%.1f MB"):format(bytes / 1e6)
end

--- Compares and measures, once; every rank calls it at the same place. Raises where ranks differ.
function preflight.check(run)
  local world = require("dist").world()
  if run.preflight or world.size == 1 or (run.mode ~= "run" and run.mode ~= "bench") then return end
  run.preflight = {}
  world:hold("comparing the ranks")
  local own, hosts = own_facts(run), {}
  local all = world:all_gather_object(own)
  for i, one in ipairs(all) do hosts[i] = one.host end
  run.hosts = hosts
  preflight.compare(all, hosts)
  check_shards(all)
  run.preflight = core.no_grad(measure, world)
  world:hold(nil)
  for _, line in ipairs(preflight.lines(run.preflight)) do run:print(line) end
  if own.model then run:print(("gradients: %s a step from each rank"):format(size_text(4 * own.model.parameters))) end
  warn_unshared(run, all)
end

--- Checks before train.fit does anything with its options, or before the first batch of any other loop.
function preflight.listen(run)
  run:on("fit", function() preflight.check(run) end)
  function run.before_batch()
    run.before_batch = nil
    preflight.check(run)
  end
end

return preflight
