-- points.lua: places in an image: x and y of each, in px; (0,0) is the upper left corner.
-- A recipe asks for it: which of a source's points the model gives is its choice.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local named = require "fields.named"
local symbols = require "fields.symbols"

local points = {name = "points", meter = "localization", metric = "mae", field = "points"}

points.options = {{"names", "table"}, {"decoding", "string"}}

local MOST = 64

function points.check(op, given)
  named.check(op, given, "points", "points that the model gives", MOST,
    'names = {"gap", "piece"}, in the order of the output (N,P,2) or (N,P*2)')
  if given.decoding then check.one_of(op, "decoding", given.decoding, {"coordinates", "heatmap"}) end
end

function points.facts(given) return given.names and {points = given.names, decoding = given.decoding} or nil end

function points.reads(d) return "x and y of " .. symbols.shown(d.points, ", ") end

function points.decoding(d) return d.decoding == "heatmap" and "the greatest of each heat map" or nil end

function points.columns(out)
  local list = {}
  for i = 1, #out.values, 3 do
    list[#list + 1] = ("%.2f"):format(out.values[i])
    list[#list + 1] = ("%.2f"):format(out.values[i + 1])
  end
  return list
end

function points.json(out, _, d)
  local places, visible, all = {}, {}, true
  for i, name in ipairs(d.points) do
    places[name] = {out.values[3 * i - 2], out.values[3 * i - 1]}
    visible[name], all = out.values[3 * i], all and out.values[3 * i] == 1
  end
  return {points = places, visible = not all and visible or nil}
end

function points.draw(overlay, picture, out, d)
  local list = {}
  for i, name in ipairs(d.points) do
    list[i] = {out.values[3 * i - 2], out.values[3 * i - 1], name = name, visible = out.values[3 * i] >= 0.5}
  end
  return overlay.points(picture, list)
end

points.files = {{name = "points", value = "KEYS", list = true,
  doc = "points: columns \"x1 y1,x2 y2\", or a key of JSON (NAME_x NAME_y of each)"}}

--- How capl eval reads the truth: columns NAME_x NAME_y of a table, or the key points of JSON.
function points.truth(d, o)
  if not o.columns then return {points = o.points or "points"} end
  local columns = {}
  for i, name in ipairs(d.points) do columns[i] = ("%s_x %s_y"):format(name, name) end
  return {points = o.points or columns}
end

function points.measures(given) return {names = given.names} end

function points.counted(d) return {names = d.points} end

local LEAST = 20 -- images that show anything
local NEAR = 0.95 -- of the error of the mean place

--- What is wrong with the readings of an evaluation, for capl doctor: points that are said to be where they are in the
-- mean.
function points.faults(e, value)
  local faults, looked = {}, 0
  for _, row in ipairs(value.table(e, "by_point")) do
    local n, spread, rmse = value.number(row, "n") or 0, value.number(row, "spread"), value.number(row, "rmse")
    if n >= LEAST and spread and rmse and spread > 0 then
      looked = looked + 1
      if rmse >= NEAR * spread then
        faults[#faults + 1] = {severity = "error", text = ("%s is predicted no better than by its mean place: RMSE "
          .. "%.1f px, and its places are %.1f px around that"):format(value.text(row, "name"), rmse, spread),
          write = "check points against images (capl preview) and lr; the output is px of the network's input"}
      end
    end
  end
  if looked == 0 then return nil, "too few points" end
  return faults, ("%d points are predicted better than by their mean place"):format(looked - #faults)
end

--- What a LocalizationMeter takes, (N,P,2), of the outputs of several images.
function points.measured(outs)
  local rows = {}
  for i, out in ipairs(outs) do rows[i] = out.values end
  return core.tensor(rows):reshape(#outs, -1, 3):narrow(3, 1, 2)
end

return points
