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

-- Where a row is, for messages: FILE:LINE, or its number in a table.
local function where(t, row)
  local path = t.columns.path
  return path and ("%s:%d"):format(path, t.columns.lines[row]) or ("data.pm25_features: row %d"):format(row)
end

local function refuse(t, row, hint, message, ...)
  core.error{code = "format", message = where(t, row) .. ": " .. message:format(...), hint = hint, path = false}
end

local function read_date(t, row)
  local date = tostring(t.date[row])
  local year, month, day = date:match("^(%d%d%d%d)[-/](%d%d)[-/](%d%d)")
  if not year then refuse(t, row, "dates are written 2015-02-28", "'%s' is no date", date) end
  return tonumber(year), tonumber(month), tonumber(day)
end

local function day_of(t, row) return day_number(read_date(t, row)) end

local function calendar(t, row)
  local year, month, day = read_date(t, row)
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
  for i = 1, #t.date do
    order[i] = i
    read_date(t, i)
  end
  table.sort(order, function(a, b) return t.date[a] < t.date[b] or t.date[a] == t.date[b] and a < b end)
  local made = {columns = {path = t.columns.path, lines = t.columns.path and {}}}
  for i, from in ipairs(t.columns.path and order or {}) do made.columns.lines[i] = t.columns.lines[from] end
  for _, name in ipairs(t.columns) do
    made.columns[#made.columns + 1] = name
    made[name] = {}
    for i, from in ipairs(order) do
      local x = t[name][from]
      made[name][i] = x == nil and missing or x
    end
  end
  for i, from in ipairs(order) do
    local other = seen[t.date[from]]
    if other and t.columns.path then
      refuse(t, math.max(from, other), "leave one of them out", "the date %s is also in line %d", t.date[from],
        t.columns.lines[math.min(from, other)])
    elseif other then
      core.error{code = "format",
        message = ("data.pm25_features: rows %d and %d have the same date, %s"):format(other, from, t.date[from])}
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
  for i = 1, #t.date do
    for name, x in pairs(calendar(t, i)) do lists[name][i] = x end
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

-- ---- files of somebody's own ----

-- Raises for the first cell of a column that is no number, beside the date.
local function need_numbers(t)
  for _, name in ipairs(t.columns) do
    for i, x in ipairs(name == "date" and {} or t[name]) do
      if type(x) == "string" and not (x == "" or x == "NA" or x == "NaN" or tonumber(x)) then
        refuse(t, i, "write numbers; leave a cell empty where nothing was measured, and leave out columns of texts",
          "%s: '%s' is no number", name, x)
      elseif math.abs(tonumber(x) or 0) == math.huge then
        refuse(t, i, nil, "%s: the number is infinite", name)
      end
    end
  end
end

local function next_date(year, month, day)
  local next_year, next_month = year + math.floor(month / 12), month % 12 + 1
  if day_number(year, month, day) + 1 < day_number(next_year, next_month, 1) then return year, month, day + 1 end
  return next_year, next_month, 1
end

-- made: a table sorted by date; out: one with a row without numbers for each date that lacks.
local function fill_gaps(made)
  local out, lines = {columns = {path = made.columns.path, lines = {}}}, made.columns.lines or {}
  for i, name in ipairs(made.columns) do out.columns[i], out[name] = name, {} end
  local year, month, day
  for i = 1, #made.date do
    for _ = 1, i > 1 and day_of(made, i) - day_of(made, i - 1) - 1 or 0 do
      year, month, day = next_date(year, month, day)
      for _, name in ipairs(made.columns) do
        table.insert(out[name], name == "date" and ("%04d-%02d-%02d"):format(year, month, day) or missing)
      end
      table.insert(out.columns.lines, lines[i] or 0)
    end
    for _, name in ipairs(made.columns) do table.insert(out[name], made[name][i]) end
    table.insert(out.columns.lines, lines[i] or 0)
    year, month, day = read_date(made, i)
  end
  return out
end

local function need_all_days(made)
  for i = 2, #made.date do
    local missed = day_of(made, i) - day_of(made, i - 1) - 1
    if missed > 0 then
      refuse(made, i, 'add a row for each with empty cells, or give gaps = "fill" (a recipe: --gaps=fill)',
        "%d day%s missing between %s and %s", missed, missed == 1 and " is" or "s are", made.date[i - 1], made.date[i])
    end
  end
end

local function need_columns(t)
  local name = type(t.date) ~= "table" and "date" or type(t.pm25) ~= "table" and "pm25" or nil
  if not name then return end
  if not t.columns.path then core.fail("data.pm25_features needs the columns date and pm25") end
  core.error{code = "format", path = false,
    message = ("%s:1: no column is called %s; there are: %s"):format(t.columns.path, name,
      table.concat(t.columns, ", ")),
    hint = "the columns date (2015-02-28) and pm25 (ug/m3) must be there; rename yours"}
end

--- What to derive from a table of columns with date (texts as 2015-02-28) and pm25, and if they are there u10, v10,
-- u100, v100 (m/s), t2m, d2m (K): wind speed and direction, sector of the wind, dew gap, relative humidity, calendar,
-- lags of 1, 3 and 7 days, means over 3, 7 and 30 days. A day's features use that day and those before alone.
-- in    t: {columns = {"date", …}, date = {…}, pm25 = {…}, …}, as data.pm25 and data.read_csv give it, in any order
-- opts  gaps = "stop": days between the first and the last that have no row are an error; "fill": they get one without
--       numbers; without it rows count as days
-- out   another table, sorted by date, with the new columns behind the others; NaN where a day lacks what it needs
-- errs  value: no date or no pm25; format, with the line of the file if there is one: what is no date or no number, a
--       date that occurs twice, a gap
function pm25.features(t, opts)
  check.value("data.pm25_features", {"the table", "table"}, t)
  local o = check.keys("data.pm25_features", opts, {"gaps"})
  if o.gaps then check.one_of("data.pm25_features", "gaps", o.gaps, {"stop", "fill"}) end
  if type(t.columns) ~= "table" then core.fail("data.pm25_features needs the columns date and pm25") end
  need_columns(t)
  if t.columns.path then need_numbers(t) end
  local made = sorted(t)
  if o.gaps == "stop" then need_all_days(made) end
  if o.gaps == "fill" then made = fill_gaps(made) end
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

--- A CSV file as a table of columns: numbers where all that is written in one is a number, texts otherwise; and
-- columns.path, columns.lines: where each row is in the file.
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
