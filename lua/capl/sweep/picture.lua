-- picture.lua: sweep.png, the figure over each setting and all trials side by side; curves.png, the best ones over the images.
-- SPDX-License-Identifier: Apache-2.0
local metric = require "sweep.metric"
local plot = require "plot"
local show = require "sweep.show"

local picture = {}

local CURVES = 7 -- of the best trials: as many as have a colour of their own
local SPREAD = 30 -- the largest value over the least, from which on an axis is a log one

local function is_share(plan, results)
  if not show.is_share(plan.metric) then return false end
  for _, r in ipairs(results) do
    if r.value and (r.value < 0 or r.value > 1) then return false end
  end
  return true
end

-- The last result of each trial: of rungs, the longest run.
local function last_of_each(results)
  local by_trial, out = {}, {}
  for _, r in ipairs(results) do
    local known = by_trial[r.trial]
    if not known or r.rung > known.rung then by_trial[r.trial] = r end
  end
  for _, r in pairs(by_trial) do out[#out + 1] = r end
  table.sort(out, function(a, b) return a.trial < b.trial end)
  return out
end

-- log: the range was asked for as a log one
local function setting_of(key, results, log)
  local texts, values, low, high = {}, {}, math.huge, -math.huge
  for i, r in ipairs(results) do
    texts[i], values[i] = tostring(r.settings[key]), tonumber(r.settings[key])
    if not values[i] then low = nil end
    if low then low, high = math.min(low, values[i]), math.max(high, values[i]) end
  end
  if not low then return {name = key, values = texts} end
  return {name = key, values = values, log = low > 0 and (log or high / low >= SPREAD)}
end

local function draw_trials(plan, folder, results)
  local trials, values, settings = last_of_each(results), {}, {}
  local chosen -- the best of those that had the whole budget, which the best value may not be
  for i, r in ipairs(trials) do
    values[i] = r.status == "done" and r.value or 0 / 0
    if r == results[1] and r.status == "done" then chosen = i end
  end
  for i, key in ipairs(plan.keys) do settings[i] = setting_of(key, trials, type(plan.log) == "table" and plan.log[key]) end
  plot.trials{path = folder:file("sweep.png"), title = ("%s: %d trial%s"):format(folder.path, #trials, #trials == 1 and "" or "s"),
    metric = plan.metric, percent = is_share(plan, trials), less = plan.goal == "min", chosen = chosen,
    values = values, settings = settings}
end

local function draw_curves(plan, folder, results)
  local series = {}
  for i = 1, math.min(#results, CURVES) do
    local r = results[i]
    local curve = r.status == "done" and metric.curve(r.folder, plan.metric)
    if curve and #curve.x > 0 then
      curve.name = ("%d: %s"):format(r.trial, show.settings(plan.keys, r.settings))
      series[#series + 1] = curve
    end
  end
  if #series == 0 then return end
  plot.lines{path = folder:file("curves.png"), title = folder.path .. ": the best trials", x_label = "images",
    panels = {{y_label = plan.metric, percent = is_share(plan, results), series = series}}}
end

--- Draws what there is. results: best first
function picture.draw(plan, folder, results)
  if #results == 0 then return end
  draw_trials(plan, folder, results)
  draw_curves(plan, folder, results)
end

return picture
