-- limit.lua: the key limit_batches of train.fit: epochs and evaluations of the first batches only, for a quick look.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local loaders = require "train.loaders"

local OP = "train.fit"

local Limit = {}
Limit.__index = Limit

-- A number of batches from 1 on, or a share of them below 1.
local function count_of(name, wanted, loader)
  if type(wanted) ~= "number" or not (wanted > 0) or (wanted >= 1 and wanted % 1 ~= 0) then
    check.fail(OP, ("limit_batches: %s is a number of batches, or a share of them below 1; got %s"):format(name,
      tostring(wanted)))
  end
  return wanted < 1 and math.ceil(wanted * loader:batches()) or wanted
end

local function prepare(o)
  local wanted = o.limit_batches
  if wanted == nil then return end
  if type(wanted) == "number" then wanted = {train = wanted, val = o.val and wanted or nil} end
  check.options(OP .. ": limit_batches", {{"train", "number"}, {"val", "number"}}, wanted)
  if not wanted.train and not wanted.val then check.fail(OP, "limit_batches names neither train nor val") end
  o.limit_batches = {}
  for _, name in ipairs{"train", "val"} do
    local loader = o[name]
    if wanted[name] and not loader then check.fail(OP, ("limit_batches: there is no %s loader"):format(name)) end
    if wanted[name] then
      local all, count = loader:batches(), count_of(name, wanted[name], loader)
      o[name] = loaders.limited(loader, count)
      if count < all then o.limit_batches[name] = {count = count, all = all, samples = loader:all_samples()} end
    end
  end
end

local function new(fit)
  local limits = fit.o.limit_batches
  if not limits or not (limits.train or limits.val) then return nil end
  local counter = {n = 0}
  fit.run:add_feature{name = "limit_batches", what = "epochs and evaluations cut short", count = function()
    return counter.n end}
  return setmetatable({fit = fit, limits = limits, counter = counter}, Limit)
end

function Limit:lines()
  local out = {}
  for _, name in ipairs{"train", "val"} do
    local l = self.limits[name]
    if l then out[#out + 1] = ("limit_batches: %d of %d %s batches%s"):format(l.count, l.all, name,
      name == "val" and ": its metrics are of a part of the set" or "") end
  end
  return out
end

function Limit:epoch_ended() self.counter.n = self.counter.n + 1 end

--- The metric carries the mark of what it is.
function Limit:evaluated(e)
  local l = self.limits.val
  if not l then return end
  self.counter.n = self.counter.n + 1
  e.metrics.partial = {batches = l.count, of = l.all}
end

function Limit:finish(result)
  self.counter.n = self.counter.n + 1 -- a run may end within its first short epoch
  result.limit_batches = self.limits
end

function Limit:state() return {cut = self.counter.n} end
function Limit:set_state(state) self.counter.n = state.cut end
function Limit.state_shape() return {cut = "count"} end

return {name = "limit", spec = {{"limit_batches", "number", "table"}}, prepare = prepare, new = new}
