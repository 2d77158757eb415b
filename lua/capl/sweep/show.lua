-- show.lua: what a sweep says: a line for each trial that ended, the table of all, and what to do next.
-- SPDX-License-Identifier: Apache-2.0
local curves = require "report.curves"
local progress = require "run.progress"
local term = require "repl.term"

local show = {}

local ROWS = 30 -- of the table; results.csv has them all

--- Whether a metric is a share of 1, by its name.
function show.is_share(metric) return curves.is_share((metric:gsub("^val_", ""))) end

--- "0.9312", "93.12 %" of shares.
function show.value(metric, value)
  if type(value) ~= "number" then return "-" end
  if show.is_share(metric) then return ("%.2f %%"):format(100 * value) end
  return ("%.5g"):format(value)
end

--- "lr=0.01 hidden=128"
function show.settings(keys, settings)
  local parts = {}
  for i, key in ipairs(keys) do parts[i] = ("%s=%s"):format(key, settings[key]) end
  return table.concat(parts, " ")
end

--- "trial 3  lr=0.01 hidden=128  val_exact 93.12 %  12 s"
function show.line(plan, result)
  local done = result.status == "done"
  local what = done and ("%s %s"):format(plan.metric, show.value(plan.metric, result.value))
    or "failed: " .. result.error
  local rung = plan.kind == "halving" and (" at %s=%s"):format(plan.budget, plan.rungs[result.rung].budget) or ""
  return ("trial %3d  %s%s  %s  %s"):format(result.trial, show.settings(plan.keys, result.settings), rung, what,
    progress.duration(result.seconds))
end

-- Rows of texts as aligned columns; the first `left` are texts, the others numbers.
local function aligned(rows, is_number)
  local wide, lines = {}, {}
  for _, row in ipairs(rows) do
    for c, text in ipairs(row) do wide[c] = math.max(wide[c] or 0, term.width(text)) end
  end
  for i, row in ipairs(rows) do
    local parts = {}
    for c, text in ipairs(row) do
      local space = (" "):rep(wide[c] - term.width(text))
      parts[c] = is_number[c] and space .. text or text .. space
    end
    lines[i] = "  " .. table.concat(parts, "  "):gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

local function interval(plan, r)
  if r.status ~= "done" or not r.low or not r.high then return "" end
  return ("%s to %s"):format(show.value(plan.metric, r.low):gsub(" %%$", ""), show.value(plan.metric, r.high))
end

