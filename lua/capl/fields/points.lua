-- points.lua: places in an image: x and y of each, in px; (0,0) is the upper left corner.
-- A recipe asks for it: which of a source's points the model gives is its choice.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local symbols = require "fields.symbols"

local points = {name = "points", meter = "localization", metric = "mae"}

local MOST = 32

function points.check(op, given)
  if type(given.names) == "table" and #given.names >= 1 and #given.names <= MOST then return end
  check.fail(op, ('output = "points" needs the names of 1 to %d points that the model gives'):format(MOST),
    'names = {"gap", "piece"}, in the order of the output (N,P,2) or (N,P*2)')
end

function points.facts(given) return {output = "points", points = given.names} end

function points.reads(meta) return "x and y of " .. symbols.shown(meta.points, ", ") end

function points.columns(reading)
  local out = {}
  for i, value in ipairs(reading.values) do out[i] = ("%.2f"):format(value) end
  return out
end

function points.json(reading, _, info)
  local out = {}
  for i, name in ipairs(info.names) do out[name] = {reading.values[2 * i - 1], reading.values[2 * i]} end
  return {points = out}
end

return points
