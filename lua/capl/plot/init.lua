-- plot: pictures as PNG files: line charts, and sheets of images with captions. Without a path they are returned.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local overlay = require "plot.overlay"

--- plot.overlay: points, masks and boxes over an image, as a new image.
local plot = {overlay = overlay}

-- Text that C can take: a zero byte would end it.
local function text_of(value) return value and (value:gsub("%z", "\239\191\189")) end

local function check_path(op, path)
  if path and (path == "" or path:find("%z")) then
    check.fail(op, "path is empty or holds a zero byte; it names a PNG file")
  end
  return path
end

-- Whether pictures are drawn: `capl check` has no pixels on its device meta, and neither it nor bench leaves files.
local function draws()
  local mode = observer.mode
  return mode ~= "check" and mode ~= "bench"
end

local function check_list(op, name, list)
  for key in pairs(list) do
    if type(key) ~= "number" or key % 1 ~= 0 or key < 1 or key > #list then
      check.fail(op, ("%s is a list, but has an entry [%s]"):format(name, tostring(key)))
    end
  end
  return list
end

-- ---- line charts ----

local series_spec = {{"name", "string"}, {"x", "table", "tensor"}, {"y", "table", "tensor", required = true},
  {"smooth", "number"}, {"dots", "boolean"}}
local panel_spec = {
  {"y_label", "string"}, {"percent", "boolean"}, {"log", "boolean"}, {"min", "number"}, {"max", "number"},
  {"series", "table", required = true},
}
local chart_spec = {
  {"path", "string"}, {"title", "string"}, {"x_label", "string"}, {"log_x", "boolean"},
  {"panels", "table", required = true},
  {"width", "whole", default = 900}, {"height", "whole"}, {"font", "string"}, {"lines", "table", default = {}},
}
local line_spec = {{"x", "number", required = true}, {"label", "string"}}

-- A new list of numbers, from a list or a tensor with one dim.
local function numbers(op, values)
  if core.is_tensor(values) then
    if values:dim() ~= 1 then
      check.fail(op, ("values are a list or a tensor (N), got %d dims"):format(values:dim()))
    end
    return values:tolist()
  end
  local out = {}
  for i = 1, #check_list(op, "the values", values) do
    out[i] = values[i]
    if type(out[i]) ~= "number" then
      check.fail(op, ("value %d is a %s, not a number"):format(i, core.typename(out[i])),
        "write 0/0 where a value is missing")
    end
  end
  return out
end

local function count_up(n)
  local x = {}
  for i = 1, n do x[i] = i end
  return x
end

