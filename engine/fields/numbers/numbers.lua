-- numbers.lua: numbers in their units: what the model gives, times std, plus mean.
-- A recipe asks for it, with names and scaling of its numbers.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local field_names = require "fields.field_names"
local named = require "fields.named"
local sorted_keys = require "sorted_keys"
local symbols = require "fields.symbols"

local numbers = {name = "numbers", meter = "regression", metric = "rmse", field = "value", is_numbers = true}

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

--- How the sheet of samples shows them: a scatter plot of each, a curve in the order of the set where samples have no
-- images, and the worst images.
numbers.sheet = {together = 4, best = 0}

--- The table of the report.
numbers.rows = {key = "by_number", title = "By number", columns = {{"number", "name"}, {"R²", "r2"}, {"RMSE", "rmse"},
  {"MAE", "mae"}, {"sMAPE", "smape", "share"}, {"MAPE", "mape", "share"}}}

local MOST_PLOTS = 8
local DOTS = 20000 -- of a scatter plot

function numbers.sheet.views(_, e, image)
  local name = e.number and e.number .. " " or ""
  return {{image = image, caption = ("%s%.4g, meant %.4g"):format(name, e.predicted, e.target)}}
end

local function limits(column)
  local low, high = math.huge, -math.huge
  for i = 1, #column.want do
    low, high = math.min(low, column.want[i], column.got[i]), math.max(high, column.want[i], column.got[i])
  end
  if low == high then low, high = low - 1, high + 1 end
  local margin = 0.03 * (high - low)
  return low - margin, high + margin
end

-- What was read over what was meant; on the line they are the same.
local function scatter(plot, column)
  local low, high = limits(column)
  local x, y, step = {}, {}, math.ceil(#column.want / DOTS)
  for i = 1, #column.want, step do x[#x + 1], y[#y + 1] = column.want[i], column.got[i] end
  return plot.lines{
    title = ("%s: RMSE %.4g%s"):format(column.name, column.rmse, column.r2 and (", R2 %.3f"):format(column.r2) or ""),
    width = 480, height = 480, x_label = "meant", panels = {{y_label = "read", min = low, max = high, series = {
      {x = x, y = y, dots = true}, {name = "as meant", x = {low, high}, y = {low, high}},
    }}},
  }
end

-- Both in the order of the set, from the sample of one name to that of the other.
local function course(plot, column, from, to)
  return plot.lines{
    title = column.name .. " over time", width = 760, height = 480,
    x_label = from and to and ("%s to %s"):format(from, to) or "samples in the order of the set",
    panels = {{y_label = column.name, series = {{name = "read", y = column.got}, {name = "meant", y = column.want}}}},
  }
end

--- Pictures above the images. samples: train/samples.lua, which knows images and names
function numbers.sheet.plots(meter, plot, samples)
  local pictures, columns = {}, meter:columns()
  local has_images = columns[1] and samples.image_of(meter, columns[1].ids[1]) ~= nil
  for i = 1, math.min(MOST_PLOTS, #columns) do
    local column, picture = columns[i], scatter(plot, columns[i])
    pictures[i] = has_images and picture or core.op.concat({picture, course(plot, column,
      samples.name_of(meter, column.ids[1]), samples.name_of(meter, column.ids[#column.ids]))}, {dim = 4})
  end
  return pictures
end

numbers.files = {{name = "numbers", value = "KEYS", list = true, absent = "their names",
  doc = "numbers: columns or keys of JSON, such as pm25,temp"}}

local function number_field(op, name, columns)
  if type(columns) == "string" then columns = {columns} end
  check.value(op, {"numbers", "string", "table"}, columns)
  if #columns == 0 then check.fail(op, "numbers has a list without columns") end
  for _, column in ipairs(columns) do check.value(op, {"a column of numbers", "string"}, column) end
  return {name = name, kind = "values", per_row = 1, columns = columns}
end

--- Option numbers of a source of files: {"pm25", "temp"}, or {weather = {"pm25", "temp"}, angle = "angle"}.
-- in   taken: names of other fields
function numbers.read(op, given, out, taken)
  local fields = out.numbers
  if type(given) ~= "table" or given[1] ~= nil then
    fields[#fields + 1] = number_field(op, "numbers", given)
    return
  end
  for _, name in ipairs(sorted_keys(given)) do
    field_names.check(op, name)
    if taken[name] then check.fail(op, ("numbers cannot be called %s, which batches have already"):format(name)) end
    fields[#fields + 1] = number_field(op, name, given[name])
  end
end

-- {from, to, mean} of each number.
local function ranges_of(source, k)
  local out = {}
  for i = 0, source:count() - 1 do
    for j, x in ipairs((source.box:numbers(k, i))) do
      local r = out[j] or {from = x, to = x, mean = 0}
      out[j], r.from, r.to = r, math.min(r.from, x), math.max(r.to, x)
      r.mean = r.mean + x / source:count()
    end
  end
  return out
end

-- Of number j out of n: its column, where each number has one.
local function name_of(source, j, n)
  local names = source.number_names
  return names and #names == n and names[j] or tostring(j)
end

--- A line of capl data stat.
function numbers.stat(source, _, k)
  local parts, ranges = {}, ranges_of(source, k)
  for j, r in ipairs(ranges) do
    parts[j] = ("%s: %.5g to %.5g, mean %.5g"):format(name_of(source, j, #ranges), r.from, r.to, r.mean)
  end
  return table.concat(parts, "; ")
end

--- What may be wrong, for capl data check.
function numbers.look(r, source, field, k)
  local ranges = ranges_of(source, k)
  for j, range in ipairs(ranges) do
    if range.from == range.to and source:count() > 1 then
      r:note(("number %s of %s is %.6g everywhere"):format(name_of(source, j, #ranges), field.name, range.from))
    end
  end
end

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

--- Numbers that a sample gives a model to learn, by an evaluation, for capl doctor.
function numbers.says(e, value) return math.max(1, #value.table(e, "by_number")) end

--- What a RegressionMeter takes, (N,D) in their units, of the outputs of several samples.
function numbers.measured(outs)
  local rows = {}
  for i, out in ipairs(outs) do rows[i] = out.values end
  return core.tensor(rows)
end

return numbers
