-- metric.lua: which metric of an evaluation decides what is better, and which way.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local metric = {}

local spec = {{"name", "string", required = true}, {"better", "string"}}

--- What a recipe says about the deciding metric: nil (the meter's main one), "loss", the name of a metric, or
-- {name = "edit_distance", better = "min"} -> {name, better}, checked
function metric.read(op, given)
  if given == nil then return {} end
  local o = type(given) == "string" and {name = given} or check.options(op .. ": metric", spec, given)
  if o.better then check.one_of(op .. ": metric", "better", o.better, {"max", "min"}) end
  if o.name == "loss" and o.better == "max" then
    check.fail(op, "metric: a loss is better when it is less", 'leave better out')
  end
  return {name = o.name, better = o.name == "loss" and "min" or o.better}
end

local function names_of(metrics)
  local out = {"loss"}
  for name, value in pairs(metrics) do
    if type(value) == "number" then out[#out + 1] = name end
  end
  table.sort(out)
  return out
end

--- The deciding metric of an evaluation.
-- in   wanted: of metric.read; e: of an evaluation, {metrics, meter, loss}
-- out  its value, "max" or "min", its name
-- errs value: the evaluation has no such metric, or nobody says which way it is better
function metric.of(op, wanted, e)
  local main = e.meter and e.meter.main or "exact"
  local name = wanted.name or main
  if name == "loss" and e.loss then return e.loss, "min", name end
  local value = e.metrics[name]
  if type(value) ~= "number" then check.unknown(op, "metric", name, names_of(e.metrics)) end
  local ways = e.meter and e.meter.ways
  local better = wanted.better or (name == main and (e.meter and e.meter.better or "max")) or ways and ways[name]
  if not better then
    check.fail(op, ("metric = \"%s\": it is unknown whether more is better"):format(name),
      ('metric = {name = "%s", better = "max"}, or "min"'):format(name))
  end
  return value, better, name
end

--- The value that decides between two evaluations whose main metric is the same: meter.second names it; nil: none does.
function metric.second(name, e)
  local second = e.meter and name == e.meter.main and e.meter.second
  return second and e.metrics[second] or nil
end

--- Whether value is better than best (nil: than nothing) by more than delta. What is no number is never better.
function metric.improves(value, best, better, delta)
  if value ~= value then return false end
  if best == nil then return true end
  if better == "min" then return value < best - (delta or 0) end
  return value > best + (delta or 0)
end

--- Value as a text of the run's lines: shares as percentages.
function metric.text(value, name)
  local share = name ~= "loss" and value >= 0 and value <= 1
  return share and ("%s %.2f %%"):format(name, 100 * value) or ("%s %.4g"):format(name, value)
end

metric.is_number = function(value) return core.typename(value) == "number" and value == value end

return metric