local function read_series(where, given)
  local s = check.options(where, series_spec, given)
  local y = numbers(where .. ".y", s.y)
  local x = s.x and numbers(where .. ".x", s.x) or count_up(#y)
  if #x ~= #y then check.fail(where, ("x has %d values, y has %d"):format(#x, #y)) end
  return {name = text_of(s.name), x = x, y = y, smooth = s.smooth, dots = s.dots}
end

local function read_panel(where, given)
  local panel = check.options(where, panel_spec, given)
  local series = {}
  for i, s in ipairs(check_list(where, "series", panel.series)) do
    series[i] = read_series(("%s.series[%d]"):format(where, i), s)
  end
  return {
    y_label = text_of(panel.y_label), percent = panel.percent, log = panel.log, min = panel.min, max = panel.max,
    series = series,
  }
end

--- Draws lines over a common x axis and writes them as a PNG file, whole or not at all; not under check and bench.
-- in   path (nil: the picture is what is returned); title; x_label; log_x = true for a logarithmic x axis; panels, one
--      above the other: lists of {y_label =, percent = values are shares of 1, log =, min =, max = limits of y, series
--      = {…}}, each of which is {name = for the legend, x = {…}, y = {…}, smooth = 0 to 1, weight of neighbours for a
--      smooth line over the pale values, dots = true: a dot for each value and no line, x in any order}.
--      x, y: lists or tensors (N); without x: 1, 2, 3, …; y that is NaN or infinite, or not above 0 on a log axis, is
--      a gap; one point is a dot. lines = {{x =, label =}, …}: vertical lines through all panels, with a few words.
--      width = 900, height (px) = by the number of panels; font = path of a TrueType file
-- out  nil; without path the picture, u8 (1,3,H,W) on the CPU, but nil under check and bench
-- errs value: unknown key, x and y of different lengths, x not finite, a picture too large; io: path, font
-- eg   plot.lines{path = "loss.png", panels = {{y_label = "loss", series = {{y = {3, 2, 1.5}}}}}}
function plot.lines(chart)
  local c = check.arguments("plot.lines", chart_spec, chart)
  local panels = {}
  for i, panel in ipairs(check_list("plot.lines", "panels", c.panels)) do
    panels[i] = read_panel(("plot.lines: panels[%d]"):format(i), panel)
  end
  local lines = {}
  for i, line in ipairs(check_list("plot.lines", "lines", c.lines)) do
    lines[i] = check.options(("plot.lines: lines[%d]"):format(i), line_spec, line)
    lines[i].label = text_of(lines[i].label)
  end
  check_path("plot.lines", c.path)
  if not draws() then return end
  return core.plot.lines(c.path, {
    title = text_of(c.title), x_label = text_of(c.x_label), log_x = c.log_x, width = c.width, height = c.height,
    font = c.font, panels = panels, lines = lines,
  })
end

-- ---- sheets ----

local cell_spec = {
  {"image", "tensor", required = true}, {"caption", "string"}, {"truth", "string"}, {"note", "string"},
  {"good", "boolean"},
}
local sheet_spec = {
  {"path", "string"}, {"title", "string"}, {"columns", "whole", from = 1},
  {"cells", "table", required = true}, {"font", "string"},
}

local function read_cell(where, given)
  local cell = check.options(where, cell_spec, given)
  return {
    image = cell.image, caption = text_of(cell.caption), truth = text_of(cell.truth), note = text_of(cell.note),
    good = cell.good,
  }
end

--- Draws images with captions in rows and writes them as a PNG file, whole or not at all; not under check and bench.
-- in   path (nil: the picture is what is returned); title; columns = as many as fit on 1120 px; cells: a list of {image
--      =, caption = below it, truth = what the caption should be (characters that differ are red, and the truth stands
--      below), note = small text beside, good = true (green frame) or false (red frame)}; where there are both, the bad
--      ones come first under a heading.
--      image: tensor (H,W), (C,H,W), (1,C,H,W) or (H,W,C), C 1 or 3; u8, or floating: the least value is black, the
--      greatest white. Small images are enlarged by a whole factor. font = path of a TrueType file
-- out  nil; without path the picture, u8 (1,3,H,W) on the CPU, but nil under check and bench
-- errs value: unknown key, a picture too large; shape: not one image; io: path, font
-- eg   plot.sheet{path = "a.png", cells = {{image = capl.zeros({60, 160}, {dtype = "u8"}), caption = "7K0Q"}}}
function plot.sheet(sheet)
  local s = check.arguments("plot.sheet", sheet_spec, sheet)
  local cells = {}
  for i, cell in ipairs(check_list("plot.sheet", "cells", s.cells)) do
    cells[i] = read_cell(("plot.sheet: cells[%d]"):format(i), cell)
  end
  check_path("plot.sheet", s.path)
  if not draws() then return end
  return core.plot.sheet(s.path, {title = text_of(s.title), columns = s.columns, font = s.font, cells = cells})
end

-- ---- galleries ----

local view_spec = {
  {"image", "tensor", required = true}, {"caption", "string"}, {"mask", "tensor"}, {"points", "tensor"},
  {"truth", "tensor"}, {"boxes", "tensor"},
}
local key_spec = {{"name", "string", required = true}, {"class", "whole", required = true, from = 0}}
local section_spec = {{"title", "string"}, {"note", "string"}, {"views", "table", required = true}}
local gallery_spec = {
  {"path", "string"}, {"title", "string"}, {"columns", "whole", default = 6},
  {"sections", "table", required = true}, {"first", "string"}, {"rest", "string"}, {"font", "string"},
  {"together", "whole", default = 1, from = 1}, {"legend", "table", default = {}},
}

-- Raises unless a tensor has this shape; nil is any size.
local function check_shape(where, name, t, ...)
  local fits = t:dim() == select("#", ...)
  for d = 1, select("#", ...) do
    local size = select(d, ...)
    fits = fits and (size == 0 or t:size(d) == size)
  end
  if fits then return end
  core.error{code = "shape", op = where, path = false,
    message = ("%s is (%s)"):format(name, table.concat(t.shape, ",")), hint = "mask (H,W), points (P,3), boxes (B,5)"}
end

local function read_view(where, given)
  local v = check.options(where, view_spec, given)
  local height, width = overlay.sizes(v.image)
  if v.mask then check_shape(where, "mask", v.mask, height, width) end
  if v.points then check_shape(where, "points", v.points, 0, 3) end
  if v.truth then check_shape(where, "truth", v.truth, v.points and v.points:size(1) or 1, 3) end
  if v.boxes then check_shape(where, "boxes", v.boxes, 0, 5) end
  v.caption = text_of(v.caption)
  return v
end

local function read_section(where, given)
  local s = check.options(where, section_spec, given)
  local views = {}
  for i, view in ipairs(check_list(where, "views", s.views)) do
    views[i] = read_view(("%s.views[%d]"):format(where, i), view)
  end
  return {title = text_of(s.title), note = text_of(s.note), views = views}
end

--- Draws samples in rows, the first of a row apart from the others, with their annotations as overlays: masks as
-- tints, points as dots (crosses where they cannot be seen), boxes with their class; not under check and bench.
-- in   path (nil: the picture is what is returned); title; columns = 6 views of a row; together = 1: how many of a row
--      stand apart from the rest; first, rest = what the columns hold; legend = list of {name =, class =}: names of
--      the colours of classes, or of the points by their numbers; sections: a list of {title =, note =, views = {{image
--      = tensor as plot.sheet takes, caption =, mask = (H,W) classes, 0 = none,
--      points = (P,3) x, y, 1 = visible, 0 = not or -1 = none, truth = (P,3) where they should be, as full dots,
--      boxes = (B,5) left, top, right, bottom, class or -1}, …}}; font = path of a TrueType file
-- out  nil; without path the picture, u8 (1,3,H,W) on the CPU, but nil under check and bench
-- errs value: unknown key, a picture too large; shape: an image, mask, points or boxes; io: path, font
-- eg   plot.gallery{path = "a.png", columns = 2, sections = {{views = {{image = capl.zeros({60, 160}, {dtype = "u8"})}}}}}
function plot.gallery(gallery)
  local g = check.arguments("plot.gallery", gallery_spec, gallery)
  local sections = {}
  for i, section in ipairs(check_list("plot.gallery", "sections", g.sections)) do
    sections[i] = read_section(("plot.gallery: sections[%d]"):format(i), section)
  end
  local keys = {}
  for i, key in ipairs(check_list("plot.gallery", "legend", g.legend)) do
    keys[i] = check.options(("plot.gallery: legend[%d]"):format(i), key_spec, key)
    keys[i].name = text_of(keys[i].name)
  end
  check_path("plot.gallery", g.path)
  if not draws() then return end
  return core.plot.gallery(g.path, {
    title = text_of(g.title), first = text_of(g.first), rest = text_of(g.rest), columns = g.columns, font = g.font,
    sections = sections, together = g.together, legend = keys,
  })
end

-- ---- bars ----

local bars_spec = {
  {"path", "string"}, {"title", "string"}, {"x_label", "string"},
  {"labels", "table", required = true}, {"values", "table", "tensor", required = true},
  {"width", "whole", default = 900}, {"font", "string"},
}

--- Draws a horizontal bar for each number, from 0, below each other, and writes them as a PNG file; not under check and
-- bench.
-- in   path (nil: the picture is what is returned); title; x_label = what the numbers are; labels = list of 1 to
--      200 texts; values = as many numbers, a list or a tensor; width = 900 px; font = path of a TrueType file
-- out  nil; without path the picture, u8 (1,3,H,W) on the CPU, but nil under check and bench
-- errs value: unknown key, labels and values of different lengths, a value that is not finite; io: path, font
-- eg   plot.bars{path = "a.png", labels = {"wind", "rain"}, values = {2.5, -0.5}}
function plot.bars(bars)
  local b = check.arguments("plot.bars", bars_spec, bars)
  local labels, values = {}, numbers("plot.bars", b.values)
  for i, label in ipairs(check_list("plot.bars", "labels", b.labels)) do labels[i] = text_of(tostring(label)) end
  if #labels ~= #values then check.fail("plot.bars", ("%d labels have %d values"):format(#labels, #values)) end
  check_path("plot.bars", b.path)
  if not draws() then return end
  return core.plot.bars(b.path, {title = text_of(b.title), x_label = text_of(b.x_label), labels = labels,
    values = values, width = b.width, font = b.font})
end

-- ---- matrices ----

local group_spec = {{"title", "string"}, {"cells", "table"}}
local matrix_spec = {
  {"path", "string"}, {"title", "string"}, {"labels", "table", required = true},
  {"counts", "table", required = true}, {"row_label", "string"}, {"column_label", "string"}, {"groups", "table"},
  {"font", "string"},
}

-- The rows of a square table behind each other.
local function flat_counts(counts, n)
  local flat = {}
  if #counts ~= n then check.fail("plot.matrix", ("%d labels have %d rows of counts, not %d"):format(n, n, #counts)) end
  for i, row in ipairs(counts) do
    if type(row) ~= "table" or #row ~= n then
      check.fail("plot.matrix", ("row %d is a list of %d counts"):format(i, n))
    end
    for k = 1, n do flat[#flat + 1] = row[k] end
  end
  return numbers("plot.matrix", flat)
end

local function read_group(where, given)
  local g = check.options(where, group_spec, given)
  local cells = {}
  for i, cell in ipairs(check_list(where, "cells", g.cells or {})) do
    cells[i] = read_cell(("%s.cells[%d]"):format(where, i), cell)
  end
  return {title = text_of(g.title), cells = cells}
end

--- Draws a confusion matrix, with samples beside it, and writes it as a PNG file; not under check and bench.
-- in   path (nil: the picture is what is returned); title; labels = list of texts; counts = a list of rows, one for
--      each label, with a number for each label: what is on the diagonal is blue, the rest red, by its share of the
--      row; row_label, column_label = what they are; groups = list of {title =, cells = {{image = …}, …}} at the right,
--      images as plot.sheet takes them; font = path of a TrueType file
-- out  nil; without path the picture, u8 (1,3,H,W) on the CPU, but nil under check and bench
-- errs value: unknown key, counts that do not fit the labels or are negative, more than 200 labels; shape: not one
--      image; io
-- eg   plot.matrix{path = "a.png", labels = {"0", "O"}, counts = {{9, 1}, {0, 10}}}
function plot.matrix(matrix)
  local m = check.arguments("plot.matrix", matrix_spec, matrix)
  local labels, groups = {}, {}
  for i, label in ipairs(check_list("plot.matrix", "labels", m.labels)) do labels[i] = text_of(tostring(label)) end
  for i, group in ipairs(check_list("plot.matrix", "groups", m.groups or {})) do
    groups[i] = read_group(("plot.matrix: groups[%d]"):format(i), group)
  end
  local counts = flat_counts(m.counts, #labels)
  check_path("plot.matrix", m.path)
  if not draws() then return end
  return core.plot.matrix(m.path, {
    title = text_of(m.title), labels = labels, counts = counts, row_label = text_of(m.row_label),
    column_label = text_of(m.column_label), groups = groups, font = m.font,
  })
end

return require("missing").watch("plot", plot)
