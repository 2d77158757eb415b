-- curves.lua: the charts of a report: loss, metrics, learning rate, speed, and what the machine did meanwhile.
-- SPDX-License-Identifier: Apache-2.0
local chart = require "report.chart"
local html = require "report.html"
local value = require "report.value"

local curves = {}

local MOST_CHARTS = 8 -- of metrics that have no chart of their own kind
local MOST_SERIES = 6 -- of one chart of metrics

-- ---- series ----

--- What the x axis counts: images when every row has them, else steps.
function curves.x_of(r)
  for _, list in ipairs{r.points, r.evaluations} do
    for _, row in ipairs(list) do
      if not value.number(row, "images") then return "step", "steps" end
    end
  end
  return "images", "images"
end

-- What most rows do not have is written less often than they are: its line goes from one to the next.
local function without_gaps(s, count)
  if count * 2 >= #s.x then return s end
  local x, y = {}, {}
  for i, found in ipairs(s.y) do
    if found then x[#x + 1], y[#y + 1] = s.x[i], found end
  end
  s.x, s.y = x, y
  return s
end

--- Series of what lies at a path of keys in each row; missing values are gaps.
function curves.series(rows, x_key, name, ...)
  local s, count = {name = name, x = {}, y = {}}, 0
  for _, row in ipairs(rows) do
    local x = value.number(row, x_key)
    if x and math.abs(x) < 1e60 then
      local y = value.number(row, ...)
      s.x[#s.x + 1], s.y[#s.y + 1] = x, y or false
      count = count + (y and 1 or 0)
    end
  end
  return without_gaps(s, count)
end

--- Keys at a path that hold numbers in some row: sorted.
local function number_keys(rows, ...)
  local seen = {}
  for _, row in ipairs(rows) do
    for key, found in pairs(value.table(row, ...)) do
      if type(key) == "string" and type(found) == "number" then seen[key] = true end
    end
  end
  return value.keys(seen)
end

-- Steps at which something happened, as places on the x axis.
local function marks_of(r, x_key)
  local out = {}
  for _, event in ipairs(r.events) do
    local x = x_key == "step" and value.number(event, "step") or value.number(event, "images")
    if not x and x_key == "images" then x = curves.images_at(r, value.number(event, "step")) end
    if x then out[#out + 1] = {x = x} end
  end
  return out
end

--- Images seen at a step; nil when no point lies around it.
function curves.images_at(r, step)
  if not step then return nil end
  return chart.value_at(curves.series(r.points, "step", "", "images"), step)
end

-- ---- learning ----

local shares = {
  exact = true, chars = true, merged = true, confidence = true, accuracy = true, top5 = true, precision = true,
  recall = true, map = true, exact_match = true, balanced_accuracy = true, cer = true, edit_distance_normalized = true,
  f = true, f1 = true, blanks = true,
}

local share_patterns = {"^f_", "^f1_", "^map_", "^images_%d", "s?mape$", "^hit", "_hit_%d", "iou$", "_rate$"}

--- Whether a metric of this name is a share of 1, shown in percent.
function curves.is_share(name)
  name = name:match("[^.]*$") -- of an output: "gap.hit_5"
  if shares[name] then return true end
  for _, pattern in ipairs(share_patterns) do
    if name:match(pattern) then return true end
  end
  return false
end

local names = {
  exact = "whole texts", chars = "characters",
  merged = "with look-alikes merged", miou = "mean IoU", cer = "character error rate", edit_distance = "edits per text",
  f = "F", f_batch = "F, mean of batches", accuracy = "read right",
  map = "mean average precision", f1 = "F1", f1_micro = "F1 of all classes together", exact_match = "exact match",
  map_50 = "mAP at IoU 0.5",
  top5 = "among the first five", balanced_accuracy = "mean recall of the classes",
  blanks = "time steps read as blank", r2 = "R²", mae = "MAE", rmse = "RMSE", smape = "sMAPE",
}

function curves.name_of(key)
  local output, metric = key:match("^(.+)%.([^.]+)$")
  if output then return output .. " " .. curves.name_of(metric) end
  local of, px = key:match("^(.-)_?hit_([%d.]+)$")
  if not px then px = key:match("^images_([%d.]+)$") end
  if px then return ("%s within %s px"):format(of == "" and "points" or of or "images", px) end
  return names[key] or (key:gsub("_", " "))
end

local function with_band(s, rows, x_key, low, high)
  local l, h = curves.series(rows, x_key, "", low), curves.series(rows, x_key, "", high)
  if #l.x == #s.x and #h.x == #s.x and #s.x > 0 then s.band = {low = l.y, high = h.y} end
  return s
end

--- What the keys of a metric's interval begin with: exact and accuracy have low and high, "gap.hit" "gap.hit_low".
function curves.interval_prefix(key)
  local output, name = key:match("^(.-)([^.]*)$")
  return (name == "exact" or name == "accuracy") and output or key .. "_"
end

local function band_keys(key)
  local prefix = "val_" .. curves.interval_prefix(key)
  return prefix .. "low", prefix .. "high"
end

-- Of texts, these say what the shares of texts and characters say.
local beside_exact = {confidence = true, cer = true, edit_distance = true, edit_distance_normalized = true}

local no_metric = {loss = true, n = true, value = true, replaced = true, points = true, pixels = true,
  mape_left_out = true}

local function has_curve(key, has_exact)
  local of_a_point = key:match("_hit_%d") -- they have a table
  if no_metric[key:match("[^.]*$")] or of_a_point or key:match("low$") or key:match("high$") then return false end
  return not (has_exact and beside_exact[key])
end

-- The same metric of the weights as they are trained, where averages are compared with them; nil where they are not.
local function plain_of(r, x_key, s)
  local plain = curves.series(r.evaluations, x_key, s.name .. ", without averages", "plain_val_exact")
  plain.style = "dots"
  return #plain.x > 0 and plain or nil
end

-- The metric that is measured of each point or number too: gap_mae and piece_mae belong to mae, in its chart.
local function chart_of(key)
  local output, metric = key:match("^(.+%.)([^.]+)$")
  metric = metric or key
  for _, of in ipairs{"mae", "rmse", "r2"} do
    if metric:match("_" .. of .. "$") then return (output or "") .. of end
  end
  return key
end

-- Shares have one chart; exact comes first in it, then the same of the weights as they are trained.
local function add_share(r, x_key, list, key, s)
  table.insert(list, key == "exact" and 1 or #list + 1, s)
  local plain = key == "exact" and plain_of(r, x_key, s)
  if plain then table.insert(list, 2, plain) end
end

-- The others have one each, but for parts of what has one.
local function add_chart(panels, charts, key, s, base)
  local of = chart_of(key)
  if charts[of] then return table.insert(charts[of].series, of == key and 1 or #charts[of].series + 1, s) end
  if #panels == MOST_CHARTS then return end
  charts[of] = base{title = curves.name_of(of) .. " (val)", series = {s}}
  panels[#panels + 1] = charts[of]
end

local function shorten(list)
  while #list > MOST_SERIES do list[#list] = nil end
end

-- Metrics of the evaluations as charts.
local function metric_panels(r, x_key, base)
  local share_series, panels, charts, keys = {}, {}, {}, number_keys(r.evaluations)
  local has_exact = curves.mean(r.evaluations, "val_exact") ~= nil
  for _, full in ipairs(keys) do
    local key = full:match("^val_(.+)$")
    if key and has_curve(key, has_exact) then
      local s = curves.series(r.evaluations, x_key, curves.name_of(key), full)
      s.style = "dots"
      with_band(s, r.evaluations, x_key, band_keys(key))
      if curves.is_share(key) then add_share(r, x_key, share_series, key, s)
      else add_chart(panels, charts, key, s, base) end
    end
  end
  shorten(share_series)
  for _, panel in ipairs(panels) do shorten(panel.series) end
  local title = has_exact and "read right (val)" or "metrics (val)"
  if #share_series > 0 then table.insert(panels, 1, base{title = title, percent = true, series = share_series}) end
  return panels
end

local function loss_panel(r, x_key, base)
  local train, val = curves.series(r.points, x_key, "train", "loss"),
    curves.series(r.evaluations, x_key, "val", "val_loss")
  local plain = curves.series(r.evaluations, x_key, "val, without averages", "plain_val_loss")
  val.style, plain.style = "dots", "dots"
  return base{title = "loss", log = true, series = {train, val, #plain.x > 0 and plain or nil}}
end

-- Everything else that points of the curve hold as a number, such as the gradient's norm.
local known = {
  step = true, images = true, seconds = true, loss = true, lr = true, images_per_s = true, wait = true, epoch = true,
  position = true,
}
local function other_panels(r, x_key, base)
  local panels = {}
  for _, key in ipairs(number_keys(r.points)) do
    if not known[key] and #panels < MOST_CHARTS then
      local name = curves.name_of(key)
      panels[#panels + 1] = base{title = name, log = true, series = {curves.series(r.points, x_key, name, key)}}
    end
  end
  return panels
end

-- First and last x of all rows: the charts of a section begin and end together.
local function range_of(r, x_key)
  local low, high
  for _, list in ipairs{r.points, r.evaluations} do
    local s = curves.series(list, x_key, "")
    if s.x[1] then low, high = math.min(low or s.x[1], s.x[1]), math.max(high or 0, s.x[#s.x]) end
  end
  return low, high
end

local function base_of(r, x_label, x_key)
  local marks, low, high = marks_of(r, x_key), range_of(r, x_key)
  return function(panel)
    panel.x_label, panel.marks, panel.x_low, panel.x_high = x_label, marks, low, high
    return panel
  end
end

local function drawn(panels)
  local out = {}
  for _, panel in ipairs(panels) do
    local text = chart.lines(panel)
    if text then out[#out + 1] = text end
  end
  return #out > 0 and '<div class="grid">' .. table.concat(out, "\n") .. "</div>" or nil
end

--- Loss and metrics over the images seen.
function curves.learning(r)
  local x_key, x_label = curves.x_of(r)
  local base = base_of(r, x_label, x_key)
  local panels = {loss_panel(r, x_key, base)}
  for _, list in ipairs{metric_panels(r, x_key, base), other_panels(r, x_key, base)} do
    for _, panel in ipairs(list) do panels[#panels + 1] = panel end
  end
  return drawn(panels)
end

--- The learning rate.
function curves.rate(r)
  local x_key, x_label = curves.x_of(r)
  return drawn{base_of(r, x_label, x_key){title = "learning rate", zero = true,
    series = {curves.series(r.points, x_key, "lr", "lr")}}}
end

--- Speed, and how long steps waited for data.
function curves.speed(r)
  local x_key, x_label = curves.x_of(r)
  local base = base_of(r, x_label, x_key)
  return drawn{
    base{title = "images per second", zero = true,
    series = {curves.series(r.points, x_key, "images/s", "images_per_s")}},
    base{title = "share of time waited for data", percent = true, zero = true,
    series = {curves.series(r.points, x_key, "wait", "wait")}},
  }
end

-- ---- hardware ----

local function degrees(x) return ("%.3g °C"):format(x) end
local function watts(x) return ("%.4g W"):format(x) end

-- Charts of the readings: {title, {key, name}…}, each only where the readings hold it.
local reading_charts = {
  {"utilization", percent = true, {"utilization", "GPU"}, {"memory_utilization", "its memory"},
  {"cpu", "processors, by this run"},
    {"cpu_machine", "by all"}},
  {"memory", format = html.bytes, {"memory_used", "GPU"}, {"rss", "process"}, {"ram_used", "machine"}},
  {"power", format = watts, {"power_w", "GPU"}, {"power_limit_w", "its limit"}, {"cpu_power_w", "processors"}},
  {"temperature", format = degrees, {"temperature_c", "GPU"}, {"cpu_temperature_c", "processor"}},
  {"clocks (MHz)", {"sm_mhz", "SM"}, {"memory_mhz", "GPU memory"}, {"cpu_mhz", "processors"}},
}

--- Readings of the sampler over the seconds of the run.
function curves.hardware(r)
  local panels = {}
  for _, spec in ipairs(reading_charts) do
    local series = {}
    for _, entry in ipairs(spec) do
      if type(entry) == "table" then
        series[#series + 1] = curves.series(r.points, "seconds", entry[2], "monitor", entry[1])
      end
    end
    panels[#panels + 1] = {title = spec[1], x_label = "seconds", percent = spec.percent, format = spec.format,
      zero = true, series = series}
  end
  return drawn(panels)
end

-- ---- averages over the run ----

--- Sum of what lies at a path of keys over the rows; nil when no row has it.
function curves.sum(rows, ...)
  local sum
  for _, row in ipairs(rows) do
    local found = value.number(row, ...)
    if found then sum = (sum or 0) + found end
  end
  return sum
end

--- Mean, least and greatest of a reading; nil when no row has it.
function curves.mean(rows, ...)
  local sum, n, low, high = 0, 0, math.huge, -math.huge
  for _, row in ipairs(rows) do
    local found = value.number(row, ...)
    if found then
      sum, n = sum + found, n + 1
      low, high = math.min(low, found), math.max(high, found)
    end
  end
  if n > 0 then return sum / n, low, high end
end

return curves
