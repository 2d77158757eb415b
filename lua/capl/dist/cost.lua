-- cost.lua: what a step of several ranks should cost: computing, the exchange of gradients, and how much of it is hidden.
--
-- Plain arithmetic; whoever asks says what was measured and what is assumed. Seconds, bytes, bytes a second throughout.
--
--   local links = {bandwidth = 20e9, latency = 10e-6}                -- between ranks of one host; between hosts: network = {…}
--   local e = cost.estimate{ranks = 3, compute = 0.041, bytes = 76e6, links = links}
--   cost.line(e)      --> "expected efficiency 97 %: 41 ms computing, 5.2 ms all-reduce of which 3.9 ms hidden"
--   cost.advice(e)    --> nil, or why fewer ranks would do as well
-- A rate measured with these ranks takes the place of links: {rate = 2.8e9} (bytes of the tensor a second).
-- SPDX-License-Identifier: Apache-2.0
local cost = {}

cost.BUCKET = 25e6 -- bytes of gradients that are exchanged at once
cost.BACKWARD = 2 / 3 -- share of computing that is the backward pass: two products for one
local PAYS = 1.3 -- times the images a second of half as many ranks: below it the others are better used elsewhere

-- ---- one all-reduce ----

--- Each rank passes a part on to the next, twice around: least bytes, most messages.
function cost.ring(bytes, ranks, link)
  if ranks < 2 then return 0 end
  return 2 * (ranks - 1) * link.latency + 2 * (ranks - 1) / ranks * bytes / link.bandwidth
end

--- Up a tree and down again, in small pieces that follow each other: few messages, up to half as many bytes again.
function cost.tree(bytes, ranks, link)
  if ranks < 2 then return 0 end
  return 2 * math.ceil(math.log(ranks) / math.log(2) - 1e-9) * link.latency + 2 * bytes / link.bandwidth
end

--- Within hosts first: each rank sums a part of its host's gradients, the hosts exchange those parts, and hand them out again.
-- links {bandwidth, latency, network = {bandwidth = of a whole host, latency}}; per_host ranks
function cost.hosts(bytes, ranks, per_host, links)
  local hosts, network = math.ceil(ranks / per_host), links.network
  return cost.ring(bytes, math.min(ranks, per_host), links) + math.min(cost.ring(bytes, hosts, network), cost.tree(bytes, hosts, network))
end

-- A plain ring or tree goes through the network of every host.
local function slowest(links)
  local network = links.network
  return {bandwidth = math.min(links.bandwidth, network.bandwidth), latency = math.max(links.latency, network.latency)}
end

--- The ways to do it: {ring, tree [, by_hosts]} in seconds.
function cost.ways(bytes, ranks, links, per_host)
  local several = links.network and per_host and ranks > per_host
  local link = several and slowest(links) or links
  return {ring = cost.ring(bytes, ranks, link), tree = cost.tree(bytes, ranks, link),
    by_hosts = several and cost.hosts(bytes, ranks, per_host, links) or nil}
end

cost.names = {"ring", "tree", "by_hosts"}

--- The fastest way, or the one that is asked for (on one host, by hosts is a ring) -> seconds, name.
function cost.all_reduce(bytes, ranks, links, per_host, way)
  if ranks < 2 then return 0, "none" end
  if links.rate then return 2 * (links.latency or 0) + bytes / links.rate, "measured" end
  local ways, found = cost.ways(bytes, ranks, links, per_host), way
  if way then return ways[way] or ways.ring, way end
  for _, name in ipairs(cost.names) do
    if ways[name] and (not found or ways[name] < ways[found]) then found = name end
  end
  return ways[found], found
end

-- ---- a step ----

