-- weights.lua: parameters and buffers that are the same on every rank: sent by rank 0 at the start, compared later.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local classes = require "nn.class"
local hooks = require "hooks"

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

-- ---- running statistics ----

local function in_order()
  local out = {}
  for module in pairs(modules) do
    if module.statistics then out[#out + 1] = module end
  end
  table.sort(out, function(a, b) return modules[a] < modules[b] end)
  return out
end

--- Running statistics of batch norm, which each rank gathers from its own images, become their mean over the ranks.
function weights.even_statistics(world)
  local entries = {}
  for _, module in ipairs(in_order()) do
    for _, name in ipairs(module.statistics) do
      local t = rawget(module, name)
      if t and t.device ~= "meta" then entries[#entries + 1] = {name, t} end
    end
  end
  core.no_grad(function()
    for _, kind in ipairs(by_kind(entries)) do
      local flat = core.empty({kind.n}, {dtype = kind.dtype, device = kind.device})
      each_part(kind, flat, function(t, part) part:copy_(t) end)
      world:all_reduce(flat, {op = "mean"})
      each_part(kind, flat, function(t, part) t:copy_(part) end)
      flat:free()
    end
  end)
end

-- ---- whether they still are ----

local function hashes(entries)
  local out = {}
  for i, entry in ipairs(entries) do out[i] = core.tensor_hash(entry[2]:contiguous()) end
  return out
end

local function differ(entries, ranks, own, other)
  local words = {}
  for word in other:gmatch("%S+") do words[#words + 1] = word end
  local i = 0
  for word in own:gmatch("%S+") do
    i = i + 1
    if word ~= words[i] then break end
  end
  core.error{code = "state", path = false,
    message = ("the ranks have drifted apart: %s differs between rank %d and rank %d"):format(
      entries[i] and entries[i][1] or "a weight", ranks[1], ranks[2]),
    hint = "a step, a load or a write in place that only some ranks do gives them different models: do it on all"}
end

--- Raises where a rank's weights are not rank 0's. entries: of weights.of_module; parameters alone are compared.
-- errs state: names the first parameter that differs, and the rank
function weights.compare(world, entries)
  local own = table.concat(hashes(entries), " ")
  for r, text in ipairs(world:tell(own)) do
    if text ~= own then differ(entries, {world.rank, r - 1}, own, text) end
  end
end

--- Compares the weights of the registered model, if there is one.
function weights.guard(world)
  if not hooks.model then return end
  local entries = {}
  for name, p in hooks.model:named_parameters() do add(entries, {}, name, p) end
  weights.compare(world, entries)
end

return weights
