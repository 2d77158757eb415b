-- freeze.lua: the key freeze of train.fit: parts of the model are trained later than others, or not at all.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local freeze = require "train.freeze"
local names = require "nn.names"

local OP = "train.fit: freeze"

local Freeze = {}
Freeze.__index = Freeze

local spec = {
  {"names", "string", "table", required = true}, {"steps", "whole"}, {"epochs", "whole"}, {"batch_norm", "boolean", default = true},
}

-- "0", {"0", "1"}, {names = …, epochs = 2} or a list of such tables -> list of such tables
local function entries_of(given)
  if type(given) == "string" or type(given[1]) == "string" then return {{names = given}} end
  if given[1] == nil and next(given) ~= nil then return {given} end
  return given
end

local function read_entry(o, given)
  local entry = check.options(OP, spec, given)
  if entry.steps and entry.epochs then check.fail(OP, "steps and epochs both say how long; give one") end
  for _, unit in ipairs{"steps", "epochs"} do
    if entry[unit] and entry[unit] < 1 then check.fail(OP, ("%s is at least 1, got %d"):format(unit, entry[unit])) end
  end
  if next(names.matching(OP, o.model, entry.names)) == nil then check.fail(OP, "the list of names is empty") end
  return entry
end

local function read(o)
  if o.freeze == nil or o.freeze == false then return end
  if o.freeze == true then check.fail(OP, "says which parameters", 'e.g. freeze = "features", or {names = "features", epochs = 2}') end
  local entries = {}
  for i, given in ipairs(entries_of(o.freeze)) do entries[i] = read_entry(o, given) end
  if #entries == 0 then check.fail(OP, "names is missing", 'e.g. freeze = {names = "features", epochs = 2}') end
  o.freeze = entries
end

local function new(fit)
  if not fit.o.freeze then return nil end
  local counter = {n = 0}
  fit.run:add_feature{name = "freeze", what = "steps with frozen parameters", count = function() return counter.n end}
  return setmetatable({fit = fit, frozen = {}, counter = counter}, Freeze)
end

-- Whether an entry holds in the step behind so many that are done.
local function holds(fit, entry, done)
  if entry.steps then return done < entry.steps end
  if entry.epochs then return math.max(fit.epoch, 1) <= entry.epochs end
  return true
end

local function names_text(entry) return type(entry.names) == "string" and entry.names or table.concat(entry.names, ", ") end

-- What held in the last step of a run that goes on is let go before the next one, as it was in that run.
function Freeze:begin()
  for _, entry in ipairs(self.fit.o.freeze) do
    if holds(self.fit, entry, math.max(self.fit.step - 1, 0)) then
      local object = self.fit.run.features:apart(freeze, self.fit.model, entry.names, {batch_norm = entry.batch_norm})
      table.insert(self.frozen, {entry = entry, object = object})
    end
  end
end

function Freeze:lines()
  local out = {}
  for i, f in ipairs(self.frozen) do
    local e = f.entry
    local long = e.steps and ("for %d steps"):format(e.steps) or e.epochs and ("for %d epochs"):format(e.epochs) or "always"
    out[i] = ("freeze: %s: %d parameters, %s%s"):format(names_text(e), f.object.count, long,
      #f.object.norms > 0 and "; batch norm keeps its statistics" or "")
  end
  return out
end

--- For schedule.png. per_epoch: steps of an epoch.
function Freeze:moments(per_epoch)
  local out = {}
  for _, entry in ipairs(self.fit.o.freeze) do
    local steps = entry.steps or entry.epochs and entry.epochs * per_epoch
    if steps then out[#out + 1] = {x = steps + 1, label = names_text(entry) .. " unfrozen"} end
  end
  return out
end

function Freeze:before_step()
  local fit = self.fit
  for i = #self.frozen, 1, -1 do
    local f = self.frozen[i]
    if not holds(fit, f.entry, fit.step) then
      f.object:unfreeze()
      table.remove(self.frozen, i)
      local text = ("unfrozen: %s"):format(names_text(f.entry))
      fit.record:event(fit:at(), text)
      self.fit.run:print(("step %d: %s"):format(fit.step + 1, text))
    end
  end
  if #self.frozen > 0 then self.counter.n = self.counter.n + 1 end
end

--- The model is as trainable after the run as it was before.
function Freeze:close()
  for _, f in ipairs(self.frozen) do f.object:unfreeze() end
end

function Freeze:state() return {steps = self.counter.n} end
function Freeze:set_state(state) self.counter.n = state.steps end

return {name = "freeze", spec = {{"freeze", "string", "table", "boolean"}}, read = read, new = new}
