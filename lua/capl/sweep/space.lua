-- space.lua: what a sweep tries: KEY=A,B,C and KEY=LOW..HIGH[:log][:POINTS] texts, and the trials they make.
--
-- A value is the text of a flag, so that the command of a trial is exactly what ran.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local space = {}

local MOST = 10000 -- trials of a sweep
local REDRAWS = 200 -- for a trial that was drawn before

-- ---- reading ----

-- What follows a range: ":log", ":5" in any order.
local function read_ending(axis, text, rest)
  for word in rest:gmatch("[^:]+") do
    local points = tonumber(word)
    if word == "log" then
      axis.log = true
    elseif points and points % 1 == 0 and points >= 2 and points <= MOST then
      axis.points = points
    else
      core.fail(("--grid %s: '%s' is neither log nor a number of points from 2 on"):format(text, word))
    end
  end
end

-- "1e-4..1e-2:log" -> {low =, high =, whole =, log =, points =}; nil for anything else, such as a path with two dots.
local function read_range(text, value)
  local low, high, rest = value:match("^([^,:]-)%.%.([^,:]+)(:?.*)$")
  local a, b = tonumber(low), tonumber(high)
  if not a or not b then return nil end
  local axis = {low = a, high = b, whole = (low .. " " .. high):match("^%-?%d+ %-?%d+$") ~= nil}
  if not (a < b) or b - a == math.huge then core.fail(("--grid %s: a range goes from less to more"):format(text)) end
  read_ending(axis, text, rest)
  if axis.log and a <= 0 then core.fail(("--grid %s: a log range is above 0"):format(text)) end
  return axis
end

local function read_values(text, value)
  local values, seen = {}, {}
  for one in (value .. ","):gmatch("%s*(.-)%s*,") do
    local number = tonumber(one)
    local same = number == number and number or one -- NaN is no key
    if one == "" then core.fail(("--grid %s: a value is empty"):format(text), "write KEY=A,B,C or KEY=LOW..HIGH") end
    if seen[same] then core.fail(("--grid %s: %s is there twice"):format(text, one)) end
    seen[same] = true
    values[#values + 1] = one
  end
  return {values = values}
end

--- One --grid word.
-- out  {key =, text =} with values = list of texts, or low =, high =, whole =, log =, points =
-- errs value: no KEY=…, an empty or repeated value, a range that is none
function space.read(text)
  local key, value = text:match("^([%a_][%w_]*)=(.*)$")
  if not key then
    core.fail(("--grid %s names no setting"):format(text), "write --grid KEY=A,B,C or --grid KEY=LOW..HIGH")
  end
  local axis = read_range(text, value) or read_values(text, value)
  axis.key, axis.text = key, text
  return axis
end

--- All --grid words, in their order. errs value: a key twice
function space.read_all(words)
  local axes, seen = {}, {}
  for i, word in ipairs(words) do
    axes[i] = space.read(word)
    if seen[axes[i].key] then
      core.fail(("--grid names %s twice"):format(axes[i].key), "write all its values in one --grid")
    end
    seen[axes[i].key] = true
  end
  return axes
end

-- ---- values ----

-- Four digits are enough for a number that was drawn, unless they leave the range.
local function number_text(axis, x)
  if axis.whole then return ("%.0f"):format(math.max(axis.low, math.min(axis.high, math.floor(x)))) end
  for digits = 4, 17 do
    local text = ("%%.%dg"):format(digits):format(x)
    local y = tonumber(text)
    if digits == 17 or (y >= axis.low and y <= axis.high) then return text end
  end
end

-- The value at a share of a range, 0 to 1.
local function at(axis, share)
  if axis.log then return axis.low * (axis.high / axis.low) ^ share end
  return axis.low + (axis.high - axis.low) * share
end

-- Whole numbers have a share of the range each, the last one too.
local function drawn(axis, u)
  if axis.values then return axis.values[1 + math.floor(u * #axis.values)] end
  if not axis.whole then return number_text(axis, at(axis, u)) end
  return number_text(axis, at({low = axis.low, high = axis.high + 1, log = axis.log}, u))
end

local function points_of(axis)
  local out, seen = {}, {}
  for i = 0, axis.points - 1 do
    local x = at(axis, i / (axis.points - 1))
    local text = number_text(axis, axis.whole and x + 0.5 or x)
    if not seen[text] then out[#out + 1] = text end
    seen[text] = true
  end
  return out
end

--- The values of an axis in a grid; nil when it has no end of them.
function space.values(axis)
  if axis.values then return axis.values end
  if axis.points then return points_of(axis) end
  if not axis.whole or axis.log or axis.high - axis.low >= MOST then return nil end
  local out = {}
  for x = axis.low, axis.high do out[#out + 1] = ("%.0f"):format(x) end
  return out
end

--- The least and the most of an axis, or all its values: what is checked before a sweep begins.
function space.edges(axis)
  if axis.values then return axis.values end
  return {number_text(axis, axis.low), number_text(axis, axis.high)}
end

-- ---- trials ----

-- How many different trials there are; math.huge with a range that has no end of values.
local function size(axes)
  local n = 1
  for _, axis in ipairs(axes) do
    local values = space.values(axis)
    n = n * (values and #values or math.huge)
  end
  return n
end

--- Every combination; the last axis changes fastest.
-- out  list of lists of texts, in the order of axes
function space.grid(axes)
  local lists = {}
  for i, axis in ipairs(axes) do
    lists[i] = space.values(axis)
    if not lists[i] then
      core.fail(("--grid %s: a grid wants a number of points of this range"):format(axis.text),
        ("write --grid %s:5, or draw with --random=20"):format(axis.text))
    end
  end
  local n = size(axes)
  if n > MOST then core.fail(("%.0f trials are more than %d"):format(n, MOST), "draw some of them with --random=N") end
  local out = {}
  for i = 0, n - 1 do
    local trial, rest = {}, i
    for a = #lists, 1, -1 do
      trial[a] = lists[a][rest % #lists[a] + 1]
      rest = math.floor(rest / #lists[a])
    end
    out[#out + 1] = trial
  end
  return out
end

--- n different trials drawn with a seed; all there are when those are fewer.
-- uniform  function(number of the draw) -> list of numbers in [0,1), one for each axis
function space.random(axes, n, uniform)
  if n > MOST then core.fail(("%d trials are more than %d"):format(n, MOST)) end
  if size(axes) <= n then return space.grid(axes) end
  local out, seen, draw = {}, {}, 0
  while #out < n and draw < n + REDRAWS do
    local trial = {}
    for i, u in ipairs(uniform(draw)) do trial[i] = drawn(axes[i], u) end
    local name = table.concat(trial, "\0")
    if not seen[name] then out[#out + 1] = trial end
    seen[name], draw = true, draw + 1
  end
  return out
end

--- Trials in which every value of every axis comes once at least: as many as the longest list.
function space.cover(axes)
  local out, n = {}, 0
  for _, axis in ipairs(axes) do n = math.max(n, #space.edges(axis)) end
  for i = 1, n do
    out[i] = {}
    for a, axis in ipairs(axes) do
      local edges = space.edges(axis)
      out[i][a] = edges[(i - 1) % #edges + 1]
    end
  end
  return out
end

return space
