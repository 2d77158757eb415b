-- bit_exact.lua: what the bits of a run depend on besides its state, and the differences of two runs in it.
--
-- A run that is resumed on another machine or with another recipe gives other numbers: an error without --inexact.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local determinism = require "determinism"
local sync = require "dist.sync"
local facts = require "run.facts"

local exact = {}

local function is_drawn(loader) return not (loader.source.dir or loader.source.ordered) end

--- What loaders read, and whether it is drawn: more of it then begins with the same samples. It looks at every file.
function exact.data(loaders)
  local list = {}
  for i, loader in ipairs(loaders) do list[i] = {loader = loader, role = loader.role} end
  local out = facts.data(list)
  for _, entry in ipairs(list) do
    local noted, loader = out[entry.role], entry.loader
    if noted then noted.drawn = is_drawn(loader) end
    -- the images of a step
    if noted and entry.role == "train" and loader.ranks then noted.batch = noted.batch * loader:ranks() end
  end
  return out
end

--- {name = value}: all that a checkpoint notes of where and of what a run is. data: of exact.data;
-- accumulate: batches a step sums
function exact.facts(run, data, accumulate)
  local machine = facts.machine()
  return {
    version = core.version(), device = machine.device, hardware = machine.backend, isa = core.isa(),
    threads = machine.threads, precision = run:precision(), deterministic = run:setting("deterministic"),
    autotune = determinism.keeps_algorithms() or nil, recipe = run.text and core.sha256(run.text), data = data,
    accumulate = accumulate, ranks = sync.size(),
  }
end

local names = {
  {"version", "capl"}, {"device", "device"}, {"hardware", "hardware"}, {"isa", "instruction set"},
  {"threads", "compute threads"}, {"precision", "precision"}, {"accumulate", "batches a step"},
  {"deterministic", "deterministic"}, {"autotune", "autotune"},
}

local function text(value)
  if value == nil then return "none" end
  return tostring(value)
end

-- A longer run may draw more.
local function is_more(was, is) return was.drawn and is.drawn and (is.count or math.huge) > (was.count or math.huge) end

-- On another number of ranks each has other compute threads, and evaluations other batches; neither is more than
-- rounding.
local function as_if_ranks_were(facts_of, ranks)
  local out = setmetatable({threads = 0, hardware = tostring(facts_of.hardware):gsub(", %d+ threads?", "")},
    {__index = facts_of})
  out.data = {}
  for role, data in pairs(facts_of.data or {}) do
    out.data[role] = setmetatable({batch = role == "train" and data.batch or ranks}, {__index = data})
  end
  return out
end

-- Samples of one loader: what was read, and in batches of which size.
local function compare_data(out, role, was, is, longer)
  if longer and is_more(was, is) then was = setmetatable({count = is.count, hash = is.hash}, {__index = was}) end
  for _, key in ipairs{"batch", "count", "width", "height", "channels", "charset", "length"} do
    if was[key] ~= is[key] then
      out[#out + 1] = ("%s %s: %s, was %s"):format(role, key, text(is[key]), text(was[key]))
    end
  end
  if was.hash ~= is.hash then
    out[#out + 1] = ("%s data: hash %s, was %s"):format(role, is.unread or text(is.hash), text(was.hash))
  end
end

local function roles_of(a, b)
  local seen, out = {}, {}
  for _, data in ipairs{a, b} do
    for role in pairs(data) do
      if not seen[role] then out[#out + 1] = role end
      seen[role] = true
    end
  end
  table.sort(out)
  return out
end

local function ranks_text(n) return n == 1 and "1 rank" or ("%d ranks"):format(n) end

--- "1 rank, was 2" for a run that is resumed with another number of ranks; nil otherwise.
function exact.moved(was, is)
  local before, now = was.ranks or 1, is.ranks or 1
  if before == now then return nil end
  return ("%s, was %d: metrics are equal within rounding; with shards = S and deterministic, bit-exact"):format(ranks_text(now), before)
end

--- What keeps the images of a step on another number of ranks; nil when that is not what differs.
function exact.remedy(was, is)
  local before, now = was.data and was.data.train, is.data and is.data.train
  if not exact.moved(was, is) or not before or not now or before.batch == now.batch then return nil end
  local each = (before.batch or 0) / (is.ranks or 1)
  return each >= 1 and each % 1 == 0
    and ("a batch of %d on %s has the %d images of a step that there were"):format(each, ranks_text(is.ranks or 1),
      before.batch) or nil
end

--- Lines that say how things were when a checkpoint was saved and are now; none when all that counts is the same.
-- longer: the run was asked to be longer than it was
function exact.differences(was, is, longer)
  local out = {}
  if exact.moved(was, is) then was, is = as_if_ranks_were(was, 0), as_if_ranks_were(is, 0) end
  for _, entry in ipairs(names) do
    local key, name = entry[1], entry[2]
    if was[key] ~= is[key] then out[#out + 1] = ("%s: %s, was %s"):format(name, text(is[key]), text(was[key])) end
  end
  if was.recipe ~= is.recipe then out[#out + 1] = "recipe: its text has changed" end
  local a, b = was.data or {}, is.data or {}
  for _, role in ipairs(roles_of(a, b)) do compare_data(out, role, a[role] or {}, b[role] or {}, longer) end
  return out
end

return exact
