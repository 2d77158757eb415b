-- rows.lua: rows of CSV files as samples of a model that takes numbers or series, for `capl predict`.
--
-- A row is a sample: its columns for inputs of numbers, it and the rows before it for series. A cell without a number
-- has that of the row before, as in training. SPDX-License-Identifier: Apache-2.0
local core = ...

local rows = {}

local MOST = 64 -- samples of a call
local KEY = "date" -- the column that names rows, as in data.series

local function fail(message, hint) core.error{code = "value", message = message, hint = hint} end

-- ---- columns ----

local function column_of(file, path, name)
  local texts = file[name]
  if texts then return texts end
  fail(("%s has no column '%s', which the model takes"):format(path, name),
    "its columns must be called as those the model was trained on; capl info MODEL lists them")
end

-- The number of a cell; nil: it has none.
local function number_in(path, name, i, text)
  local value = tonumber(text)
  if not value and text:match("^%s*$") == nil and text:lower() ~= "na" and text:lower() ~= "nan" then
    fail(("%s:%d: '%s' in column %s is no number"):format(path, i + 1, text, name))
  end
  return value == value and value or nil
end

-- Numbers of a column; mean: of training, nil = unknown; filled: counts the cells without one.
local function numbers_of(file, path, name, mean, filled)
  local out = {}
  for i, text in ipairs(column_of(file, path, name)) do
    local value = number_in(path, name, i, text)
    if not value then
      value, filled.n = out[i - 1] or mean, filled.n + 1
      if not value then fail(("%s:%d: column %s is empty, and there is no row before"):format(path, i + 1, name)) end
    end
    out[i] = value
  end
  return out
end

-- Names of the rows: their keys, which must ascend where series are read, else their numbers.
local function keys_of(file, path, in_order)
  local keys = file[KEY]
  if not keys then return nil end
  for i = 2, in_order and #keys or 0 do
    local a, b = tonumber(keys[i - 1]) or keys[i - 1], tonumber(keys[i]) or keys[i]
    if type(a) == type(b) and b <= a then
      fail(("%s:%d: %s %s is not after %s: a series needs its rows in order"):format(path, i + 1, KEY, keys[i],
        keys[i - 1]), "sort the file by its column " .. KEY)
    end
  end
  return keys
end

-- ---- samples ----

-- {name = tensor (n, steps * columns)} of samples that end at rows from .. to.
local function inputs_of(columns, inputs, from, to)
  local out = {}
  for i, input in ipairs(inputs) do
    local list, steps = {}, input.steps or 1
    for row = from, to do
      for step = row - steps + 1, row do
        for _, column in ipairs(columns[i]) do list[#list + 1] = column[step] end
      end
    end
    out[input.name] = core.tensor(list):reshape(to - from + 1, -1)
  end
  return out
end

-- {columns = of each input, first: row at which the first sample ends, n: rows, keys}
local function read_file(path, inputs)
  local file, filled, columns, first, n = core.data.csv_read(path), {n = 0}, {}, 1, 0
  for i, input in ipairs(inputs) do
    columns[i] = {}
    for k, name in ipairs(input.series or input.numbers) do
      columns[i][k] = numbers_of(file, path, name, (input.mean or {})[k], filled)
      n = #columns[i][k]
    end
    first = math.max(first, input.steps or 1)
  end
  if n < first then fail(("%s has %d rows; the model takes %d at a time"):format(path, n, first)) end
  if filled.n > 0 then
    core.sys.err(("note: %s: %d cells without a number have that of the row before, or the mean of training\n"):format(path, filled.n))
  end
  return {columns = columns, first = first, n = n, keys = keys_of(file, path, first > 1)}
end

-- fn(name of sample i, readings) for each call of the model.
local function read_rows(model, paths, inputs, fn)
  for _, path in ipairs(paths) do
    local file = read_file(path, inputs)
    for from = file.first, file.n, MOST do
      local to = math.min(file.n, from + MOST - 1)
      local readings = model:read(nil, inputs_of(file.columns, inputs, from, to))
      fn(function(i)
        local row = from + i - 1
        return file.keys and file.keys[row] or ("%s:%d"):format(path, row + 1)
      end, readings, from)
    end
  end
end

--- What stands in columns of a CSV file, to compare with what a model says.
-- out  list of {row = number}, one for each name, without the cells that are empty; function(row) -> its name
-- errs value: a column is missing, a cell is no number; io, format
function rows.truth(path, names)
  local file, out = core.data.csv_read(path), {}
  for k, name in ipairs(names) do
    out[k] = {}
    if not file[name] then fail(("%s has no column '%s' to compare with"):format(path, name)) end
    for i, text in ipairs(file[name]) do out[k][i] = number_in(path, name, i, text) end
  end
  return out, function(row) return file[KEY] and file[KEY][row] or ("%s:%d"):format(path, row + 1) end
end

--- Iterates over what a model says of the rows of CSV files: function(i) -> name of sample i, list of readings, row of
-- the first sample. A row is named by its column date, else by file and line.
-- in   model; paths; info of model:info(); inputs: those of meta.json
-- errs value: a column is missing, a cell is no number, rows out of order, too few of them; io, format
function rows.readings(model, paths, info, inputs)
  if #info.inputs ~= #(inputs or {}) then fail("the model does not say which columns it takes") end
  return coroutine.wrap(function() read_rows(model, paths, inputs, coroutine.yield) end)
end

return rows
