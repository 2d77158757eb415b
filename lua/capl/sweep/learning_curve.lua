-- learning_curve.lua: how many images are needed: the figure of runs on growing parts of a set, drawn, and what it says of more.
-- SPDX-License-Identifier: Apache-2.0
local grouped = require "grouped"
local json = require "json"
local plot = require "plot"
local power_law = require "sweep.power_law"

local curve = {}

local GOALS = {0.9, 0.95, 0.97, 0.99, 0.995}
local STEPS = 40 -- of the drawn law

-- 1800 -> "1,800"; rounded to two digits, as more would claim too much.
local function about(n)
  local scale = 10 ^ math.max(0, math.floor(math.log10(n)) - 1)
  return grouped(math.floor(n / scale + 0.5) * scale)
end

local function percent(share) return ("%.4g %%"):format(100 * share) end

--- Points of the trials that went well, fewest images first. Each run tells how many images it learnt from.
function curve.points(results)
  local out = {}
  for _, r in ipairs(results) do
    local images = r.status == "done" and r.train_images
    if images and r.value and r.n then
      out[#out + 1] = {fraction = tonumber(r.settings.fraction), images = images, exact = r.value, low = r.low, high = r.high, n = r.n}
    end
  end
  table.sort(out, function(a, b) return a.images < b.images end)
  return out
end

-- The goals that are not reached yet, and how many images each would take.
local function needs(law, points)
  local best, out = points[#points].exact, {}
  for _, goal in ipairs(GOALS) do
    if goal > best and 1 - goal >= 0.5 / points[#points].n then
      local images, low, high = law:images(goal)
      out[#out + 1] = {exact = goal, images = images, low = low, high = high}
    end
  end
  return out
end

local function need_line(law, need)
  if law:is_far(need.images) then
    return ("%s exact: over 10 times the images there are; so far from here the curve says nothing"):format(percent(need.exact))
  end
  local high = law:is_far(need.high) and "no upper end in sight" or "to " .. about(need.high)
  return ("%s exact would need about %s images to learn from (%s %s)"):format(percent(need.exact), about(need.images), about(need.low),
    high)
end

--- What the points say, as sentences; and {law, needs} for files
function curve.say(points)
  local last = points[#points]
  if #points < 2 then return {"one point says nothing about other numbers of images"} end
  if (1 - last.exact) * last.n < 1.5 then
    for _, p in ipairs(points) do
      if (1 - p.exact) * p.n < 1.5 then
        return {("%d images to learn from are enough: %s of %d val images are read right, more would not show"):format(p.images,
          percent(p.exact), p.n)}
      end
    end
  end
  local law = power_law.fit(points)
  if not law or not law:falls() then
    return {("the figures do not tell whether more images help: from %d to %d images to learn from, exact went from %s to %s"):format(
      points[1].images, last.images, percent(points[1].exact), percent(last.exact)),
      "more val images would make them sharper; look at the mistakes of the last run, too"}, law
  end
  local lines, wanted = {}, needs(law, points)
  for i, need in ipairs(wanted) do
    lines[i] = need_line(law, need)
    if law:is_far(need.images) then break end
  end
  if #lines == 0 then lines[1] = "there are too few val images to tell better figures from this one" end
  return lines, law, wanted
end

-- ---- files ----

local function dense(law, points, of)
  local x, y = {}, {}
  local from, to = math.log(points[1].images), math.log(points[#points].images * 5)
  for i = 0, STEPS do
    x[i + 1] = math.exp(from + (to - from) * i / STEPS)
    y[i + 1] = math.max(0, 1 - of(law, x[i + 1]))
  end
  return x, y
end

local function series_of(points, law)
  local x, y, low, high = {}, {}, {}, {}
  for i, p in ipairs(points) do x[i], y[i], low[i], high[i] = p.images, p.exact, p.low or 0 / 0, p.high or 0 / 0 end
  local series = {{name = "val exact", x = x, y = y}, {name = "at least (95 %)", x = x, y = low}, {name = "at most", x = x, y = high}}
  if not law then return series end
  local function add(name, of)
    local at, value = dense(law, points, of)
    series[#series + 1] = {name = name, x = at, y = value}
  end
  add(("error = %.3g n^-%.2f"):format(law.a, law.b), function(l, n) return (l:error(n)) end)
  return series
end

--- Draws learning_curve.png into a folder and writes learning_curve.json.
function curve.write(folder, title, points, lines, law, wanted)
  local last = points[#points]
  plot.lines{path = folder:file("learning_curve.png"), title = title, x_label = "images to learn from", log_x = true,
    panels = {{y_label = "exact on val", percent = true, series = series_of(points, law)}},
    lines = {{x = last.images, label = "all there are"}}}
  local out = {points = points, says = lines, needs = wanted or {}}
  if law then out.law = {a = law.a, b = law.b} end
  for _, need in ipairs(out.needs) do
    for key, value in pairs(need) do need[key] = value < math.huge and value or nil end
  end
  folder:write("learning_curve.json", json.encode(out, true) .. "\n")
end

--- The table of points as lines.
function curve.table(points)
  local lines = {"  images  exact    95 % interval     val images"}
  for _, p in ipairs(points) do
    local low, high = p.low or 0 / 0, p.high or 0 / 0
    lines[#lines + 1] = ("  %6d  %6.2f %%  %6.2f .. %6.2f %%  %d"):format(p.images, 100 * p.exact, 100 * low, 100 * high, p.n)
  end
  return table.concat(lines, "\n")
end

return curve
