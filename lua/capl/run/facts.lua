-- facts.lua: what a run is made of, for settings.json: version, command, data with their hashes, model, machine.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local sync = require "dist.sync"

local facts = {}

local function processor()
  local text = core.sys.read("/proc/cpuinfo") or ""
  return text:match("model name%s*:%s*([^\n]+)")
end

--- Device, processor, threads, of several ranks how many and where: what metrics and speeds depend on.
-- assume: the facts that CAPL_ASSUME forces, nil where it is not set
function facts.machine()
  local device = core.device()
  local world = sync.world()
  return {ranks = world and world.size, hosts = world and observer.hosts,
    device = device, backend = core.device_info(device).description, processor = processor(),
    processors = core.sys.cpus(), threads = core.sys.threads(), assume = core.assume()}
end

-- -> hash; or nil and why: a file that went away is the loader's business
local function hash_of(source)
  local fine, hash = pcall(source.box.hash, source.box)
  if fine then return hash end
  return nil, core.is_error(hash) and hash.message or tostring(hash)
end

--- {role = {count, width, height, channels, batch, hash}} of the loaders of a run; a second one of a role is "val 2".
function facts.data(loaders)
  local out, seen = {}, {}
  for _, entry in ipairs(loaders) do
    local loader, source = entry.loader, entry.loader.source
    seen[entry.role] = (seen[entry.role] or 0) + 1
    local name = seen[entry.role] == 1 and entry.role or entry.role .. " " .. seen[entry.role]
    local box = source.box
    local hash, unread = hash_of(source)
    local count = (loader.all_samples or loader.samples)(loader) -- of all ranks
    out[name] = {count = count < 1e8 and count or nil, batch = loader.batch,
      width = box:width(), height = box:height(), channels = box:channels(),
      charset = loader.charset ~= "" and loader.charset or nil, length = loader.length, classes = loader.classes,
      hash = hash, unread = unread, generator = source.generator}
  end
  return out
end

--- {parameters, trainable, buffers} of a model, nil without one.
function facts.model(model)
  if not model then return nil end
  local out = {parameters = 0, trainable = 0, buffers = 0}
  for _, p in model:named_parameters() do
    out.parameters = out.parameters + p:numel()
    if p.requires_grad then out.trainable = out.trainable + p:numel() end
  end
  for _, b in model:named_buffers() do out.buffers = out.buffers + b:numel() end
  return out
end

return facts
