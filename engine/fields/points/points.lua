-- points.lua: places in an image: x and y of each, in px; (0,0) is the upper left corner.
-- A recipe asks for it: which of a source's points the model gives is its choice.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local named = require "fields.named"
local places = require "fields.places"
local symbols = require "fields.symbols"

local points = {name = "points", meter = "localization", metric = "mae", field = "points", moves = "points",
  tensor = {dims = 3, dtype = "f32", width = 3, what = "(N,P,3) f32: x, y in px, 1 = visible"}}

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
  local xy_of, visible, all = {}, {}, true
  for i, name in ipairs(d.points) do
    xy_of[name] = {out.values[3 * i - 2], out.values[3 * i - 1]}
    visible[name], all = out.values[3 * i], all and out.values[3 * i] == 1
  end
  return {points = xy_of, visible = not all and visible or nil}
end

function points.draw(overlay, picture, out, d)
  local list = {}
  for i, name in ipairs(d.points) do
    list[i] = {out.values[3 * i - 2], out.values[3 * i - 1], name = name, visible = out.values[3 * i] >= 0.5}
  end
  return overlay.points(picture, list)
end

--- How the sheet of samples shows them: over the image a ring where one was read, a dot where it should be.
points.sheet = {together = 4, note = "ring: read, dot: meant"}

function points.sheet.legend(meter)
  local out = {}
  for p = 1, meter.P or 0 do out[p] = {name = meter:name(p), class = p} end
  return out
end

--- The table of the report.
points.rows = {key = "by_point", title = "By point", columns = {{"point", "name"}, {"images", "n"}, {"MAE, px", "mae"},
  {"RMSE, px", "rmse"}}}

function points.rows.more(key)
  local px = key:match("^hit_([%d.]+)$")
  if px then return ("within %s px"):format(px), "share" end
end

-- Places that were read, and those that were meant, (P,3) each as pictures take them: what is said of a point that
-- there is not counts for nothing.
local function both(meter, e, there)
  local read, truth = {}, {}
  for i, xy in ipairs(e.read) do
    local want = there[meter.points and meter.points[i] or i]
    local seen = want and want[3] ~= 0 and 1 or -1
    read[i], truth[i] = {xy[1], xy[2], seen}, {want and want[1] or 0, want and want[2] or 0, seen}
  end
  return core.tensor(read), core.tensor(truth)
end

function points.sheet.views(meter, e, image, of)
  if not of.points then return {} end
  local read, truth = both(meter, e, of.points:squeeze(1):tolist())
  return {{image = image, points = read, truth = truth, caption = ("off by %.1f px"):format(e.distance)}}
end

points.files = {{name = "points", value = "KEYS", list = true,
  absent = "NAME_x NAME_y of each", doc = "points: columns \"x1 y1,x2 y2\", or a key of JSON"}}

points.read = places.reader("points", {[1] = true, [2] = true, [3] = true}, '"x y" or "x y visible"')

points.corners = 2

--- Whether a point of capl data lies in its image; nil: it is not there.
function points.inside(x, at, width, height)
  if x[at + 2] == 0 then return nil end
  return x[at] >= 0 and x[at + 1] >= 0 and x[at] <= width and x[at + 1] <= height
end

places.give(points)

--- How capl eval reads the truth: columns NAME_x NAME_y of a table, or the key points of JSON.
function points.truth(d, o)
  if not o.columns then return {points = o.points or "points"} end
  local columns = {}
  for i, name in ipairs(d.points) do columns[i] = ("%s_x %s_y"):format(name, name) end
  return {points = o.points or columns}
end

function points.measures(given) return {names = given.names} end

function points.counted(d) return {names = d.points} end

--- What capl preview draws over a sample: only points that it has without augmentation, plain. A decoy that is not
-- there has a place in the list, but none in the picture.
function points.view(out, value, plain)
  local kept, list = {}, value:tolist()
  for k, point in ipairs(plain:tolist()) do
    if point[3] ~= 0 then kept[#kept + 1] = list[k] end
  end
  out.points = out.points or #kept > 0 and core.tensor(kept) or nil
end

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

--- Numbers that a sample gives a model to learn, by an evaluation, for capl doctor.
function points.says(e, value) return 2 * #value.table(e, "by_point") end

--- What a LocalizationMeter takes, (N,P,2), of the outputs of several images.
function points.measured(outs)
  local rows = {}
  for i, out in ipairs(outs) do rows[i] = out.values end
  return core.tensor(rows):reshape(#outs, -1, 3):narrow(3, 1, 2)
end

return points
