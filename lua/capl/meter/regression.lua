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
  {"field", "string", default = "value"}, {"names", "table"}, {"inverse", "function"}, {"series", "table"},
  {"least", "number"}, {"loader", "table"}, {"main", "string", default = "rmse"}, {"merge", "table"},
  {"worst", "whole", default = WORST},
}

--- train.RegressionMeter{…}: a meter for numbers.
-- opts field = "value": name of the true numbers in a batch; names = of each of them (the targets of series); inverse =
--      function(x) that takes a tensor back to the unit that the metrics shall have, or series = what data.series gave,
--      whose inverse it is; least: true values nearer to 0 than this are left out of mape (a thousandth of their mean
--      size unless said); loader = names its samples; main = "rmse" | "mae" | "r2" | "smape" | "mape": the metric that
--      says which of two models is better; worst = 24 samples to keep
-- errs value: unknown option
local function new(opts)
  local o = check.options(OP, spec, opts)
  if o.merge then check.fail(OP, "merge is for texts") end
  check.one_of(OP, "main", o.main, mains)
  local inverse = o.inverse or o.series and function(x) return o.series:inverse(x) end
  local self = setmetatable({
    field = o.field, names = o.names or o.series and o.series.targets or {}, inverse = inverse, least = o.least,
    loader = o.loader, main = o.main, better = o.main == "r2" and "max" or "min", most = o.worst, n = 0,
    got = {}, want = {}, ids = {},
  }, Regression)
  self.waiting = pending.new(function(columns, ids, notes)
    self.width = self:columns_of(notes[1].width)
    self:read_columns(columns, ids, notes[1].width)
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
  self.width = self:columns_of(got:size(2))
  self.waiting:add({got, want}, batch.ids or N, {width = got:size(2)})
end

--- Counts a batch; nothing is read from the device until metrics are computed.
-- in   output (N), (N,D) or (N,T,D), T steps of D numbers with names; batch with as many true numbers under the field's
--      name
-- errs value: other sizes
function Regression:add(output, batch) return core.no_grad(add, self, output, batch) end

-- Of so many numbers of a sample: how many have a row of their own in the metrics. Names that go round are of steps.
function Regression:columns_of(numbers)
  local n = #self.names
  return n > 0 and numbers % n == 0 and n or numbers
end

-- width: numbers of a sample
function Regression:read_columns(columns, ids, width)
  for i, id in ipairs(ids) do
    for k = (i - 1) * width + 1, i * width do
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

-- Where the numbers of one column lie: {first, step} of the flat lists.
local function column(self, k) return {first = k, step = self.width or 1} end
local function all_of() return {first = 1, step = 1} end

local function mean(list, part, fn)
  local sum, n = 0, 0
  for i = part.first, #list, part.step do sum, n = sum + fn(list[i], i), n + 1 end
  return sum / n
end

-- Mean share by which a number is off, of those that are not next to nothing; and how many were left out.
local function mape(self, part)
  local least = self.least or 1e-3 * mean(self.want, part, math.abs)
  local sum, n, all = 0, 0, 0
  for i = part.first, #self.want, part.step do
    local want = self.want[i]
    if math.abs(want) > least then sum, n = sum + math.abs((self.got[i] - want) / want), n + 1 end
    all = all + 1
  end
  return n > 0 and sum / n or nil, all - n
end

-- 0 where both are 0.
local function smape_of(got, want)
  local size = math.abs(got) + math.abs(want)
  return size > 0 and 2 * math.abs(got - want) / size or 0
end

-- Metrics of a part of the numbers, into out.
local function put(self, out, part)
  local function off(want, i) return self.got[i] - want end
  local middle = mean(self.want, part, function(x) return x end)
  local square = mean(self.want, part, function(x, i) return off(x, i) ^ 2 end)
  local variance = mean(self.want, part, function(x) return (x - middle) ^ 2 end)
  out.rmse, out.mae = math.sqrt(square), mean(self.want, part, function(x, i) return math.abs(off(x, i)) end)
  out.r2 = variance > 0 and 1 - square / variance or nil
  out.smape = mean(self.want, part, function(x, i) return smape_of(self.got[i], x) end)
  out.mape, out.mape_left_out = mape(self, part)
  return out
end

--- The name of the k-th number.
function Regression:name(k) return tostring(self.names[k] or (self.width or 1) == 1 and self.field or "number" .. k) end

-- List of {name, n, r2, rmse, mae, smape, mape} of each number.
local function by_number(self)
  local out = {}
  for k = 1, #self.want > 0 and self.width or 0 do
    out[k] = put(self, {name = self:name(k), n = self.n}, column(self, k))
  end
  return out
end

--- The metrics, in the numbers' own unit.
-- out  n: samples; r2: share of the variance that is foretold (absent where the true numbers are all the same); rmse,
--      mae; smape: |error| over the mean of both sizes, 0..2; mape: |error| over the true size, without the
--      mape_left_out numbers that are next to 0 (absent without any other). Of several numbers these are over all of
--      them, and r2, rmse and mae are there once more with the name of each before them: angle_rmse …
function Regression:result()
  self.waiting:flush()
  local out = {role = self.role, n = self.n}
  if #self.want == 0 then return out end
  put(self, out, all_of())
  for _, row in ipairs(self.width > 1 and by_number(self) or {}) do
    for _, key in ipairs{"r2", "rmse", "mae"} do out[row.name .. "_" .. key] = row[key] end
  end
  return out
end

local function percent(x) return x and ("%.2f %%"):format(100 * x) or "-" end

local function words(r)
  return ("R2 %s, RMSE %.4g, MAE %.4g, sMAPE %s"):format(r.r2 and ("%.3f"):format(r.r2) or "-", r.rmse, r.mae,
    percent(r.smape))
end

--- "R2 0.412, RMSE 20.94, MAE 14.20, sMAPE 38.10 %, n 540"
function Regression:line()
  local r = self:result()
  return r.rmse and ("%s, n %d"):format(words(r), r.n) or "n 0"
end

--- List of {name, text}: the metrics, then those of each number where there are several.
function Regression:lines()
  local r, out = self:result(), {{"", self:line()}}
  if not r.rmse then return out end
  out[2] = {"MAPE", ("%s, %d numbers next to 0 left out"):format(percent(r.mape), r.mape_left_out)}
  for _, row in ipairs(self.width > 1 and by_number(self) or {}) do out[#out + 1] = {row.name, words(row)} end
  return out
end

-- The error of number i beside those of its column: several numbers may have several units.
local function size_of(self, i, sizes)
  local size = sizes[(i - 1) % self.width + 1]
  return size > 0 and math.abs(self.got[i] - self.want[i]) / size or 0
end

--- {wrong = the samples that are farthest off: {id, predicted, target, error, number = name where there are several};
-- errors are compared by the RMSE of their number}
function Regression:samples()
  self.waiting:flush()
  local sizes, rows = {}, {}
  for k, row in ipairs(by_number(self)) do sizes[k] = row.rmse end
  for i, want in ipairs(self.want) do
    local got = self.got[i]
    rows[i] = {id = self.ids[i], predicted = got, target = want, error = got - want, place = i,
      number = self.width > 1 and self:name((i - 1) % self.width + 1) or nil}
  end
  table.sort(rows, function(a, b)
    local x, y = size_of(self, a.place, sizes), size_of(self, b.place, sizes)
    if x ~= y then return x > y end
    return a.place < b.place
  end)
  for i = self.most + 1, #rows do rows[i] = nil end
  for _, row in ipairs(rows) do row.place = nil end
  return {wrong = rows, right = {}}
end

--- What was meant and read of each number, for pictures: list of {name, ids, want, got, r2, rmse}.
function Regression:columns()
  self.waiting:flush()
  local out = by_number(self)
  for k, row in ipairs(out) do
    row.ids, row.want, row.got = {}, {}, {}
    for i = k, #self.want, self.width do
      table.insert(row.ids, self.ids[i])
      table.insert(row.want, self.want[i])
      table.insert(row.got, self.got[i])
    end
  end
  return out
end

--- result(), and by_number where there are several: list of {name, n, r2, rmse, mae, smape, mape, mape_left_out}
function Regression:write()
  local out = self:result()
  if (self.width or 1) > 1 then out.by_number = by_number(self) end
  return out
end

return {new = new, any_field = true}
