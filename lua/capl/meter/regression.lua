-- regression.lua: errors of predicted numbers, in their own unit.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local meters = require "meter"
local pending = require "meter.pending"

local OP = "RegressionMeter"
local WORST = 24

local Regression = {kind = "regression", ways = {r2 = "max", rmse = "min", mae = "min", smape = "min", mape = "min"}}
Regression.__index = Regression

local mains = {"rmse", "mae", "r2", "smape", "mape"}

local spec = {
  {"field", "string", default = "value"}, {"inverse", "function"}, {"series", "table"}, {"least", "number"},
  {"loader", "table"}, {"main", "string", default = "rmse"}, {"merge", "table"}, {"worst", "whole", default = WORST},
}

--- train.RegressionMeter{…}: a meter for numbers.
-- opts field = "value": name of the true numbers in a batch; inverse = function(x) that takes a tensor back to the unit
--      that the metrics shall have, or series = what data.series gave, whose inverse it is; least: true values nearer
--      to 0 than this are left out of mape (a thousandth of their mean size unless said); loader = names its samples;
--      main = "rmse" | "mae" | "r2" | "smape" | "mape": the metric that says which of two models is better; worst = 24
--      samples to keep
-- errs value: unknown option
local function new(opts)
  local o = check.options(OP, spec, opts)
  if o.merge then check.fail(OP, "merge is for texts") end
  check.one_of(OP, "main", o.main, mains)
  local inverse = o.inverse or o.series and function(x) return o.series:inverse(x) end
  local self = setmetatable({
    field = o.field, inverse = inverse, least = o.least, loader = o.loader, main = o.main,
    better = o.main == "r2" and "max" or "min", most = o.worst, n = 0, got = {}, want = {}, ids = {},
  }, Regression)
  self.waiting = pending.new(function(columns, ids, notes)
    self.width = notes[1].width
    self:read_columns(columns, ids)
  end)
  return self
end

-- ---- counting ----

local function add(self, output, batch)
  local truth = meters.field(OP, batch, self.field, 'field = "NAME" names the target values')
  local N = truth:size(1)
  if output:size(1) ~= N or output:numel() ~= truth:numel() then
    check.fail("train.evaluate", ("the model's output is (%s), and %s is (%s)"):format(table.concat(output:size(), ","),
      self.field, table.concat(truth:size(), ",")))
  end
  local got, want = output:to("f32"):reshape(N, -1), truth:to("f32"):reshape(N, -1)
  if self.inverse then got, want = self.inverse(got), self.inverse(want) end
  self.width = got:size(2)
  self.waiting:add({got, want}, batch.ids or N, {width = self.width})
end

--- Counts a batch; nothing is read from the device until metrics are computed.
-- in   output (N) or (N,D); batch with as many true numbers under the field's name
-- errs value: other sizes
function Regression:add(output, batch) return core.no_grad(add, self, output, batch) end

function Regression:read_columns(columns, ids)
  for i, id in ipairs(ids) do
    for k = (i - 1) * self.width + 1, i * self.width do
      local got, want = columns[1][k], columns[2][k]
      if got ~= got or math.abs(got) == math.huge then
        core.error{code = "value", op = OP, path = false,
          message = ("the model's output for sample %d is %s"):format(id, tostring(got))}
      end
      table.insert(self.got, got)
      table.insert(self.want, want)
      table.insert(self.ids, id)
    end
  end
  self.n = self.n + #ids
end

-- ---- metrics ----

local function mean(list, fn)
  local sum = 0
  for i, x in ipairs(list) do sum = sum + fn(x, i) end
  return sum / #list
end

-- Mean share by which a number is off, of those that are not next to nothing; and how many were left out.
local function mape(self)
  local least = self.least or 1e-3 * mean(self.want, math.abs)
  local sum, n = 0, 0
  for i, want in ipairs(self.want) do
    if math.abs(want) > least then sum, n = sum + math.abs((self.got[i] - want) / want), n + 1 end
  end
  return n > 0 and sum / n or nil, #self.want - n
end

-- 0 where both are 0.
local function smape_of(got, want)
  local size = math.abs(got) + math.abs(want)
  return size > 0 and 2 * math.abs(got - want) / size or 0
end

--- The metrics, in the numbers' own unit.
-- out  n: samples; r2: share of the variance that is foretold (absent where the true numbers are all the same); rmse,
--      mae; smape: |error| over the mean of both sizes, 0..2; mape: |error| over the true size, without the
--      mape_left_out numbers that are next to 0 (absent without any other)
function Regression:result()
  self.waiting:flush()
  local out = {role = self.role, n = self.n}
  if #self.want == 0 then return out end
  local function off(want, i) return self.got[i] - want end
  local middle = mean(self.want, function(x) return x end)
  local square = mean(self.want, function(x, i) return off(x, i) ^ 2 end)
  local variance = mean(self.want, function(x) return (x - middle) ^ 2 end)
  out.rmse, out.mae = math.sqrt(square), mean(self.want, function(x, i) return math.abs(off(x, i)) end)
  out.r2 = variance > 0 and 1 - square / variance or nil
  out.smape = mean(self.want, function(x, i) return smape_of(self.got[i], x) end)
  out.mape, out.mape_left_out = mape(self)
  return out
end

local function percent(x) return x and ("%.2f %%"):format(100 * x) or "-" end

--- "R2 0.412, RMSE 20.94, MAE 14.20, sMAPE 38.10 %, n 540"
function Regression:line()
  local r = self:result()
  if not r.rmse then return "n 0" end
  return ("R2 %s, RMSE %.4g, MAE %.4g, sMAPE %s, n %d"):format(r.r2 and ("%.3f"):format(r.r2) or "-", r.rmse, r.mae,
    percent(r.smape), r.n)
end

--- List of {name, text}.
function Regression:lines()
  local r = self:result()
  if not r.rmse then return {{"", self:line()}} end
  return {{"", self:line()}, {"MAPE", ("%s, %d numbers next to 0 left out"):format(percent(r.mape), r.mape_left_out)}}
end

--- {wrong = the samples that are farthest off: {id, predicted, target, error}}
function Regression:samples()
  self.waiting:flush()
  local rows = {}
  for i, want in ipairs(self.want) do
    local got = self.got[i]
    rows[i] = {id = self.ids[i], predicted = got, target = want, error = got - want}
  end
  table.sort(rows, function(a, b)
    local x, y = math.abs(a.error), math.abs(b.error)
    if x ~= y then return x > y end
    return a.id < b.id
  end)
  for i = self.most + 1, #rows do rows[i] = nil end
  return {wrong = rows, right = {}}
end

return {new = new}
