-- data.series, data.pm25: windows of time series, what is derived from days, and the mistakes one can make.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data

local function raises(expected, fn, ...)
  local text = support.error_text(fn, ...)
  assert(text:find(expected, 1, true), text)
end

--- The same table with its rows in another order.
local function shuffled(t, seed)
  local order, made = {}, {columns = t.columns}
  for i = 1, #t.date do order[i] = i end
  for i = #order, 2, -1 do
    seed = (seed * 1103515245 + 12345) % 2147483648
    local k = seed % i + 1
    order[i], order[k] = order[k], order[i]
  end
  for _, name in ipairs(t.columns) do
    made[name] = {}
    for i, from in ipairs(order) do made[name][i] = t[name][from] end
  end
  return made
end

local function write(text)
  local path = os.tmpname()
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return path
end

--- Every number of an epoch, to the last bit.
local function batches(source, workers)
  local out = {}
  for batch in data.loader{source = source, role = "val", batch = 64, workers = workers or 0}:epoch(1) do
    out[#out + 1] = batch.input:reshape(-1):tolist()
    out[#out + 1] = batch.value:reshape(-1):tolist()
  end
  return out
end

local function is_nan(x) return x ~= x end

describe("data.pm25", function()
  it("gives 32 features by days", function()
    local t = data.pm25{seed = 7, days = 800}
    assert.equal(34, #t.columns)
    assert.equal(800, #t.date)
    assert.equal(13, #data.pm25{seed = 7, days = 3, features = false}.columns - 1)
  end)

  it("knows the calendar", function()
    local t = data.pm25_features{columns = {"date", "pm25"},
      date = {"2016-02-29", "2018-12-31", "2015-01-01", "2021-01-03", "2020-12-31"},
                                 pm25 = {1, 2, 3, 4, 5}}
    assert.same({"2015-01-01", "2016-02-29", "2018-12-31", "2020-12-31", "2021-01-03"}, t.date)
    assert.same({3, 1, 2, 5, 4}, t.pm25)
    assert.same({1, 60, 365, 366, 3}, t.day_of_year)
    assert.same({4, 1, 1, 4, 7}, t.weekday)
    assert.same({1, 9, 1, 53, 53}, t.week)
    assert.same({1, 1, 1, 1, 1}, t.season)
    assert.same({1, 1, 1, 1, 1}, t.heating)
  end)

  it("derives wind and humidity by the book", function()
    local t = data.pm25_features{columns = {"date", "pm25", "u10", "v10", "t2m", "d2m"}, pm25 = {1, 1, 1},
      date = {"2015-01-01", "2015-01-02", "2015-01-03"}, u10 = {3, 0, -1}, v10 = {4, -2, 0},
      t2m = {293.15, 293.15, 280}, d2m = {293.15, 283.15, 0 / 0}}
    assert.same({5, 2, 1}, t.wind_speed_10)
    assert.same({216.87, 0, 90}, t.wind_direction_10) -- wind to the north east comes from the south west
    assert.same({5, 0, 2}, t.wind_sector)
    assert.equal(100, t.humidity[1])
    assert.is_true(math.abs(t.humidity[2] - 52.5) < 0.2) -- of air at 20 degrees with a dew point of 10
    assert.is_true(is_nan(t.humidity[3]) and is_nan(t.dew_gap[3]))
  end)

  it("lets a day's features see that day and those before alone", function()
    local t = data.pm25{seed = 8, days = 200, features = false}
    local before = data.pm25_features(t)
    for i = 101, 200 do t.pm25[i] = t.pm25[i] * 3 + 17 end
    local after = data.pm25_features(t)
    for _, name in ipairs(after.columns) do
      for i = 1, 100 do
        local a, b = before[name][i], after[name][i]
        assert.is_true(a == b or is_nan(a) and is_nan(b), name)
      end
    end
    assert.equal(t.pm25[149], after.pm25_lag1[150])
    assert.equal(t.pm25[143], after.pm25_lag7[150])
    assert.is_true(math.abs((t.pm25[148] + t.pm25[149] + t.pm25[150]) / 3 - after.pm25_mean3[150]) < 1e-3)
    assert.is_true(is_nan(after.pm25_mean30[29]) and not is_nan(after.pm25_mean30[30]))
  end)

  it("names the line of a file, and what to do", function()
    local function refused(text, words, opts)
      local path = write(text)
      raises(path .. words, function() return data.pm25_features(data.read_csv(path), opts) end)
      os.remove(path)
    end
    refused("day,pm25\n2015-01-01,3\n", ":1: no column is called date; there are: day, pm25\n  hint: the columns date")
    refused("date,pm25\n2015-01-01,3\n2015-01-02,high\n", ":3: pm25: 'high' is no number\n  hint: write numbers")
    refused("date,pm25,path\n2015-01-01,3,1\n2015-01-02,1e999,1\n", ":3: pm25: the number is infinite")
    refused("date,pm25\n2015-01-01,3\n\n1.2.2015,3\n", ":4: '1.2.2015' is no date\n  hint: dates are written")
    refused("date,pm25\n2015-01-01,3\n2015-01-02,3\n2015-01-01,4\n", ":4: the date 2015-01-01 is also in line 2")
    local hole = "date,pm25\n2016-03-02,4\n2016-02-27,3\n"
    refused(hole, ":2: 3 days are missing between 2016-02-27 and 2016-03-02\n  hint: add a row for each", {gaps = "stop"})
    local path = write(hole)
    local t = data.pm25_features(data.read_csv(path), {gaps = "fill"})
    assert.same({"2016-02-27", "2016-02-28", "2016-02-29", "2016-03-01", "2016-03-02"}, t.date)
    assert.same({3, 4}, {t.pm25[1], t.pm25[5]})
    assert.is_true(is_nan(t.pm25[2]) and is_nan(t.pm25_lag1[5]))
    raises(path .. ": the train part has 3 of 5 rows; a window of 7 and a target 1 later need 8", data.series, t,
      {target = "pm25"})
    os.remove(path)
  end)

  it("refuses what it cannot derive from", function()
    raises("data.pm25_features needs the columns date and pm25", data.pm25_features,
      {columns = {"date"}, date = {"2015-01-01"}})
    raises("row 2: 'never' is no date", data.pm25_features,
      {columns = {"date", "pm25"}, date = {"2015-01-01", "never"}, pm25 = {1, 2}})
    raises("rows 1 and 3 have the same date, 2015-01-01", data.pm25_features,
      {columns = {"date", "pm25"}, date = {"2015-01-01", "2015-01-02", "2015-01-01"}, pm25 = {1, 2, 3}})
    raises("data.pm25: unknown option 'day'; did you mean 'days'?", data.pm25, {day = 3})
  end)
end)

describe("data.series", function()
  local table_of_days = data.pm25{seed = 9, days = 500}

  it("gives the same batches to the last bit, whatever the order of the rows", function()
    local expected = batches(data.series(table_of_days, {target = "pm25"}).train)
    for seed = 1, 3 do
      local mixed = shuffled(table_of_days, seed)
      assert.same(expected, batches(data.series(mixed, {target = "pm25"}).train, seed))
    end
  end)

  it("reads from a file what it reads from the table", function()
    local lines = {"date,x,y"}
    local t = {columns = {"date", "x", "y"}, date = {}, x = {}, y = {}}
    for i = 1, 60 do
      local date, x, y = ("2020-%02d-%02d"):format(1 + math.floor((i - 1) / 28), (i - 1) % 28 + 1), i * i % 17,
        i % 5 == 0 and 0 / 0 or i
      t.date[i], t.x[i], t.y[i] = date, x, y
      table.insert(lines, math.random(2, #lines + 1), ("%s,%d,%s"):format(date, x, is_nan(y) and "" or y))
    end
    local path = write(table.concat(lines, "\r\n"))
    local o = {target = "y", window = 4, features = {"x", "y"}, split = {0.5, 0.25, 0.25}}
    local a, b = data.series(t, o), data.series(path, o)
    local c = data.series(data.read_csv(path), o)
    for _, part in ipairs{"train", "val", "test"} do
      assert.same(batches(a[part]), batches(b[part]))
      assert.same(batches(a[part]), batches(c[part]))
    end
    assert.same({30, 15, 15}, a.facts.part_rows)
    assert.equal(12, a.facts.filled)
    os.remove(path)
  end)

  it("gives values back in the target's unit", function()
    local s = data.series(table_of_days, {target = "pm25", window = 14, horizon = 2})
    local batch = data.loader{source = s.val, role = "val", batch = 8, workers = 0}:epoch(1)()
    assert.same({8, 14, 32}, batch.input:size())
    local back = s:inverse(batch.value):reshape(-1):tolist()
    for i = 1, 8 do
      local row = 350 + 14 + 2 - 1 + i - 1 -- the first target of val lies window + horizon - 1 rows into it
      assert.equal(table_of_days.date[row + 1], s.val:name(i - 1))
      assert.is_true(math.abs(back[i] - table_of_days.pm25[row + 1]) < 1e-3)
    end
    assert.equal(s.mean, s:inverse(0))
    local raw = data.series(table_of_days, {target = "pm25", scale = "none"})
    assert.equal(5, raw:inverse(5))
  end)

  it("foretells several columns, each in its unit", function()
    local s = data.series(table_of_days, {target = {"pm25", "t2m"}, window = 3})
    local one = data.series(table_of_days, {target = "t2m", window = 3})
    local batch = data.loader{source = s.val, role = "val", batch = 8, workers = 0}:epoch(1)()
    assert.same({8, 2}, batch.value:size())
    assert.same({"pm25", "t2m"}, s.targets)
    assert.equal(one.mean, s.mean[2])
    assert.equal(one.std, s.std[2])
    local back = s:inverse(batch.value):tolist()
    for i, name in ipairs{"pm25", "t2m"} do
      for k = 1, 8 do
        local row = tonumber(table_of_days[name][350 + 3 + k])
        assert.is_true(math.abs(back[k][i] - row) < 1e-3 * math.abs(row))
      end
    end
    raises("data.series: target is an empty list", data.series, table_of_days, {target = {}})
    raises("data.series: a target must be a string, got number", data.series, table_of_days, {target = {1}})
    raises("pm25 is a target twice", data.series, table_of_days, {target = {"pm25", "pm25"}})
  end)

  it("has no part that has no share", function()
    local s = data.series(table_of_days, {target = "pm25", split = {0.8, 0.2}})
    assert.is_nil(s.test)
    assert.equal(100 - 7, s.val:count())
  end)

  it("says what is wrong with its options", function()
    local t = table_of_days
    raises("data.series: unknown option 'windows'; did you mean 'window'?", data.series, t,
      {target = "pm25", windows = 3})
    raises("data.series: target must be a string or table, got nil", data.series, t, {})
    raises("the table has no column pm2; did you mean pm25?", data.series, t, {target = "pm2"})
    raises("the table has no list hour", data.series, t, {target = "pm25", key = "hour"})
    raises("the table: rows 1 and 32 have the same day, 1", data.series, t,
      {target = "pm25", key = "day", features = {"t2m"}})
    raises("data.series: the shares of split add up to 1.1, not to 1", data.series, t,
      {target = "pm25", split = {0.7, 0.2, 0.2}})
    raises("data.series: window is a number of rows from 1 on, not 0", data.series, t, {target = "pm25", window = 0})
    raises('data.series: scale is "standard" or "none", not minmax', data.series, t,
      {target = "pm25", scale = "minmax"})
    raises("the val part has 75 of 500 rows; a window of 75 and a target 1 later need 76", data.series, t,
      {target = "pm25", window = 75})
    raises("data.series takes the path of a CSV file", data.series, 5, {target = "pm25"})
    raises("row 2: x is a string, not a number", data.series,
      {columns = {"date", "x", "y"}, date = {"1", "2"}, x = {1, "two"}, y = {1, 2}}, {target = "y"})
    raises("rows 1 and 2 have the same date, 1", data.series,
      {columns = {"date", "x", "y"}, date = {"1", "1"}, x = {1, 2}, y = {1, 2}}, {target = "y"})
    raises("column x has 3 rows, the key 2", data.series,
      {columns = {"date", "x", "y"}, date = {"1", "2"}, x = {1, 2, 3}, y = {1, 2}}, {target = "y"})
  end)
end)
