-- bench_dist_simulate.lua: `capl bench dist --simulate`: a training step on 1, 2, 4 … ranks by the cost model of dist/cost.lua,
-- with what it assumes, and a picture.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local cost = require "dist.cost"
local json = require "json"

local simulate = {}

-- captcha_cnn on an A100: 1,024 images of 2.37 GFLOP each, at 30 % of its 312 TFLOP/s in fp16.
local BYTES, COMPUTE = 76.29e6, 26
local WAIT = 30 -- seconds that a measurement here may take

simulate.options = {
  {name = "ranks", type = "number", from = 1, to = 1048576, doc = "ranks to go up to (1024)"},
  {name = "bytes", type = "number", from = 1, doc = ("bytes of gradients (%.0f: 19,072,400 parameters in f32)"):format(BYTES)},
  {name = "compute", type = "number", doc = ("ms of computing a step (%g: 1,024 images on an A100, assumed)"):format(COMPUTE)},
  {name = "gpus_per_host", type = "number", from = 1, doc = "ranks of a host (8)"},
  {name = "bandwidth", type = "number", doc = "GB/s between ranks of a host (200: NVLink of an A100, assumed)"},
  {name = "latency", type = "number", doc = "us of a message between them (measured here where Open MPI is, else 10)"},
  {name = "network", type = "number", doc = "GB/s between hosts, of a whole host (25: one 200 Gbit/s adapter, assumed)"},
  {name = "network_latency", type = "number", doc = "us of a message between hosts (twice --latency, at least 5)"},
  {name = "out", type = "text", value = "FILE", doc = "picture of efficiency over ranks (dist.png)"},
}

-- ---- what is put in ----

local function positive(o)
  for _, name in ipairs{"compute", "bandwidth", "latency", "network", "network_latency"} do
    local value = o[name]
    if value and not (value > 0 and value < 1e12) then
      core.error{code = "value", message = ("--%s is above 0, not %g"):format(name, value)}
    end
  end
end

-- What `capl bench dist` measures between two ranks of this machine; nil and why where it cannot.
local function measured()
  local log = ("%s/capl-bench-dist-%d.log"):format(core.sys.getenv("TMPDIR") or "/tmp", core.sys.time())
  local child, why = core.sys.spawn{args = {"bench", "dist", "--ranks=2", "--json", "--device=cpu"}, log = log, env = {}}
  if not child then return nil, why end
  local limit = core.clock() + WAIT
  local status
  repeat
    core.sys.sleep(0.02)
    status = child:poll()
  until status or core.clock() > limit
  if not status then child:signal("TERM") end
  local text = core.sys.read(log) or ""
  core.sys.remove(log)
  local fine, found = pcall(core.json_decode, text:match("{.*}") or "")
  if status ~= 0 or not fine then return nil, text:match("[^\n]+") or "it did not end" end
  return found
end

-- Latency of a message: an all-reduce of 4 bytes between two ranks is two of them.
local function latency_here()
  local found, why = measured()
  if not found then return nil, why end
  return found.rows[1].us / 2, ("measured here between 2 ranks (%s)"):format(found.backend)
end

-- {links, compute, bytes, per_host, told = how each came about}
local function read(o)
  positive(o)
  local latency, how = o.latency, "given"
  if not latency then latency, how = latency_here() end
  if not latency then latency, how = 10, "assumed; not measured here: " .. how end
  local function origin(name) return o[name] and "given" or "assumed" end
  local network_latency = o.network_latency or math.max(5, 2 * latency)
  return {
    ranks = o.ranks or 1024, bytes = o.bytes or BYTES, compute = (o.compute or COMPUTE) / 1e3, per_host = o.gpus_per_host or 8,
    links = {bandwidth = (o.bandwidth or 200) * 1e9, latency = latency / 1e6,
      network = {bandwidth = (o.network or 25) * 1e9, latency = network_latency / 1e6}},
    told = {compute = origin("compute"), bandwidth = origin("bandwidth"), latency = how, network = origin("network"),
      network_latency = o.network_latency and "given" or "assumed: twice that of a host, at least 5 us"},
  }
end

-- ---- what comes out ----

