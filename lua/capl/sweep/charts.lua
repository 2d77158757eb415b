-- charts.lua: the charts of a sweep's page: its metric over each setting, and the curves of the best trials.
-- SPDX-License-Identifier: Apache-2.0
local chart = require "report.chart"
local curves = require "report.curves"
local facts = require "report.facts"
local folder = require "report.folder"
local html = require "report.html"
local value = require "report.value"

local charts = {}

local MOST_CURVES = 6

local function is_share(s) return curves.is_share((s.metric:gsub("^val_", ""))) end

-- The metric over the values of one key: as places when they are numbers, else as bars of the best of each value.
local function numbers_panel(s, key)
  local list = {}
  for _, result in ipairs(s.results) do
    local x, y = tonumber(value.at(result, "settings", key)), value.number(result, "value")
    if not x then return nil end
    if y then list[#list + 1] = {x, y} end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  local series = {name = s.metric, x = {}, y = {}, style = "points"}
  for i, pair in ipairs(list) do series.x[i], series.y[i] = pair[1], pair[2] end
  return chart.lines{title = ("%s over %s"):format(s.metric, key), x_label = key, x_log = true, percent = is_share(s)
    or nil, series = {series}}
end

local function words_bars(s, key)
  if not is_share(s) then return nil end
  local best, order, items = {}, {}, {}
  for _, result in ipairs(s.results) do
    local name, y = facts.plain(value.at(result, "settings", key)), value.number(result, "value")
    if y and not best[name] then best[name], order[#order + 1] = y, name end
  end
  for i, name in ipairs(order) do items[i] = {name, best[name], html.percent(best[name])} end
  return #items > 0 and chart.bars(("best %s by %s"):format(s.metric, key), items) or nil
end

local function by_setting(s)
  local out = {}
  for _, key in ipairs(s.keys) do out[#out + 1] = numbers_panel(s, key) or words_bars(s, key) end
  return #out > 0 and '<div class="grid">' .. table.concat(out, "\n") .. "</div>" or nil
end

local function read_trial(result)
  local path = value.text(result, "folder")
  local fine, r = pcall(folder.read, path or "")
  return fine and r or nil
end

local function best_curves(s)
  local series, x_label = {}, "steps"
  for i = 1, math.min(#s.results, MOST_CURVES) do
    local r = read_trial(s.results[i])
    if r then
      local list = s.metric:match("^val_") and r.evaluations or r.points
      local found = curves.series(list, "images", ("trial %s"):format(facts.plain(s.results[i].trial)), s.metric)
      found.style, x_label = "dots", "images"
      series[#series + 1] = found
    end
  end
  return chart.lines{title = ("%s of the best trials"):format(s.metric), x_label = x_label, percent = is_share(s)
    or nil, series = series}
end

-- Of a trial that continued from rung to rung, only the last result.
local function each_once(results)
  local seen, out = {}, {}
  for _, result in ipairs(results) do
    if not seen[result.trial] then seen[result.trial], out[#out + 1] = true, result end
  end
  return out
end

--- Charts of a sweep: its metric over each setting, and the curves of the best trials.
-- in   metric, keys, results (best first)
-- out  HTML; "" when no trial has a metric
function charts.of(metric, keys, results)
  local s = {metric = metric, keys = keys, results = each_once(results)}
  local settings, lines = by_setting(s), best_curves(s)
  return (settings and "<section><h2>What the settings did</h2>" .. settings .. "</section>" or "") ..
    (lines and "<section><h2>Curves</h2>" .. lines .. "</section>" or "")
end

return charts
