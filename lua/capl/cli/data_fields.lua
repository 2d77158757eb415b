-- data_fields.lua: for `capl data stat|check`: masks, points, boxes and numbers of a set of images.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local count = require "cli.count"
local sorted_keys = require "sorted_keys"

local data_fields = {}

--- "x1 y1,x2 y2" -> {"x1 y1", "x2 y2"}; nil without it
function data_fields.list(text)
  if not text then return nil end
  local out = {}
  for entry in text:gmatch("[^,]+") do out[#out + 1] = entry end
  return out
end

-- ---- masks ----

-- A name per line -> list.
local function names_of(path)
  local text, why = core.sys.read(path)
  if not text then core.error{code = "io", message = why} end
  local out, seen = {}, {}
  for line in (text:gsub("\r", ""):gsub("\n+$", "") .. "\n"):gmatch("(.-)\n") do
    local at = #out + 1
    if line == "" or seen[line] then
      core.fail(("%s:%d: %s"):format(path, at, line == "" and "the line is empty" or ("%s is in line %d, too"):format(
        line, seen[line])), "it has the name of a class in each line, in the order of the levels")
    end
    out[at], seen[line] = line, at
  end
  if #out > 256 then core.fail(("%s has %d names; masks have 1 to 256 classes"):format(path, #out)) end
  return out
end

-- "19" -> 19, "names.txt" -> its names
local function read_classes(text)
  local n = tonumber(text)
  if not n then return names_of(text) end
  if n >= 1 and n <= 256 and n % 1 == 0 then return n end
  core.fail(("--classes=%s: masks have 1 to 256 classes"):format(text))
end

--- Options --mask and --classes as option mask of data.open.
function data_fields.mask(mask, classes, is_folder)
  if not classes then return mask end
  if not mask then core.fail("--classes is of masks, which --mask names") end
  return {[is_folder and "file" or "column"] = mask, classes = read_classes(classes)}
end

--- What looks like the mask of another image and was opened as an image: how many, the first.
function data_fields.unread_masks(source)
  if source.mask_classes or not source.by_name then return 0 end
  local has, n, first = {}, 0, nil
  for i = 0, source:count() - 1 do has[source:name(i):gsub("%.%w+$", "")] = true end
  for i = 0, source:count() - 1 do
    local of = source:name(i):match("^(.*)_mask%.png$")
    if of and has[of] then n, first = n + 1, first or source:name(i) end
  end
  return n, first
end

-- Pixels of each class in all masks; how many masks have class 0 alone; what is wrong with others.
local function count_masks(source)
  local found = {pixels = {}, total = 0, empty = {}, bad = {}}
  for i = 0, source:count() - 1 do
    local counts, why = source.box:mask_counts(i)
    if not counts then found.bad[#found.bad + 1] = why end
    for class, n in pairs(counts or {}) do
      found.pixels[class], found.total = (found.pixels[class] or 0) + n, found.total + n
    end
    if counts and counts[0] and not next(counts, next(counts)) then found.empty[#found.empty + 1] = source:name(i) end
  end
  return found
end

local function class_name(source, class)
  local names = source.mask_classes
  return type(names) == "table" and names[class + 1] or ("%d"):format(class)
end

local function mask_lines(source)
  local found, parts = count_masks(source), {}
  for i, class in ipairs(sorted_keys(found.pixels)) do
    parts[i] = ("%s: %.2f %%"):format(class_name(source, class), 100 * found.pixels[class] / found.total)
  end
  return ("%s, %d of class 0 alone; pixels by class: %s"):format(count.of(source:count() - #found.bad, "mask"),
    #found.empty, table.concat(parts, ", "))
end

-- ---- points, boxes and numbers ----

-- One of them, in px of a file of width x height: whether it is inside the image; nil = it is not there.
local function is_inside(kind, x, at, width, height)
  local x0, y0 = x[at], x[at + 1]
  if kind == "points" then
    if x[at + 2] == 0 then return nil end
    return x0 >= 0 and y0 >= 0 and x0 <= width and y0 <= height
  end
  if x[at + 4] < 0 then return nil end
  return x0 >= 0 and y0 >= 0 and x0 <= x[at + 2] and y0 <= x[at + 3] and x[at + 2] <= width and x[at + 3] <= height
end

-- How many there are, and the samples that have one outside.
local function count_places(source, scan, kind, k)
  local found = {n = 0, outside = {}}
  for i = 0, source:count() - 1 do
    local x, step = source.box:numbers(k, i)
    local _, format, width, height = scan:facts(i)
    local first
    for at = 1, format and #x or 0, step do
      local inside = is_inside(kind, x, at, width, height)
      found.n = found.n + (inside == nil and 0 or 1)
      if inside == false then first = first or at end
    end
    if first then
      local numbers = table.concat(x, ", ", first, first + (kind == "points" and 1 or 3))
      found.outside[#found.outside + 1] = ("%s: row %d is %s, the image %d x %d px"):format(source.box:title(i),
        (first - 1) / step + 1, numbers, width, height)
    end
  end
  return found
end

-- {from, to, mean} of each number.
local function ranges_of(source, k)
  local out = {}
  for i = 0, source:count() - 1 do
    for j, x in ipairs((source.box:numbers(k, i))) do
      local r = out[j] or {from = x, to = x, mean = 0}
      out[j], r.from, r.to = r, math.min(r.from, x), math.max(r.to, x)
      r.mean = r.mean + x / source:count()
    end
  end
  return out
end

-- Of number j out of n: its column, where each number has one.
local function number_name(source, j, n)
  local names = source.number_names
  return names and #names == n and names[j] or tostring(j)
end

local function number_lines(source, k)
  local parts, ranges = {}, ranges_of(source, k)
  for j, r in ipairs(ranges) do
    parts[j] = ("%s: %.5g to %.5g, mean %.5g"):format(number_name(source, j, #ranges), r.from, r.to, r.mean)
  end
  return table.concat(parts, "; ")
end

--- {{name, text}, …} of a source's fields for stat.
function data_fields.lines(source, scan)
  local out = {}
  local n, first = data_fields.unread_masks(source)
  if n > 0 then out[1] = {"masks", ("%d look like some, such as %s: --mask=_mask.png reads them so"):format(n, first)} end
  for k, field in ipairs(source.box:fields()) do
    local text
    if field.kind == "mask" then text = mask_lines(source)
    elseif field.kind == "values" then text = number_lines(source, k - 1)
    else
      local found = count_places(source, scan, field.kind, k - 1)
      text = ("%d in %s, %d images with one outside"):format(found.n, count.of(source:count(), "image"), #found.outside)
    end
    out[#out + 1] = {field.name, text}
  end
  return out
end

--- Reports what is wrong with them to r of data_check.
function data_fields.check(r, source, scan)
  local n, first = data_fields.unread_masks(source)
  if n > 0 then
    r.lines[#r.lines + 1] = ("  note: %s as masks of others are, such as %s: --mask=_mask.png reads them so"):format(
      count.of(n, "image is called", "images are called"), first)
  end
  for k, field in ipairs(source.box:fields()) do
    if field.kind == "mask" then
      local found = count_masks(source)
      r:add("masks that cannot be used", #found.bad, function(i) return found.bad[i] end)
      if #found.empty > 0 then
        r.lines[#r.lines + 1] = ("  note: masks of class 0 alone: %d, such as %s"):format(#found.empty, found.empty[1])
      end
    elseif field.kind == "values" then
      local ranges = ranges_of(source, k - 1)
      for j, range in ipairs(ranges) do
        if range.from == range.to and source:count() > 1 then
          r.lines[#r.lines + 1] = ("  note: number %s of %s is %.6g everywhere"):format(number_name(source, j, #ranges),
            field.name, range.from)
        end
      end
    else
      local found = count_places(source, scan, field.kind, k - 1)
      r:add(field.name .. " outside the image", #found.outside, function(i) return found.outside[i] end)
    end
  end
end

return data_fields
