-- pm25.lua: a synthetic series of particulate matter and weather, and features derived from such a table.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local pm25 = {}

local missing = 0 / 0

local function rounded(x, decimals)
  local unit = 10 ^ decimals
  return math.floor(x * unit + 0.5) / unit
end

-- ---- calendar ----

--- Days from the first of March of year 0, which puts the leap day last.
local function day_number(year, month, day)
  local from_march = month < 3 and year - 1 or year
  local shifted = (month + 9) % 12
  return 365 * from_march + math.floor(from_march / 4) - math.floor(from_march / 100) + math.floor(from_march / 400) +
    math.floor((153 * shifted + 2) / 5) + day - 1
end

local function weekday_of(number) return (number + 2) % 7 + 1 end -- Monday = 1

--- Week by ISO 8601: the week of the year that its Thursday lies in.
local function iso_week(year, number)
  local thursday = number - weekday_of(number) + 4
  local first = day_number(year, 1, 1)
  if thursday < first then first = day_number(year - 1, 1, 1)
  elseif thursday >= day_number(year + 1, 1, 1) then first = day_number(year + 1, 1, 1) end
  return math.floor((thursday - first) / 7) + 1
end

local function calendar(date, row)
  local year, month, day = tostring(date):match("^(%d%d%d%d)[-/](%d%d)[-/](%d%d)")
  if not year then
    core.error{code = "format", message = ("data.pm25_features: row %d: '%s' is no date"):format(row, tostring(date)),
      hint = "dates are written 2015-02-28"}
  end
  year, month, day = tonumber(year), tonumber(month), tonumber(day)
  local number = day_number(year, month, day)
  return {
    month = month, day = day, day_of_year = number - day_number(year, 1, 1) + 1, weekday = weekday_of(number),
    week = iso_week(year, number), season = math.floor(month % 12 / 3) + 1, heating = (month >= 11 or month <= 3) and 1
    or 0,
  }
end

-- ---- weather ----

--- Where wind comes from, in degrees from north, clockwise.
local function direction(u, v) return (math.deg(math.atan2(-u, -v)) + 360) % 360 end

--- Relative humidity in percent of temperature and dew point in K (Magnus).
local function humidity(warm, dew)
  local function held(t) return 17.625 * (t - 273.15) / (t - 30.11) end
  return math.min(100, 100 * math.exp(held(dew) - held(warm)))
end

-- What each new column is made of; nil of a day that lacks one of them.
local weather = {
  {"wind_speed_10", {"u10", "v10"}, function(u, v) return rounded(math.sqrt(u * u + v * v), 3) end},
  {"wind_direction_10", {"u10", "v10"}, function(u, v) return rounded(direction(u, v), 2) end},
  {"wind_speed_100", {"u100", "v100"}, function(u, v) return rounded(math.sqrt(u * u + v * v), 3) end},
  {"wind_direction_100", {"u100", "v100"}, function(u, v) return rounded(direction(u, v), 2) end},
  {"dew_gap", {"t2m", "d2m"}, function(warm, dew) return rounded(warm - dew, 2) end},
  {"humidity", {"t2m", "d2m"}, function(warm, dew) return rounded(humidity(warm, dew), 2) end},
  {"wind_sector", {"u10", "v10"}, function(u, v) return math.floor((direction(u, v) + 22.5) / 45) % 8 end},
}

local calendar_columns = {"month", "day", "day_of_year", "weekday", "week", "season", "heating"}

-- ---- columns ----

