-- samples.lua: samples.png of an evaluation: what was meant and what was read, drawn as its kind is looked at.
--
-- Texts and classes stand below their images; other kinds say what is drawn (sheet). The worst samples come first, then
-- the best ones, or right ones from all over the set.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local kinds = require("fields").kinds

local samples = {}

local CELLS = 24 -- pictures of texts and classes
local WORST, BEST = 12, 8 -- samples of other kinds, unless they say it
local KEYS = 40 -- names in a legend
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

-- ---- kinds that are drawn ----

-- The kind whose sheet shows what a meter has counted; nil: none does.
local function kind_of(meter)
  for _, kind in ipairs(kinds) do
    if kind.sheet and kind.meter == meter.kind then return kind end
  end
end

-- What the kind compares of some samples that are read once more, as meters keep no pictures.
local function compare(meter, kind, entries, out)
  local ids = {}
  for i, e in ipairs(entries) do ids[i] = e.id end
  local batch, output = meter.again(ids)
  for i, e in ipairs(entries) do
    out[e.id] = kind.compared(meter, e, batch, output, i)
    for _, view in ipairs(out[e.id] or {}) do
      view.image, view.mask = view.image and view.image:keep(), view.mask and view.mask:keep()
    end
  end
end

-- -> by the numbers of the samples lists of views; {} of kinds that draw what the meter has kept
local function compared(meter, kind, entries)
  local out, each = {}, math.max(1, meter.loader and meter.loader.batch or 1)
  if not kind.compared or not meter.again or not meter.loader.low then return out end
  for i = 1, #entries, each do
    local some = {}
    for k = i, math.min(i + each - 1, #entries) do some[#some + 1] = entries[k] end
    core.no_grad(core.scope, compare, meter, kind, some, out)
  end
  return out
end

local function fits(image, mask)
  local height, width = require("plot").overlay.sizes(image)
  return mask:size(1) == height and mask:size(2) == width
end

-- The image, and what the kind compares of it: a view without an image of its own lies over that.
local function compared_views(image, name, list)
  local views = {{image = image, caption = name}}
  for _, view in ipairs(list or {}) do
    view.image = view.image or image
    if view.mask and not fits(view.image, view.mask) then return {} end
    views[#views + 1] = view
  end
  return views[2] and views or {}
end

-- Pictures of an entry, as its kind shows them; {} without an image.
local function views_of(meter, kind, e, list)
  local image, fields = samples.image_of(meter, e.id)
  if not image then return {} end
  if kind.sheet.views then return kind.sheet.views(meter, e, image, fields) end
  return compared_views(image, samples.name_of(meter, e.id) or ("sample %d"):format(e.id), list[e.id])
end

local function section(title, meter, kind, entries, list)
  local views = {}
  for _, e in ipairs(entries) do
    for _, view in ipairs(views_of(meter, kind, e, list)) do
      views[#views + 1] = small(view, kind.sheet.columns or 4)
    end
  end
  return views[1] and {title = title, note = kind.sheet.note, views = views} or nil
end

-- The worst entries, then the best ones; nil where none has an image.
local function gallery(meter, kind, title)
  local sheet, kept, sections = kind.sheet, meter:samples(), {}
  local worst, best = first(kept.wrong, sheet.worst or WORST), first(kept.right, sheet.best or BEST)
  local list = compared(meter, kind, joined(worst, best))
  sections[1] = section("the worst ones", meter, kind, worst, list)
  sections[#sections + 1] = section("the best ones", meter, kind, best, list)
  return sections[1] and require("plot").gallery{title = title, columns = sheet.columns or 4,
    together = sheet.together, legend = sheet.legend and first(sheet.legend(meter, list), KEYS), sections = sections}
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

local function kind_sheet(meter, title)
  local kind, pictures = kind_of(meter), {}
  if kind.sheet.plots then pictures = kind.sheet.plots(meter, require("plot"), samples) end
  pictures[#pictures + 1] = gallery(meter, kind, title)
  return pictures[1] and stacked(pictures)
end

-- ---- all kinds ----

--- Writes samples.png; nothing where no sample has a picture.
-- in   meter of an evaluation; path; title
function samples.draw(meter, path, title)
  local sheet = meter.caption and captioned_sheet or kind_of(meter) and kind_sheet
  local picture = sheet and core.no_grad(sheet, meter, title)
  if picture then core.data.png_write(path, picture) end
end

-- Enlarged by a whole factor, or shrunk.
local function zoom_of(image)
  local height, width = require("plot").overlay.sizes(image)
  local zoom = THUMB / math.max(height, width)
  return zoom > 1 and math.floor(zoom) or zoom
end

--- Small pictures of samples with what was read -> {[id of the sample] = u8 (1,3,H,W)}; {} of kinds without a sheet.
function samples.thumbs(meter, entries)
  local out, kind = {}, not meter.caption and kind_of(meter)
  local list = kind and compared(meter, kind, entries)
  for _, e in ipairs(kind and entries or {}) do
    local view = not out[e.id] and views_of(meter, kind, e, list)[kind.sheet.thumb or 1]
    if view then
      view.zoom = zoom_of(view.image)
      out[e.id] = core.plot.overlay(view)
    end
  end
  return out
end

return samples
