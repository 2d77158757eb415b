-- data_series.lua: for `capl data stat|check FILE --target=COLUMN`: a time series in a CSV file.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local count = require "count"

local data_series = {}

local function names_in(text, out)
  for name in text:gmatch("[^,]+") do out[#out + 1] = name end
  return out
end

--- "a,b" -> {"a", "b", and the targets}; nil: all columns
local function wanted(o) return o.features and names_in(o.target, names_in(o.features, {})) end

--- Rows in the order of the key.
local function sorted(t)
  local order = {}
  for i = 1, #t.at do order[i] = i end
  table.sort(order, function(a, b)
    if t.at[a] ~= t.at[b] then return t.at[a] < t.at[b] end
    return t.line[a] < t.line[b]
  end)
  return order
end

-- 86400 -> "1 d"; of keys that are numbers "86400"
local function step_text(seconds, of_dates)
  if not of_dates then return ("%.10g"):format(seconds) end
  for _, unit in ipairs{{86400, "d"}, {3600, "h"}, {60, "min"}} do
    if seconds % unit[1] == 0 then return ("%d %s"):format(seconds / unit[1], unit[2]) end
  end
  return ("%.10g s"):format(seconds)
end

--- What is found in the keys: the shortest step, lines with the same key, holes, lines that are out of order.
local function look_at_keys(t)
  local order = sorted(t)
  local found = {order = order, twice = {}, holes = {}, unsorted = {}, of_dates = not tonumber(t.key[1])}
  for i = 2, #order do
    local step = t.at[order[i]] - t.at[order[i - 1]]
    if step == 0 then found.twice[#found.twice + 1] = i
    elseif not found.step or step < found.step then found.step = step end
    if t.at[i] < t.at[i - 1] then found.unsorted[#found.unsorted + 1] = i end
  end
  for i = 2, #order do
    if t.at[order[i]] - t.at[order[i - 1]] > 1.5 * found.step then found.holes[#found.holes + 1] = i end
  end
  return found
end

--- {from, to, mean, n, missing = {rows}} of a column.
local function look_at_column(values)
  local r = {from = math.huge, to = -math.huge, mean = 0, n = 0, missing = {}}
  for i, x in ipairs(values) do
    if x ~= x then
      r.missing[#r.missing + 1] = i
    else
      r.from, r.to, r.mean, r.n = math.min(r.from, x), math.max(r.to, x), r.mean + x, r.n + 1
    end
  end
  r.mean = r.mean / r.n
  return r
end

local function read(path, o)
  local t = core.data.series_table(path, o.key or "date", wanted(o))
  if #t.key == 0 then core.fail(path .. " has no rows", "its first line names the columns, the others hold one row each") end
  local has, targets = {}, {}
  for _, name in ipairs(t.columns) do has[name] = true end
  for _, target in ipairs(names_in(o.target, {})) do
    if not has[target] then
      local near = core.nearest(target, t.columns)
      core.fail(("%s:1: no column is called %s%s"):format(path, target, near and "; did you mean " .. near .. "?" or ""))
    end
    targets[target] = true
  end
  return t, look_at_keys(t), targets
end

local function head(path, t, keys)
  return ("%s: %s, %s to %s"):format(path, count.of(#t.key, "row"), t.key[keys.order[1]], t.key[keys.order[#t.key]])
end

--- Lines about a series.
function data_series.stat(path, o)
  local t, keys, targets = read(path, o)
  local lines = {head(path, t, keys)}
  if keys.step then
    lines[2] = ("  step       %s, %s"):format(step_text(keys.step, keys.of_dates), count.of(#keys.holes, "hole"))
  end
  local width = 10
  for _, name in ipairs(t.columns) do width = math.max(width, #name) end
  local word = next(targets, next(targets)) and ", a target" or ", the target"
  for k, name in ipairs(t.columns) do
    local r = look_at_column(t.values[k])
    local range = r.n == 0 and "no number" or ("%.5g to %.5g, mean %.5g"):format(r.from, r.to, r.mean)
    lines[#lines + 1] = ("  %-" .. width .. "s %s%s%s"):format(name, range, #r.missing > 0
      and (", %d missing"):format(#r.missing) or "", targets[name] and word or "")
  end
  return lines
end

local function note(r, text, ...) r.lines[#r.lines + 1] = "  note: " .. text:format(...) end

local function check_keys(r, path, t, keys)
  local function line(i) return t.line[keys.order[i]] end
  r:add("rows with the key of another", #keys.twice, function(k)
    local i = keys.twice[k]
    return ("%s:%d: %s is on line %d, too"):format(path, line(i), t.key[keys.order[i]], line(i - 1))
  end)
  r:add("holes; add their rows with empty cells, or windows go across them", #keys.holes, function(k)
    local i = keys.holes[k]
    local step = t.at[keys.order[i]] - t.at[keys.order[i - 1]]
    return ("%s:%d: %s comes %s after %s, the usual step is %s"):format(path, line(i), t.key[keys.order[i]],
      step_text(step, keys.of_dates), t.key[keys.order[i - 1]], step_text(keys.step, keys.of_dates))
  end)
  local first = keys.unsorted[1]
  if first then
    note(r, "%s, the first on line %d: %s is before %s; data.series sorts them", count.of(#keys.unsorted,
      "row is out of order", "rows are out of order"), t.line[first], t.key[first], t.key[first - 1])
  end
end

local function check_columns(r, t, targets)
  for k, name in ipairs(t.columns) do
    local c = look_at_column(t.values[k])
    local n, first = #c.missing, t.line[c.missing[1]]
    local rows = count.of(n, "row")
    if c.n == 0 then r:add(name .. " has no number at all", 1, function() return "leave it out: --features=…" end)
    elseif n > 0 and targets[name] then note(r, "%s is missing in %s, the first on line %d; these are never a target", name, rows, first)
    elseif n > 0 then note(r, "%s is missing in %s, the first on line %d; the number before takes its place", name, rows, first) end
    if c.n > 1 and c.from == c.to then note(r, "%s is %.6g everywhere", name, c.from) end
  end
end

--- Reports what is wrong with a series to r of data_check. -> its first line
function data_series.check(r, path, o)
  local t, keys, targets = read(path, o)
  check_keys(r, path, t, keys)
  check_columns(r, t, targets)
  return head(path, t, keys) .. (r.found == 0 and ", nothing found" or "")
end

return data_series
