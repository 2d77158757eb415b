-- series.lua: numbers at each of several steps: what a model of series takes, or gives.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local named = require "fields.named"
local symbols = require "fields.symbols"
local check = require "check"

local series = {name = "series", meter = "regression", metric = "rmse"}

series.options = {{"names", "table"}, {"steps", "whole"}, {"mean", "table"}, {"std", "table"}}

local MOST = 4096

function series.check(op, given)
  named.check(op, given, "series", "numbers of a step", MOST)
  named.check_scale(op, given)
  if not given.steps or given.steps < 1 then
    check.fail(op, "series needs its steps, a number from 1 on", "steps = 7")
  end
end

function series.facts(given) return {series = given.names, steps = given.steps, mean = given.mean, std = given.std} end

function series.input(name, loader)
  local of = loader and loader.source and loader.source.series
  if name ~= "input" or not of then return nil end
  return {series = of.features, steps = of.window, mean = of.facts.feature_mean, std = of.facts.feature_std}
end

series.onnx_input = named.in_units

function series.reads(d) return ("%d steps of %s"):format(d.steps, symbols.shown(d.series, ", ")) end

function series.columns(out) return named.formatted(out.values, "%.6g") end

function series.json(out, _, d)
  local rows = {}
  for t = 1, d.steps do
    rows[t] = {}
    for i, name in ipairs(d.series) do rows[t][name] = out.values[(t - 1) * #d.series + i] end
  end
  return {series = rows}
end

series.files = require("fields.numbers").files

--- How capl eval reads the truth: a key of JSON that holds the rows, or columns of all their numbers.
function series.truth(_, o) return {numbers = o.numbers or {"series"}} end

function series.measures(given) return {names = given.names} end

function series.counted(d) return {field = "numbers", names = d.series} end

--- What a RegressionMeter takes, (N,T*D) in their units, of the outputs of several samples.
function series.measured(outs)
  local rows = {}
  for i, out in ipairs(outs) do rows[i] = out.values end
  return core.tensor(rows)
end

return series
