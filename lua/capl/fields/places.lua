-- places.lua: points and boxes in files: which columns or keys they have, and whether they lie in their images.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local count = require "count"

local places = {}

-- "x y" or {"x", "y"} -> list of columns
local function split(op, key, entry)
  if type(entry) == "table" then return entry end
  check.value(op, {"an entry of " .. key, "string", "table"}, entry)
  local columns = {}
  for column in entry:gmatch("%S+") do columns[#columns + 1] = column end
  return columns
end

--- read(op, given, out) of a kind: points = {"x1 y1", {"x2", "y2"}}, or "key" of JSON.
-- in   widths: {[2] = true} of an entry's columns; how: what an entry is, for errors
function places.reader(key, widths, how)
  return function(op, given, out)
    if type(given) == "string" then given = {given} end
    check.value(op, {key, "string", "table"}, given)
    local columns, per_row = {}, nil
    for _, entry in ipairs(given) do
      local some = split(op, key, entry)
      if not widths[#some] or per_row and #some ~= per_row then
        check.fail(op, ("%s has an entry of %d columns%s"):format(key, #some, per_row and #some ~= per_row
          and (", the first has %d"):format(per_row) or ""),
          ("each entry is %s, or a key of JSON that holds such rows"):format(how))
      end
      per_row = #some
      for _, column in ipairs(some) do columns[#columns + 1] = column end
    end
    if not per_row then check.fail(op, key .. " is empty; leave it out") end
    table.insert(out.numbers, {name = key, kind = key, per_row = per_row, columns = columns})
  end
end

-- How many there are, and the samples that have one outside.
-- in   kind.inside(x, at, width, height): whether the one that begins at x[at] is inside; nil = it is not there;
--      kind.corners: numbers that say where it is
local function look(kind, source, k, scan)
  local found = {n = 0, outside = {}}
  for i = 0, source:count() - 1 do
    local x, step = source.box:numbers(k, i)
    local _, format, width, height = scan:facts(i)
    local first
    for at = 1, format and #x or 0, step do
      local inside = kind.inside(x, at, width, height)
      found.n = found.n + (inside == nil and 0 or 1)
      if inside == false then first = first or at end
    end
    if first then
      found.outside[#found.outside + 1] = ("%s: row %d is %s, the image %d x %d px"):format(source.box:title(i),
        (first - 1) / step + 1, table.concat(x, ", ", first, first + kind.corners - 1), width, height)
    end
  end
  return found
end

--- stat and look of a kind, for capl data.
function places.give(kind)
  function kind.stat(source, _, k, scan)
    local found = look(kind, source, k, scan)
    return ("%d in %s, %d images with one outside"):format(found.n, count.of(source:count(), "image"), #found.outside)
  end

  function kind.look(r, source, field, k, scan)
    local found = look(kind, source, k, scan)
    r:add(field.name .. " outside the image", #found.outside, function(i) return found.outside[i] end)
  end
end

return places
