-- metric.lua: the metric a sweep chooses by: one of the evaluations on the val loader, never one of the test images.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local lines = require "train.lines"

local metric = {}

-- Metrics that are better when they are less: these words in their names.
local less = {"loss", "mae", "rmse", "mape", "smae", "smape", "error", "distance", "mse", "cer"}
-- Metrics that say how sure another one is, or how much was counted.
local function is_aside(name) return name == "val_n" or name:match("low$") ~= nil or name:match("high$") ~= nil end

--- The metric as metrics.jsonl calls it: that of the val images is meant, "gap.mae" is val_gap.mae.
function metric.full(name)
  return (name:match("^val_") or name:match("^test")) and name or "val_" .. name
end

--- "min" or "max": which is better.
function metric.goal(name)
  name = name:gsub("%.", "_")
  for _, word in ipairs(less) do
    if ("_" .. name .. "_"):find("_" .. word .. "_", 1, true) then return "min" end
  end
  return "max"
end

--- Raises for a name that no evaluation can have.
function metric.check(name)
  if name:match("^test") then
    core.fail(("--metric=%s: a sweep never selects by test metrics"):format(name),
      "a selection by them would bias the test; use --metric=val_exact or another metric of the val loader")
  end
  if not name:match("^val_[%w_@%.]+$") or is_aside(name) then
    core.fail(("--metric=%s is no metric of an evaluation on val images"):format(name),
      "such as val_exact, val_chars, val_loss or val_gap.mae of an output called gap")
  end
end

--- Whether a is better than b.
function metric.better(goal, a, b)
  if goal == "min" then return a < b end
  return a > b
end

-- The evaluations in a run's metrics.jsonl, as far as it is written.
local function evaluations(folder)
  local out, points = {}, {}
  for _, row in ipairs(lines.read(folder .. "/metrics.jsonl") or {}) do
    local is_evaluation = false
    for key in pairs(row) do is_evaluation = is_evaluation or tostring(key):match("^val_") ~= nil end
    table.insert(is_evaluation and out or points, row)
  end
  return out, points
end

--- The metrics of a run's evaluations -> sorted names, or nil before the first one.
function metric.names(folder)
  local rows = evaluations(folder)
  if not rows[1] then return nil end
  local names = {}
  for key in pairs(rows[1]) do
    if key:match("^val_") and not is_aside(key) then names[#names + 1] = key end
  end
  table.sort(names)
  return names
end

--- Raises when a run's evaluations have other metrics than the one chosen by.
function metric.check_names(name, all)
  local names = {}
  for _, known in ipairs(all) do
    if known == name then return end
    if not is_aside(known) then names[#names + 1] = known end
  end
  local near = core.nearest(name, names)
  core.fail(("--metric=%s: the runs have %s%s"):format(name, table.concat(names, ", "), near
    and ("; did you mean %s?"):format(near) or ""))
end

--- The best evaluation of a run by a metric -> its row {step, seconds, …}, and the row of the last training point.
-- last  the last evaluation in place of the best one
function metric.of_run(folder, name, goal, last)
  local rows, points = evaluations(folder)
  local best
  for _, row in ipairs(rows) do
    local value = row[name]
    if type(value) == "number" and (last or not best or not metric.better(goal, best[name], value)) then best = row end
  end
  return best, points[#points]
end

--- The values of a metric over the images seen -> {x, y}
function metric.curve(folder, name)
  local x, y = {}, {}
  for _, row in ipairs((evaluations(folder))) do
    local at = tonumber(row.images) or tonumber(row.step)
    if at and type(row[name]) == "number" then x[#x + 1], y[#y + 1] = at, row[name] end
  end
  return {x = x, y = y}
end

return metric