--- The table of results, best first.
function show.table(plan, results)
  local halving = plan.kind == "halving"
  local head, numbers = {"trial"}, {true}
  for _, key in ipairs(plan.keys) do head[#head + 1], numbers[#head + 1] = key, true end
  if halving then head[#head + 1], numbers[#head + 1] = plan.budget, true end
  for _, name in ipairs{plan.metric, "95 % interval", "at step", "time"} do
    head[#head + 1], numbers[#head + 1] = name, true
  end
  local rows = {head}
  for i = 1, math.min(#results, ROWS) do
    local r = results[i]
    local row = {("%d"):format(r.trial)}
    for _, key in ipairs(plan.keys) do row[#row + 1] = tostring(r.settings[key]) end
    if halving then row[#row + 1] = tostring(plan.rungs[r.rung].budget) end
    row[#row + 1] = r.status == "done" and show.value(plan.metric, r.value) or "failed"
    row[#row + 1] = interval(plan, r)
    row[#row + 1] = r.step and ("%d"):format(r.step) or ""
    row[#row + 1] = progress.duration(r.seconds)
    rows[#rows + 1] = row
  end
  local text = aligned(rows, numbers)
  if #results > ROWS then text = text .. ("\n  … %d more in results.csv"):format(#results - ROWS) end
  return text
end

--- Whether no trial is better than another: all that ended in the last rung have the same metric. A sentence or nil.
function show.none_better(plan, results)
  local value, n
  for _, r in ipairs(results) do
    if r.status == "done" and r.rung == results[1].rung then
      if value and r.value ~= value then return nil end
      value, n = r.value, (n or 0) + 1
    end
  end
  if (n or 0) < 2 then return nil end
  local learned = show.is_share(plan.metric) and value == 0 and "; no trial has learned anything that this metric shows"
    or ""
  return ("no trial is better than another: %s is %s in all %d%s"):format(plan.metric, show.value(plan.metric, value),
    n, learned)
end

--- Whether the best one may be luck: the second one's metric lies within its interval. A sentence or nil.
function show.doubt(plan, results)
  local a, b = results[1], results[2]
  if not a or not b or not a.low or not b.high or not b.value then return nil end
  local close = 0
  for i = 2, #results do
    local r = results[i]
    if r.value and r.high and r.rung == a.rung and r.high >= a.low then close = close + 1 end
  end
  if close == 0 then return nil end
  return ("note: with %d val images %d other%s within the interval of the best: use more of them, or other seeds"):format(
    a.n or 0, close, close == 1 and " is" or "s are")
end

-- Whether a setting only makes another beginning.
local function is_seed(key) return key == "seed" or key:match("_seed$") ~= nil end

-- Results by what they have in common but the seed, best mean first: {settings, n, mean, deviation}
local function groups_of(plan, keys, results)
  local by_name, list = {}, {}
  for _, r in ipairs(results) do
    if r.status == "done" and r.rung == #plan.rungs then
      local name = show.settings(keys, r.settings)
      local group = by_name[name]
      if not group then
        group = {name = name, settings = r.settings, values = {}}
        by_name[name], list[#list + 1] = group, group
      end
      table.insert(group.values, r.value)
    end
  end
  for _, group in ipairs(list) do
    local sum, square = 0, 0
    for _, x in ipairs(group.values) do sum = sum + x end
    group.mean = sum / #group.values
    for _, x in ipairs(group.values) do square = square + (x - group.mean) ^ 2 end
    group.deviation = #group.values > 1 and math.sqrt(square / (#group.values - 1)) or nil
  end
  table.sort(list, function(a, b)
    if a.mean ~= b.mean then return (a.mean > b.mean) == (plan.goal == "max") end
    return a.name < b.name
  end)
  return list
end

--- With several seeds: the table of means over them, best first, in place of the luck of one seed; else nil.
function show.means(plan, results)
  local keys, head, numbers = {}, {}, {}
  for _, key in ipairs(plan.keys) do
    if not is_seed(key) then keys[#keys + 1] = key end
  end
  if #keys == #plan.keys or #keys == 0 then return nil end
  for i, key in ipairs(keys) do head[i], numbers[i] = key, true end
  for _, name in ipairs{"seeds", "mean " .. plan.metric, "deviation"} do
    head[#head + 1], numbers[#head + 1] = name, true
  end
  local rows = {head}
  for _, group in ipairs(groups_of(plan, keys, results)) do
    if #rows > ROWS then break end
    local row = {}
    for i, key in ipairs(keys) do row[i] = tostring(group.settings[key]) end
    row[#row + 1] = ("%d"):format(#group.values)
    row[#row + 1] = show.value(plan.metric, group.mean)
    row[#row + 1] = group.deviation and show.value(plan.metric, group.deviation) or ""
    rows[#rows + 1] = row
  end
  return aligned(rows, numbers), rows
end

local function count_different(results, name)
  local seen, n = {}, 0
  for _, r in ipairs(results) do
    if r.status == "done" and r[name] and not seen[r[name]] then seen[r[name]], n = true, n + 1 end
  end
  return n
end

--- What makes trials hard to compare, as sentences. swept: settings that were changed on purpose
function show.unlike(plan, results)
  local swept, out = {}, {}
  for _, key in ipairs(plan.keys) do swept[key] = true end
  if count_different(results, "val_hash") > 1 then
    out[1] = "note: the trials have different val images, so their metrics are not comparable"
  end
  if count_different(results, "mode") > 1 and not (swept.device or swept.precision) then
    out[#out + 1] = "note: the trials were computed in different modes; see mode in results.jsonl"
  end
  return out
end

return show
