-- compare.lua: what two runs have in common and what not: settings, data, model, metrics, and curves at equal images.
-- SPDX-License-Identifier: Apache-2.0
local chart = require "report.chart"
local curves = require "report.curves"
local facts = require "report.facts"
local statistics = require "report.statistics"
local value = require "report.value"

local compare = {}

local ROWS = 10 -- of the table of curves
local CHANCE = 0.05 -- below it a difference is called significant

-- ---- settings, data, model ----

local function union(a, b)
  local both = {}
  for _, t in ipairs{a, b} do
    for _, key in ipairs(value.keys(t)) do both[key] = true end
  end
  return value.keys(both)
end

local function show_value(x)
  local inner = value.at(x, "value")
  if inner == nil then inner = x end
  return facts.plain(inner)
end

-- Values that differ: list of {key, a, b} as texts, nil where one has none; and how many are equal.
local function differences(a, b, show)
  local out, equal = {}, 0
  for _, key in ipairs(union(a, b)) do
    local x, y = a[key], b[key]
    if show_value(x) == show_value(y) then
      equal = equal + 1
    else
      out[#out + 1] = {key = key, a = show(x), b = show(y)}
    end
  end
  return out, equal
end

local function setting_text(s)
  if s == nil then return nil end
  return facts.plain(value.at(s, "value")) .. " (" .. (value.text(s, "origin") or "?") .. ")"
end

--- {role = {same = true, false or nil (not known), a = hash, b = hash, …}}
local function data_of(a, b)
  local out = {}
  local x, y = value.table(a.settings, "data"), value.table(b.settings, "data")
  for _, role in ipairs(union(x, y)) do
    local p, q = value.text(x, role, "hash"), value.text(y, role, "hash")
    local same = nil
    if p and q then same = p == q end
    out[#out + 1] = {role = role, same = same, a = p, b = q,
      a_count = value.number(x, role, "count"), b_count = value.number(y, role, "count")}
  end
  return out
end

local function plain_differences(a, b)
  local function show(x) return x ~= nil and facts.plain(x) or nil end
  return differences(value.table(a), value.table(b), show)
end

-- ---- metrics ----

-- Metrics of the same images: those of both tests, else those of both validations.
local function common_metrics(a, b)
  for _, name in ipairs{"test", "best", "val"} do
    local x, y = value.table(a.result, name), value.table(b.result, name)
    if next(x) and next(y) then return x, y, name == "best" and "val, best weights" or name end
  end
end

-- p-value for metrics that count samples read right.
local function chance_of(key, x, y)
  local n, m = value.number(x, "n"), value.number(y, "n")
  if key ~= "exact" or not n or not m or n < 1 or m < 1 or n + m > 1e7 then return nil end
  return statistics.two_shares(math.floor(x.exact * n + 0.5), n, math.floor(y.exact * m + 0.5), m)
end

local function interval(metrics, key)
  local prefix = curves.interval_prefix(key)
  return value.number(metrics, prefix .. "low"), value.number(metrics, prefix .. "high")
end

local function metric(key, x, y)
  local out = {key = key, a = x[key], b = y[key], share = curves.is_share(key) and true or false}
  out.a_low, out.a_high = interval(x, key)
  out.b_low, out.b_high = interval(y, key)
  out.p, out.test = chance_of(key, x, y)
  if out.p then out.significant = out.p < CHANCE end
  return out
end

local function metrics_of(a, b)
  local x, y, role = common_metrics(a, b)
  if not x then return {}, nil end
  local out = {}
  for _, key in ipairs(facts.metric_keys(x)) do
    if value.number(y, key) then out[#out + 1] = metric(key, x, y) end
  end
  return out, role
end

-- ---- curves ----

-- What is compared along the way: the metric that decides, and the main ones of each kind of task.
local function wanted(a, b)
  local out, seen = {"loss", "val_loss"}, {}
  local main = {value.text(a.evaluation, "main") or "exact", value.text(b.evaluation, "main") or "exact"}
  for _, key in ipairs{main[1], main[2], "exact", "chars", "miou", "rmse", "r2"} do
    if not seen[key] then seen[key], out[#out + 1] = true, "val_" .. key end
  end
  return out
end

local function columns_of(a, b, x_key)
  local out = {}
  for _, key in ipairs(wanted(a, b)) do
    local list = key == "loss" and "points" or "evaluations"
    local p, q = curves.series(a[list], x_key, "a", key), curves.series(b[list], x_key, "b", key)
    if chart.has_value(p) and chart.has_value(q) then out[#out + 1] = {key = key, a = p, b = q} end
  end
  return out
end

-- As far as the shorter run went.
local function common_end(columns)
  local last = math.huge
  for _, c in ipairs(columns) do last = math.min(last, c.a.x[#c.a.x], c.b.x[#c.b.x]) end
  return last
end

--- Rows of {x, {a, b} of each column} at places that both runs reached.
local function rows_of(columns)
  local out = {}
  if #columns == 0 then return out end
  local last = common_end(columns)
  for i = 1, ROWS do
    local x = math.floor(last * i / ROWS + 0.5)
    local row = {x = x}
    for k, c in ipairs(columns) do row[k] = {a = chart.value_at(c.a, x), b = chart.value_at(c.b, x)} end
    out[i] = row
  end
  return out
end

-- ---- all ----

--- Compares two runs that report.folder has read.
-- out  {settings, equal_settings, data, model, machine (lists of {key, a, b}), metrics, role, x = "images" or "steps",
--      columns, rows}
function compare.runs(a, b)
  local out = {}
  out.settings, out.equal_settings = differences(facts.all_settings(a.settings), facts.all_settings(b.settings),
    setting_text)
  out.data, out.model = data_of(a, b), plain_differences(a.settings.model, b.settings.model)
  out.machine = plain_differences(a.settings.machine, b.settings.machine)
  out.versions = {a = value.text(a.settings, "version"), b = value.text(b.settings, "version")}
  out.metrics, out.role = metrics_of(a, b)
  local x_key = curves.x_of(a) == "images" and curves.x_of(b) == "images" and "images" or "step"
  out.x = x_key == "images" and "images" or "steps"
  out.columns = columns_of(a, b, x_key)
  out.rows = rows_of(out.columns)
  return out
end

return compare