local function doubled(most)
  local list, n = {}, 1
  while n < most do list[#list + 1], n = n, 2 * n end
  list[#list + 1] = most
  return list
end

local function rows_of(given)
  local list, rows = doubled(given.ranks), {}
  for i, ranks in ipairs(list) do
    local row = {ranks = ranks, hosts = math.ceil(ranks / given.per_host)}
    for _, way in ipairs(cost.names) do
      local e = cost.estimate{ranks = ranks, compute = given.compute, bytes = given.bytes, links = given.links,
        per_host = given.per_host, way = way}
      row[way] = e
      if not row.best or e.step < row.best.step then row.best, row.way = e, way end
    end
    rows[i] = row
  end
  return rows
end

local function assumptions(given)
  local l, t = given.links, given.told
  return {
    ("computing        %s a step (%s); every rank takes as long, and the images of a step grow with the ranks"):format(
      cost.seconds(given.compute), t.compute),
    ("gradients        %.4g MB, in buckets of %.0f MB that come evenly through the backward pass (%.0f %% of computing); "
      .. "the last is never hidden"):format(given.bytes / 1e6, cost.BUCKET / 1e6, 100 * cost.BACKWARD),
    ("within a host    %d ranks, %.4g GB/s (%s), %.3g us a message (%s)"):format(given.per_host, l.bandwidth / 1e9, t.bandwidth,
      1e6 * l.latency, t.latency),
    ("between hosts    %.4g GB/s of a host (%s), %.3g us a message (%s); nobody else uses the network"):format(
      l.network.bandwidth / 1e9, t.network, 1e6 * l.network.latency, t.network_latency),
    "ring             2 (R - 1) messages, 2 (R - 1) / R of the bytes; tree: 2 log2 R messages, 2 times the bytes",
    "hosts            a ring in each host, ring or tree of the hosts; NCCL chooses by its own measurements",
  }
end

local function line(row)
  local b = row.best
  local function percent(way) return ("%5.1f"):format(100 * row[way].efficiency) end
  local function seconds(x) return row.ranks > 1 and cost.seconds(x) or "-" end
  return ("  %7d  %5d  %5s  %5s  %5s  %10s  %10s  %7.1f x"):format(row.ranks, row.hosts, percent("ring"), percent("tree"),
    percent("by_hosts"), seconds(b.reduce), seconds(b.hidden), b.speedup)
end

local function draw(given, rows, path)
  local series = {}
  for i, way in ipairs(cost.names) do
    local x, y = {}, {}
    for k, row in ipairs(rows) do x[k], y[k] = row.ranks, row[way].efficiency end
    series[i] = {name = way == "by_hosts" and "by hosts" or way, x = x, y = y}
  end
  require("plot").lines{path = path, log_x = true, x_label = "ranks", height = 420,
    title = ("efficiency by the cost model: %.0f MB, %s of computing, %d ranks a host"):format(given.bytes / 1e6,
      cost.seconds(given.compute), given.per_host),
    panels = {{y_label = "efficiency", percent = true, min = 0, max = 1.02, series = series}}}
end

local function advice(rows)
  for _, row in ipairs(rows) do
    if row.ranks == 2 then return cost.advice(row.best) end
  end
end

local function print_json(given, rows, path)
  local out = {simulated = true, bytes = given.bytes, compute = given.compute, links = given.links, per_host = given.per_host,
    assumed = given.told, picture = path, rows = {}}
  for i, row in ipairs(rows) do
    out.rows[i] = {ranks = row.ranks, hosts = row.hosts, way = row.way, seconds = row.best.reduce, hidden = row.best.hidden,
      efficiency = row.best.efficiency, speedup = row.best.speedup, ring = row.ring.efficiency, tree = row.tree.efficiency,
      by_hosts = row.by_hosts.efficiency}
  end
  core.sys.out(json.encode(out, true) .. "\n")
end

--- Simulates and prints. o: the options
function simulate.run(o)
  local given = read(o)
  local rows, path = rows_of(given), o.out or "dist.png"
  draw(given, rows, path)
  if o.json then return print_json(given, rows, path) end
  local out = core.sys.out
  out("a training step on several ranks, by a cost model; nothing of it was run\n")
  for _, text in ipairs(assumptions(given)) do out("  " .. text .. "\n") end
  out(("\n  %7s  %5s  %5s  %5s  %5s  %10s  %10s  %9s\n"):format(
    "ranks", "hosts", "ring", "tree", "hosts", "exchange", "hidden", "speed-up"))
  for _, row in ipairs(rows) do out(line(row) .. "\n") end
  out("  ring, tree, hosts: efficiency in %, images a second compared with as many ranks by themselves; the rest is of the best of them\n")
  local warning = advice(rows)
  if warning then out("warning: " .. warning .. "\n") end
  out("picture: " .. path .. "\n")
end

return simulate