--- Rows in the order of their dates, which lags and means go by.
local function sorted(t)
  local order, seen = {}, {}
  for i = 1, #t.date do order[i] = i end
  table.sort(order, function(a, b) return t.date[a] < t.date[b] or t.date[a] == t.date[b] and a < b end)
  local made = {columns = {}}
  for _, name in ipairs(t.columns) do
    made.columns[#made.columns + 1] = name
    made[name] = {}
    for i, from in ipairs(order) do
      local x = t[name][from]
      made[name][i] = x == nil and missing or x
    end
  end
  for i, from in ipairs(order) do
    if seen[t.date[from]] then
      core.error{code = "format",
        message = ("data.pm25_features: rows %d and %d have the same date, %s"):format(seen[t.date[from]], from,
        t.date[from])}
    end
    seen[made.date[i]] = from
  end
  return made
end

local function add(t, name, list)
  if not t[name] then t.columns[#t.columns + 1] = name end
  t[name] = list
end

local function add_calendar(t)
  local lists = {}
  for _, name in ipairs(calendar_columns) do lists[name] = {} end
  for i, date in ipairs(t.date) do
    for name, x in pairs(calendar(date, i)) do lists[name][i] = x end
  end
  for _, name in ipairs(calendar_columns) do add(t, name, lists[name]) end
end

local function add_weather(t)
  for _, rule in ipairs(weather) do
    local a, b = t[rule[2][1]], t[rule[2][2]]
    if a and b then
      local list = {}
      for i = 1, #t.date do
        list[i] = (a[i] == a[i] and b[i] == b[i]) and rule[3](a[i], b[i]) or missing
      end
      add(t, rule[1], list)
    end
  end
end

--- Of the days before: lag k at a day is the value k rows earlier; a mean of k at a day is over it and the k - 1
-- before.
local function add_history(t)
  for _, k in ipairs{1, 3, 7} do
    local list = {}
    for i = 1, #t.date do list[i] = t.pm25[i - k] or missing end
    add(t, "pm25_lag" .. k, list)
  end
  for _, k in ipairs{3, 7, 30} do
    local list = {}
    for i = 1, #t.date do
      local sum = 0
      for back = 0, k - 1 do sum = sum + (t.pm25[i - back] or missing) end
      list[i] = rounded(sum / k, 3)
    end
    add(t, "pm25_mean" .. k, list)
  end
end

--- What to derive from a table of columns with date (texts as 2015-02-28) and pm25, and if they are there u10, v10,
-- u100, v100 (m/s), t2m, d2m (K): wind speed and direction, sector of the wind, dew gap, relative humidity, calendar,
-- lags of 1, 3 and 7 days, means over 3, 7 and 30 days. A day's features use that day and those before alone.
-- in    t: {columns = {"date", …}, date = {…}, pm25 = {…}, …}, as data.pm25 and data.read_csv give it, in any order
-- out   another table, sorted by date, with the new columns behind the others; NaN where a day lacks what it needs
-- errs  value: no date or no pm25; format: what is no date, a date that occurs twice
function pm25.features(t)
  check.value("data.pm25_features", {"the table", "table"}, t)
  if type(t.date) ~= "table" or type(t.pm25) ~= "table" then
    core.fail("data.pm25_features needs the columns date and pm25")
  end
  local made = sorted(t)
  add_weather(made)
  add_calendar(made)
  add_history(made)
  return made
end

--- A synthetic daily series: particulate matter of a city, and the weather that drives it. To try forecasting models;
-- it is not data of a real city.
-- opts  seed = 42; days = 3653, from 2015-01-01 on; features = true: with the columns of data.pm25_features
-- out   {columns = {"date", "pm25", …}, date = {texts}, pm25 = {ug/m3}, …}
-- errs  value
function pm25.make(opts)
  local o = check.keys("data.pm25", opts, {"seed", "days", "features"})
  local made = core.data.pm25(o.seed or 42, o.days or 3653)
  return o.features == false and made or pm25.features(made)
end

--- A CSV file as a table of columns: numbers where all that is written in one is a number, texts otherwise.
-- in   path
-- errs io; format: no CSV, with the line
function pm25.read_csv(path)
  check.value("data.read_csv", {"path", "string"}, path)
  local t = core.data.csv_read(path)
  for _, name in ipairs(t.columns) do
    local numbers = {}
    for i, text in ipairs(t[name]) do
      local x = (text == "" or text == "NA" or text == "NaN") and missing or tonumber(text)
      if not x or text:find("^0[xX]") then numbers = nil break end
      numbers[i] = x
    end
    t[name] = numbers or t[name]
  end
  return t
end

--- A table of columns as the text of a CSV file.
function pm25.text(t)
  local lines, n = {table.concat(t.columns, ",")}, #t[t.columns[1]]
  for i = 1, n do
    local cells = {}
    for k, name in ipairs(t.columns) do
      local x = t[name][i]
      if type(x) == "string" then cells[k] = x
      elseif x == nil or x ~= x then cells[k] = ""
      else cells[k] = ("%.10g"):format(x) end
    end
    lines[#lines + 1] = table.concat(cells, ",")
  end
  return table.concat(lines, "\n") .. "\n"
end

return pm25