--- Gradients in the order in which the backward pass makes them: list of {bytes, ready = share of that pass that is over}.
-- layers {parameters, macs} from the first to the last; size = bytes of a gradient; bucket = bytes at least
function cost.buckets(layers, size, bucket)
  local all, done, held, out = 0, 0, 0, {}
  for _, layer in ipairs(layers) do all = all + layer.macs end
  for i = #layers, 1, -1 do
    done, held = done + layers[i].macs, held + layers[i].parameters * size
    if held >= (bucket or cost.BUCKET) or (i == 1 and held > 0) then
      out[#out + 1] = {bytes = held, ready = all > 0 and done / all or 1}
      held = 0
    end
  end
  return out
end

-- Gradients of whose layers nothing is known: they come evenly.
local function even_buckets(bytes)
  local n, out = math.max(1, math.ceil(bytes / cost.BUCKET)), {}
  for i = 1, n do out[i] = {bytes = bytes / n, ready = i / n} end
  return out
end

-- When the last bucket is there, from the beginning of the step; and the seconds that buckets were under way.
local function exchange(o, buckets)
  local forward, backward = o.compute * (1 - cost.BACKWARD), o.compute * cost.BACKWARD
  local free, busy, how = 0, 0, nil
  for _, bucket in ipairs(buckets) do
    local takes, name = cost.all_reduce(bucket.bytes, o.ranks, o.links, o.per_host, o.way)
    local from = math.max(free, forward + backward * (o.overlap == false and 1 or bucket.ready))
    free, busy, how = from + takes, busy + takes, name
  end
  return free, busy, how
end

--- What a step costs.
-- o    ranks; compute = seconds of a step without exchange; bytes = of all gradients, or buckets as of cost.buckets; links =
--      {bandwidth =, latency = [, network = {bandwidth =, latency =}]} or {rate = measured}; per_host = ranks; overlap = true;
--      way = "ring" | "tree" | "by_hosts", the fastest unless told
-- out  {ranks, compute, reduce = seconds of exchange, hidden of them, step, efficiency, speedup, how}; and the options
function cost.estimate(o)
  local buckets = o.buckets or even_buckets(o.bytes)
  local free, busy, how = exchange(o, buckets)
  local step = math.max(o.compute, free)
  local efficiency = step > 0 and o.compute / step or 1
  return {ranks = o.ranks, compute = o.compute, reduce = busy, hidden = math.max(0, busy - (step - o.compute)), step = step,
    efficiency = efficiency, speedup = o.ranks * efficiency, how = how or "none", o = o}
end

--- The same step on other numbers of ranks: list of estimates.
function cost.scale(o, list)
  local out = {}
  for i, ranks in ipairs(list) do
    local copy = {}
    for key, value in pairs(o) do copy[key] = value end
    copy.ranks = ranks
    out[i] = cost.estimate(copy)
  end
  return out
end

-- ---- words ----

local function seconds(x)
  if x >= 10 then return ("%.1f s"):format(x) end
  if x >= 1 then return ("%.2f s"):format(x) end
  local ms = 1000 * x
  return (ms >= 10 and "%.0f ms" or ms >= 1 and "%.1f ms" or "%.2f ms"):format(ms)
end
cost.seconds = seconds

--- "expected efficiency 94 %: 41 ms computing, 5.2 ms all-reduce of which 4.1 ms hidden"
function cost.line(e)
  return ("expected efficiency %.0f %%: %s computing, %s all-reduce of which %s hidden"):format(
    100 * e.efficiency, seconds(e.compute), seconds(e.reduce), seconds(e.hidden))
end

--- Why half as many ranks would do nearly as well; nil when these pay.
function cost.advice(e)
  if e.ranks < 2 then return nil end
  local fewer = cost.scale(e.o, {math.floor(e.ranks / 2)})[1]
  local gain = e.speedup / fewer.speedup
  if gain >= PAYS then return nil end
  local what = fewer.ranks == 1 and "a second rank would not pay" or ("%d ranks would not pay"):format(e.ranks)
  return ("%s: %d make %.2f times the images a second of %d, for %s of exchange beside %s of computing; a larger batch per rank, "
    .. "or accumulate, computes more between two exchanges"):format(what, e.ranks, gain, fewer.ranks, seconds(e.reduce), seconds(e.compute))
end

--- Of a run that has ended: took = its seconds of training, waited = those in which it waited for exchanges.
function cost.measured(took, waited) return took > 0 and math.max(0, 1 - waited / took) or nil end

--- "efficiency expected 94 %, measured 91 %"; either may be nil.
function cost.compare(expected, measured)
  if not measured then return nil end
  local before = expected and ("expected %.0f %%, "):format(100 * expected) or ""
  return ("efficiency %smeasured %.0f %%"):format(before, 100 * measured)
end

return cost
