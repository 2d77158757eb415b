-- samples.lua: samples.png of an evaluation: what was meant and what was read, drawn as its kind is looked at.
--
-- Texts and classes stand below their images. Points are drawn over them: a ring where one was read, a dot where it
-- should be. Masks stand beside what was meant. Numbers are a scatter plot, and a curve in the order of the set where
-- samples have no images. The worst samples come first, then the best ones, or right ones from all over the set.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local kinds = require("fields").kinds

local samples = {}

local CELLS = 24 -- pictures of texts and classes
local WORST, BEST = 12, 8 -- images of points and numbers
local MASKS, BEST_MASKS = 8, 4 -- images of masks, three pictures each
local KEYS = 40 -- names in a legend
local NUMBERS = 8 -- numbers that have a scatter plot
local DOTS = 20000 -- of a scatter plot
local THUMB = 128 -- px
local WIDE, NARROW = 240, 187 -- px of an image in a gallery of four columns, and of six

-- ---- what a source has ----

--- The image of a sample as it lies in its source, u8 (1,C,H,W), and its fields; nil when there is none or its file
-- went away.
function samples.image_of(meter, id)
  local source = meter.loader and meter.loader.source
  if not source or not source.box then return nil end
  local read, image, _, fields = pcall(source.box.read, source.box, 1, id)
  if read then return image, fields or {} end
  if core.is_error(image) and image.code == "device" then error(image, 0) end -- a lost GPU is no missing picture
end

--- The name of a sample; nil: its source has no names.
function samples.name_of(meter, id)
  local source = meter.loader and meter.loader.source
  return source and source.name and source:name(id) or nil
end

