-- weights.lua: parameters and buffers that are the same on every rank: sent by rank 0 at the start, compared later.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local classes = require "module_class"

local weights = {}

local bytes_of = {f32 = 4, f16 = 2, bf16 = 2, u8 = 1, i32 = 4, i64 = 8, bool = 1, f64 = 8}

local shared = setmetatable({}, {__mode = "k"}) -- tensors that were sent
local modules = setmetatable({}, {__mode = "k"}) -- modules met, -> number in the order of meeting
local n_modules = 0
weights.bytes = 0 -- sent so far

-- ---- what there is ----

local function meet(module)
  if module.before_save then module:before_save() end
  if modules[module] then return end
  n_modules = n_modules + 1
  modules[module] = n_modules
end

local function add(out, seen, name, tensor)
  if tensor and not seen[tensor] and tensor.device ~= "meta" then
    seen[tensor] = true
    out[#out + 1] = {name, tensor}
  end
end

--- Parameters and buffers of a module and all below it: list of {name, tensor}, in the same order on every rank.
function weights.of_module(model)
  local out, seen = {}, {}
  for _, module in model:named_modules() do meet(module) end
  for name, p in model:named_parameters() do add(out, seen, name, p) end
  for name, b in model:named_buffers() do add(out, seen, name, b) end
  return out
end

--- Parameters, and the buffers of the layers they belong to.
function weights.of_parameters(params)
  local out, seen = {}, {}
  for i, p in ipairs(params) do
    add(out, seen, "parameter " .. i, p)
    local module = classes.owners[p]
    if module then
      meet(module)
      for name, b in module:named_buffers() do add(out, seen, name, b) end
    end
  end
  return out
end

-- ---- from rank 0 to all ----

-- By dtype and device: {key =, list = of tensors, n = elements}, in order of first appearance.
local function by_kind(entries)
  local out, places = {}, {}
  for _, entry in ipairs(entries) do
    local t = entry[2]
    local key = t.dtype .. " " .. t.device
    if not places[key] then
      places[key] = {list = {}, n = 0, dtype = t.dtype, device = t.device}
      out[#out + 1] = places[key]
    end
    table.insert(places[key].list, t)
    places[key].n = places[key].n + t:numel()
  end
  return out
end

local function each_part(kind, flat, fn)
  local at = 1
  for _, t in ipairs(kind.list) do
    local n = t:numel()
    if n > 0 then fn(t, flat:narrow(1, at, n):view(t.shape)) end
    at = at + n
  end
end

-- bool and 16-bit numbers travel as they are: a broadcast only copies.
local function send(world, kind)
  local flat = core.empty({kind.n}, {dtype = kind.dtype, device = kind.device})
  if world.is_main then each_part(kind, flat, function(t, part) part:copy_(t) end) end
  world:broadcast(flat)
  if not world.is_main then each_part(kind, flat, function(t, part) t:copy_(part) end) end
  weights.bytes = weights.bytes + flat:numel() * bytes_of[kind.dtype]
  flat:free()
end

--- Gives every rank rank 0's values of those entries that were not sent before.
function weights.share(world, entries)
  local fresh = {}
  for _, entry in ipairs(entries) do
    if not shared[entry[2]] then fresh[#fresh + 1] = entry end
    shared[entry[2]] = true
  end
  core.no_grad(function()
    for _, kind in ipairs(by_kind(fresh)) do
      if kind.n > 0 then send(world, kind) end
    end
  end)
  for module in pairs(modules) do
    if #fresh > 0 and module.after_load then module:after_load() end
  end
end

-- ---- whether they still are the same ----

local function hashes(entries)
  local out = {}
  for i, entry in ipairs(entries) do out[i] = core.tensor_hash(entry[2]:contiguous()) end
  return table.concat(out, " ")
end

-- Running statistics of batch norm, which each rank gathers from its own images, and parameters of some models.
local function of_models(models)
  local statistics, parameters, seen = {}, {}, {}
  for _, model in ipairs(models) do
    for path, module in model:named_modules() do
      for _, name in ipairs(module.statistics or {}) do
        add(statistics, seen, path .. "." .. name, rawget(module, name))
      end
    end
    for name, p in model:named_parameters() do add(parameters, seen, name, p) end
  end
  return statistics, parameters
end

local function mean_of(world, kind)
  local flat = core.empty({kind.n}, {dtype = kind.dtype, device = kind.device})
  each_part(kind, flat, function(t, part) part:copy_(t) end)
  world:all_reduce(flat, {op = "mean"})
  each_part(kind, flat, function(t, part) t:copy_(part) end)
  flat:free()
end

-- Name of the first entry whose hash is another one.
local function first_difference(entries, own, other)
  local list, i = {}, 0
  for word in other:gmatch("%S+") do list[#list + 1] = word end
  for word in own:gmatch("%S+") do
    i = i + 1
    if word ~= list[i] then return entries[i] and entries[i][1] or "a weight" end
  end
  return "a weight"
end

local function check_parameters(world, parameters, texts)
  for r = 2, #texts do
    if texts[r] ~= texts[1] then
      local name = first_difference(parameters, texts[1], texts[r])
      core.error{code = "state", path = false,
        message = ("the ranks have drifted apart: %s of rank %d (host %s) is not that of rank 0"):format(name, r - 1,
        world.hosts[r]), hint = "a step, a load or a write in place that only some ranks do gives them different " ..
        "models: do it on all of them"}
    end
  end
end

--- Makes models the same on all ranks where they may differ, and raises where they must not: running statistics become
-- their mean over the ranks, parameters are compared. Every rank calls it.
-- errs state: names the first parameter that differs, and the rank
function weights.settle(world, models)
  local statistics, parameters = of_models(models)
  local same = true
  local sent, texts = world:all_gather_text(hashes(statistics) .. "|" .. hashes(parameters)), {}
  for r, text in ipairs(sent) do
    local first, second = text:match("^(.*)|(.*)$")
    same = same and first == sent[1]:match("^(.*)|")
    texts[r] = second
  end
  check_parameters(world, parameters, texts)
  if same then return end
  core.no_grad(function()
    for _, kind in ipairs(by_kind(statistics)) do mean_of(world, kind) end
  end)
end

return weights
