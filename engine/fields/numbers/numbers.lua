-- numbers.lua: numbers in their units: what the model gives, times std, plus mean.
-- A recipe asks for it, with names and scaling of its numbers.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local named = require "fields.named"
local symbols = require "fields.symbols"

local numbers = {name = "numbers", meter = "regression", metric = "rmse", field = "value"}

numbers.options = {{"names", "table"}, {"mean", "table"}, {"std", "table"}}

local MOST = 4096

function numbers.check(op, given)
  if given.names == nil and given.mean == nil and given.std == nil then return end -- no model file that can be read
  named.check(op, given, "numbers", "numbers that the model gives", MOST)
  named.check_scale(op, given)
end

function numbers.facts(given, loader)
  local of = loader and loader.source and loader.source.series
  if not given.names and not of then return nil end
  if not given.names then
    return {numbers = of.targets, mean = of.facts.target_mean, std = of.facts.target_std, horizon = of.horizon}
  end
  return {numbers = given.names, mean = given.mean, std = given.std, horizon = of and of.horizon}
end

--- Numbers of a loader's samples that a model takes as they are.
function numbers.input(name, loader)
  local source = loader and loader.source
  local box = source and source.box
  for _, field in ipairs(box and box:fields() or {}) do
    if field.name == name and field.kind == "values" then
      local x = (select(3, box:read(1, 0)))[name]
      if x.ndim ~= 2 then return nil end
      local names, D = {}, x:size(2)
      for i = 1, D do names[i] = D == 1 and name or name .. i end
      return {numbers = names}
    end
  end
end

numbers.onnx_input = named.in_units

function numbers.reads(d) return symbols.shown(d.numbers, ", ") end

function numbers.columns(out) return named.formatted(out.values, "%.6g") end

function numbers.json(out, _, d)
  local list = {}
  for i, name in ipairs(d.numbers) do list[name] = out.values[i] end
  return {numbers = list}
end

numbers.files = {{name = "numbers", value = "KEYS", list = true,
  doc = "numbers: columns or keys of JSON (their names)"}}

--- How capl eval reads the truth: columns of their names.
function numbers.truth(d, o) return {numbers = o.numbers or d.numbers} end

function numbers.measures(given) return {names = given.names} end

function numbers.counted(d) return {field = "numbers", names = d.numbers} end

local LEAST = 20 -- samples that show anything
local NONE = 0.05 -- R2 of what is no better than the mean

--- What is wrong with the readings of an evaluation, for capl doctor: numbers that are said to be what they are in the
-- mean, or worse.
function numbers.faults(e, value)
  local faults, looked, rows = {}, 0, value.table(e, "by_number")
  if not rows[1] then rows = {e} end
  for _, row in ipairs((value.number(e, "n") or 0) >= LEAST and rows or {}) do
    local r2, name = value.number(row, "r2"), value.text(row, "name") or "the number"
    looked = looked + (r2 and 1 or 0)
    if r2 and r2 <= NONE then
      faults[#faults + 1] = {severity = "error", text = ("%s is predicted %s than by its mean: R2 %.2f"):format(name,
        r2 < -NONE and "worse" or "no better", r2), write = r2 < -NONE
        and "output * std + mean is the number: check mean and std of capl.model and the meter, and lr"
        or "check lr and the columns of the numbers (capl data stat); perhaps inputs that say more"}
    end
  end
  if looked == 0 then return nil, "too few numbers" end
  return faults, ("%d numbers are predicted better than by their mean"):format(looked - #faults)
end

--- What a RegressionMeter takes, (N,D) in their units, of the outputs of several samples.
function numbers.measured(outs)
  local rows = {}
  for i, out in ipairs(outs) do rows[i] = out.values end
  return core.tensor(rows)
end

return numbers