local function first(list, count)
  local out = {}
  for i = 1, math.min(count, #list) do out[i] = list[i] end
  return out
end

local function joined(...)
  local out = {}
  for _, list in ipairs{...} do
    for _, entry in ipairs(list) do out[#out + 1] = entry end
  end
  return out
end

-- ---- texts and classes ----

-- Half of the cells for wrong ones, the rest for right ones; either takes what the other leaves.
local function chosen(kept)
  local wrong = math.min(#kept.wrong, math.max(CELLS / 2, CELLS - #kept.right))
  return joined(first(kept.wrong, wrong), first(kept.right, CELLS - wrong))
end

local function cell(meter, e)
  local image = samples.image_of(meter, e.id)
  local caption, truth = meter.caption(e)
  return image and {image = image, caption = caption, truth = truth, good = e.truth == e.read,
    note = e.confidence and ("%.0f %%"):format(100 * e.confidence)} or nil
end

local function captioned_sheet(meter, title)
  local cells = {}
  for _, e in ipairs(chosen(meter:samples())) do cells[#cells + 1] = cell(meter, e) end
  return cells[1] and require("plot").sheet{title = title, columns = 4, cells = cells}
end

-- ---- galleries ----

-- A large image is drawn as small as it will be shown, with what lies over it: a gallery holds all its images at once.
local function small(view, columns)
  local _, width = require("plot").overlay.sizes(view.image)
  local room = columns > 4 and NARROW or WIDE
  if width <= room then return view end
  view.zoom = room / width
  return {image = core.plot.overlay(view), caption = view.caption}
end

-- Rows of views(entry) of the worst entries, then of the best ones; nil without any.
local function gallery(options, kept, worst, best, views)
  options.sections = {}
  for _, part in ipairs{{"the worst ones", first(kept.wrong, worst)}, {"the best ones", first(kept.right, best)}} do
    local list = {}
    for _, e in ipairs(part[2]) do
      for _, view in ipairs(views(e)) do list[#list + 1] = small(view, options.columns) end
    end
    if list[1] then table.insert(options.sections, {title = part[1], note = options.note, views = list}) end
  end
  options.note = nil
  return options.sections[1] and require("plot").gallery(options)
end

local function without_batch(t) return t and t:reshape(unpack(t.shape, 2)) end

-- ---- points ----

-- Places that were read, and those that were meant, (P,3) each as pictures take them: what is said of a point that
-- there is not counts for nothing.
local function both_points(meter, e, points)
  local read, truth, there = {}, {}, without_batch(points):tolist()
  for i, xy in ipairs(e.read) do
    local want = there[meter.points and meter.points[i] or i]
    local seen = want and want[3] ~= 0 and 1 or -1
    read[i], truth[i] = {xy[1], xy[2], seen}, {want and want[1] or 0, want and want[2] or 0, seen}
  end
  return core.tensor(read), core.tensor(truth)
end

-- The image with its points; nil without an image.
local function point_view(meter, e)
  local image, fields = samples.image_of(meter, e.id)
  if not image or not fields.points then return nil end
  local read, truth = both_points(meter, e, fields.points)
  return {image = image, points = read, truth = truth, caption = ("off by %.1f px"):format(e.distance)}
end

local function points_sheet(meter, title)
  local legend = {}
  for p = 1, math.min(meter.P or 0, KEYS) do legend[p] = {name = meter:name(p), class = p} end
  return gallery({title = title, columns = 4, together = 4, legend = legend, note = "ring: read, dot: meant"},
    meter:samples(), WORST, BEST, function(e) return {point_view(meter, e)} end)
end

-- ---- boxes ----

local function boxes_of(list)
  local rows = {}
  for i, box in ipairs(list) do rows[i] = {box[1], box[2], box[3], box[4], box[5]} end
  return rows[1] and core.tensor(rows) or nil
end

-- The image with the boxes that were read, and with those that were meant.
local function box_views(meter, e)
  local image = samples.image_of(meter, e.id)
  if not image then return {} end
  return {
    {image = image, boxes = boxes_of(e.read), caption = ("read: %d missed, %d too many"):format(e.missed, e.extra)},
    {image = image, boxes = boxes_of(e.truth), caption = "meant"},
  }
end

local function boxes_sheet(meter, title)
  local legend = {}
  for class, name in ipairs(first(meter.names, KEYS)) do legend[class] = {name = name, class = class - 1} end
  return gallery({title = title, columns = 4, together = 2, legend = legend}, meter:samples(), WORST, BEST, function(e)
    return box_views(meter, e)
  end)
end

-- ---- masks ----

-- A few samples are read once more, as the meter keeps no masks -> by their numbers {read, truth = (H,W) u8, iou}.
-- Weights that have changed since say something else; then there is nothing to show.
local function read_masks(meter, entries, out)
  local ids = {}
  for i, e in ipairs(entries) do ids[i] = e.id end
  local batch, output = meter.again(ids)
  local read, truth = output:to("f32"):argmax(2):to("f32"), batch.mask:to("f32")
  local counts = truth:ne(meter.ignore):to("f32")
  local right = ((read:eq(truth):to("f32") * counts):reshape(#ids, -1):sum(2)
    / counts:reshape(#ids, -1):sum(2)):tolist()
  for i, e in ipairs(entries) do
    if math.abs(right[i] - e.accuracy) < 1e-5 then
      local got, want = read:narrow(1, i, 1), truth:narrow(1, i, 1)
      local shown = want * counts:narrow(1, i, 1) -- what does not count has no colour
      out[e.id] = {read = without_batch(got:to("u8")):keep(), truth = without_batch(shown:to("u8")):keep(),
        iou = meter:overlap(want, got)}
    end
  end
end

-- Masks that were read for the small pictures, until the sheet is drawn.
local known = setmetatable({}, {__mode = "k"})

local function masks_of(meter, entries)
  local out, wanted, each = known[meter] or {}, {}, math.max(1, meter.loader and meter.loader.batch or 1)
  if not meter.again or not meter.loader.low then return out end
  known[meter] = out
  for _, e in ipairs(entries) do
    if not out[e.id] then wanted[#wanted + 1] = e end
  end
  for i = 1, #wanted, each do
    local some = {}
    for k = i, math.min(i + each - 1, #wanted) do some[#some + 1] = wanted[k] end
    core.no_grad(core.scope, read_masks, meter, some, out)
  end
  return out
end

local function fits(image, mask)
  local height, width = require("plot").overlay.sizes(image)
  return mask:size(1) == height and mask:size(2) == width
end

-- The image, the mask that was meant, the one that was read.
local function mask_views(meter, e, mask)
  local image = samples.image_of(meter, e.id)
  if not image or not mask or not fits(image, mask.read) then return {} end
  return {
    {image = image, caption = samples.name_of(meter, e.id) or ("sample %d"):format(e.id)},
    {image = image, mask = mask.truth, caption = "meant"},
    {image = image, mask = mask.read, caption = ("read, IoU %.1f %%"):format(100 * (mask.iou or 0))},
  }
end

-- Names of the classes that there are in the masks.
local function mask_legend(meter, masks)
  local there, out = {[0] = true}, {}
  for _, m in pairs(masks) do
    for _, mask in ipairs{m.read, m.truth} do
      local row = meter:present(mask)
      for class in pairs(row) do there[class] = true end
    end
  end
  for class = 0, (meter.K or 0) - 1 do
    if there[class] and #out < KEYS then out[#out + 1] = {name = meter:name(class), class = class} end
  end
  return out
end

local function masks_sheet(meter, title)
  local kept = meter:samples()
  local masks = masks_of(meter, joined(first(kept.wrong, MASKS), first(kept.right, BEST_MASKS)))
  return gallery({title = title, columns = 6, together = 3, legend = mask_legend(meter, masks)}, kept, MASKS,
    BEST_MASKS, function(e) return mask_views(meter, e, masks[e.id]) end)
end

-- ---- images ----

-- The kind of outputs that shows what a meter has compared; nil: it is another one.
local function comparing(meter)
  for _, kind in ipairs(kinds) do
    if kind.compared and kind.meter == meter.kind then return kind end
  end
end

-- The image, what was meant, what was read, as the kind shows them.
local function compared_views(meter, e)
  local image, kind = samples.image_of(meter, e.id), comparing(meter)
  if not meter.again or not meter.loader.low then return {} end
  local meant, read, words = core.no_grad(core.scope, function()
    local batch, output = meter.again{e.id}
    local one, other, text = kind.compared(meter, e, batch, output)
    return one and one:keep(), other and other:keep(), text
  end)
  if not image or not meant then return {} end
  return {{image = image, caption = samples.name_of(meter, e.id) or ("sample %d"):format(e.id)},
    {image = meant, caption = "meant"}, {image = read, caption = words}}
end

local function compared_sheet(meter, title)
  return gallery({title = title, columns = 6, together = 3}, meter:samples(), MASKS, BEST_MASKS,
    function(e) return compared_views(meter, e) end)
end

-- ---- numbers ----

local function limits(column)
  local low, high = math.huge, -math.huge
  for i = 1, #column.want do
    low, high = math.min(low, column.want[i], column.got[i]), math.max(high, column.want[i], column.got[i])
  end
  if low == high then low, high = low - 1, high + 1 end
  local margin = 0.03 * (high - low)
  return low - margin, high + margin
end

-- What was read over what was meant; on the line they are the same.
local function scatter(column)
  local low, high = limits(column)
  local x, y, step = {}, {}, math.ceil(#column.want / DOTS)
  for i = 1, #column.want, step do x[#x + 1], y[#y + 1] = column.want[i], column.got[i] end
  return require("plot").lines{
    title = ("%s: RMSE %.4g%s"):format(column.name, column.rmse, column.r2 and (", R2 %.3f"):format(column.r2) or ""),
    width = 480, height = 480, x_label = "meant", panels = {{y_label = "read", min = low, max = high, series = {
      {x = x, y = y, dots = true}, {name = "as meant", x = {low, high}, y = {low, high}},
    }}},
  }
end

-- Both in the order of the set.
local function course(meter, column)
  local from, to = samples.name_of(meter, column.ids[1]), samples.name_of(meter, column.ids[#column.ids])
  return require("plot").lines{
    title = column.name .. " over time", width = 760, height = 480,
    x_label = from and to and ("%s to %s"):format(from, to) or "samples in the order of the set",
    panels = {{y_label = column.name, series = {{name = "read", y = column.got}, {name = "meant", y = column.want}}}},
  }
end

local function number_view(meter, e)
  local image = samples.image_of(meter, e.id)
  local name = e.number and e.number .. " " or ""
  return image and {image = image, caption = ("%s%.4g, meant %.4g"):format(name, e.predicted, e.target)} or nil
end

-- Pictures below each other, on white.
local function stacked(pictures)
  local width, rows = 0, {}
  for _, p in ipairs(pictures) do width = math.max(width, p:size(4)) end
  for i, p in ipairs(pictures) do
    local room = width - p:size(4)
    rows[i] = room > 0 and core.op.concat({p, core.full({1, 3, p:size(3), room}, 255, {dtype = "u8", device = "cpu"})},
      {dim = 4}) or p
  end
  return #rows > 1 and core.op.concat(rows, {dim = 3}) or rows[1]
end

local function numbers_sheet(meter, title)
  local pictures, columns = {}, meter:columns()
  local has_images = columns[1] and samples.image_of(meter, columns[1].ids[1]) ~= nil
  for i, column in ipairs(first(columns, NUMBERS)) do
    local plot = scatter(column)
    pictures[i] = has_images and plot or core.op.concat({plot, course(meter, column)}, {dim = 4})
  end
  pictures[#pictures + 1] = has_images and gallery({title = title, columns = 4, together = 4}, meter:samples(), WORST,
    0, function(e) return {number_view(meter, e)} end) or nil
  return pictures[1] and stacked(pictures)
end

-- ---- all kinds ----

local sheets = {localization = points_sheet, detection = boxes_sheet, segmentation = masks_sheet,
  regression = numbers_sheet}

--- Writes samples.png; nothing where no sample has a picture.
-- in   meter of an evaluation; path; title
function samples.draw(meter, path, title)
  local sheet = meter.caption and captioned_sheet or comparing(meter) and compared_sheet or sheets[meter.kind]
  local picture = sheet and core.no_grad(sheet, meter, title)
  known[meter] = nil
  if picture then core.data.png_write(path, picture) end
end

-- Enlarged by a whole factor, or shrunk.
local function zoom_of(image)
  local height, width = require("plot").overlay.sizes(image)
  local zoom = THUMB / math.max(height, width)
  return zoom > 1 and math.floor(zoom) or zoom
end

-- The picture of an entry, with what was read where that can be drawn.
local views = {
  localization = point_view, regression = number_view,
  detection = function(meter, e) return box_views(meter, e)[1] end,
  segmentation = function(meter, e, masks) return mask_views(meter, e, masks[e.id])[3] end,
}

--- Small pictures of points, masks and numbers -> {[id of the sample] = u8 (1,3,H,W)}; {} of other kinds.
function samples.thumbs(meter, entries)
  local out, masks = {}, meter.kind == "segmentation" and masks_of(meter, first(entries, MASKS))
  local view_of = comparing(meter) and function(_, e) return compared_views(meter, e)[3] end or views[meter.kind]
  for _, e in ipairs(view_of and entries or {}) do
    local view = not out[e.id] and view_of(meter, e, masks)
    if view then
      view.zoom = zoom_of(view.image)
      out[e.id] = core.plot.overlay(view)
    end
  end
  return out
end

return samples
