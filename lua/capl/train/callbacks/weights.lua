-- weights.lua: the key init_from of train.fit and the setting --init_from: begins with the weights of another model.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local load_weights = require "train.weights"

local function read(o)
  if type(o.init_from) == "string" then o.init_from = {path = o.init_from} end
  if o.init_from then
    o.init_from = check.options("train.fit: init_from", {{"path", "string", required = true}, {"strict", "boolean"},
      {"map", "table", "function"}}, o.init_from)
  end
end

-- The flag goes before what the recipe says.
local function wanted(run, o)
  for _, s in ipairs(run.settings) do
    if s.key == "init_from" and s.value ~= "none" then
      s.read = true
      return {path = s.value, strict = o.init_from and o.init_from.strict, map = o.init_from and o.init_from.map}
    end
  end
  return o.init_from
end

-- Before any other part is made: averages begin with these weights. A run that goes on has its own.
local function new(fit)
  local run = fit.run
  local from = wanted(run, fit.o)
  if not from or from.path == "none" or run.mode == "check" then return nil end
  if run.resume_from then
    run:print("note: init_from has no effect: the run goes on with its own weights")
    return nil
  end
  local report = load_weights(fit.model, from.path, {strict = from.strict, map = from.map})
  local taken = #report.taken
  run:add_feature{name = "init_from = " .. from.path, what = "tensors taken", count = function() return taken end}
  return nil
end

return {name = "weights", spec = {{"init_from", "string", "table"}}, read = read, new = new}
