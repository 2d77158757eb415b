-- explore.lua: data.explore: what a folder, list or database of labelled images holds, and what a recipe should know of
-- it.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local ranges = require "data.ranges"
local symbols = require "fields.symbols"
local warnings = require "data.warnings"

local DECODED = 2000 -- images whose pixels are looked at, evenly spread
local LEAST_HEIGHT, MOST_HEIGHT = 32, 64 -- px that a suggested height stays within
local MIXED = 0.1 -- share of images of the other polarity from which on a set is mixed
local GRAY_KEEPS = 0.6 -- of the contrast; below that, colours are worth three channels
local GRAY_LOSES = 0.05 -- share of pixels hardly seen in gray; above that likewise: some letters are of them alone

-- ---- labels ----

local function look_at_labels(found, source)
  local lengths, counts = {}, {}
  found.labelled, found.steps = 0, 0
  local is_bad = {}
  for _, bad in ipairs(source.bad) do is_bad[bad.id] = true end
  for id = 0, source:count() - 1 do
    local text = not is_bad[id] and source:text(id)
    if text then
      found.labelled = found.labelled + 1
      local list = symbols.of(text)
      lengths[#list] = (lengths[#list] or 0) + 1
      for _, c in ipairs(list) do counts[c] = (counts[c] or 0) + 1 end
      local steps = warnings.steps_of(text)
      if steps > found.steps then found.steps, found.longest = steps, source:name(id) end
    end
  end
  found.lengths, found.characters = lengths, counts
  for n in pairs(lengths) do
    found.length_min = math.min(found.length_min or n, n)
    found.length_max = math.max(found.length_max or n, n)
  end
end

-- ---- sizes ----

local function median(sorted) return sorted[math.floor((#sorted + 1) / 2)] end

local function look_at_sizes(found, source, scan)
  local widths, heights, sizes = {}, {}, {}
  local kinds = {}
  found.unreadable = {}
  for id = 0, source:count() - 1 do
    local _, format, width, height = scan:facts(id)
    if format then
      widths[#widths + 1], heights[#heights + 1] = width, height
      sizes[#sizes + 1] = {id = id, width = width, height = height}
      local kind = width .. "x" .. height
      kinds[kind] = true
    else
      found.unreadable[#found.unreadable + 1] = {id = id, name = source:name(id), message = width}
    end
  end
  if #sizes == 0 then
    check.fail("data.explore", ("none of the %d images of %s can be read"):format(source:count(), source.dir))
  end
  table.sort(widths)
  table.sort(heights)
  found.sizes = sizes
  found.width = {median = median(widths), min = widths[1], max = widths[#widths]}
  found.height = {median = median(heights), min = heights[1], max = heights[#heights]}
  found.one_size = next(kinds, next(kinds)) == nil
end

--- Height and widths that batches should have. asked: by the caller; nil = as the images are, within limits
local function suggest_sizes(found, asked, step)
  local usual = found.height.median
  local height = asked or math.max(LEAST_HEIGHT, math.min(MOST_HEIGHT, usual))
  local px = {}
  for i, size in ipairs(found.sizes) do px[i] = math.max(1, math.floor(size.width * height / size.height + 0.5)) end
  found.suggested = {height = height, widths = core.data.choose_widths(px, step)}
end

-- ---- looks ----

local function look_at_pixels(found, source)
  local count, ids = source:count(), {}
  local n = math.min(count, DECODED)
  for i = 1, n do ids[i] = math.floor((i - 1) * count / n) end
  local scan = source.box:subset(ids):scan{pixels = true, threads = core.sys.workers_most()}
  local dark, light, kept, differ, lost = 0, 0, 0, 0, 0
  for i = 0, n - 1 do
    local darker, lighter, any, faded = scan:seen(i)
    if darker > lighter then dark = dark + 1 elseif lighter > darker then light = light + 1 end
    kept, differ, lost = kept + darker + lighter, differ + any, lost + faded / n
  end
  local seen = math.max(1, dark + light)
  found.polarity = light / seen < MIXED and "dark on light" or dark / seen < MIXED and "light on dark" or "mixed"
  found.dark_share = dark / seen
  found.gray_keeps = differ > 0 and math.min(1, kept / differ) or 1
  found.gray_loses = lost
  found.suggested.channels = (found.gray_keeps < GRAY_KEEPS or lost > GRAY_LOSES) and 3 or 1
end

-- ---- telling ----

local function line(name, text) observer:print(("  %-9s%s"):format(name, text)) end

local function as_range(r)
  return r.min == r.max and tostring(r.min) or ("%d..%d (median %d)"):format(r.min, r.max, r.median)
end

local function lengths_text(found)
  if found.length_min == found.length_max then return ("%d, all of them"):format(found.length_min) end
  local parts = {}
  for n = found.length_min, found.length_max do parts[#parts + 1] = ("%d: %d"):format(n, found.lengths[n] or 0) end
  return table.concat(parts, ", ")
end

local function print_found(found)
  observer:print(("%s: %d images, %d with a label that can be used"):format(found.path, found.images,
    found.labelled))
  line("charset", ("%s (%d characters)"):format(found.charset_short, symbols.count(found.charset)))
  line("lengths", lengths_text(found))
  line("px", ("%s wide, %s high"):format(as_range(found.width), as_range(found.height)))
  line("looks", ("%s; gray keeps %.0f %% of the contrast, and loses %.0f %% of the pixels: channels = %d"):format(
    found.polarity, 100 * found.gray_keeps, 100 * found.gray_loses, found.suggested.channels))
  line("batches", ("height = %d, widths = {%s}"):format(found.suggested.height,
    table.concat(found.suggested.widths, ", ")))
  line("steps", ("a text needs up to %d time steps, such as %s"):format(found.steps, found.longest))
  for _, warning in ipairs(found.warnings) do
    observer:print(("note: %s%s"):format(warning.message, warning.hint and "\n  hint: " .. warning.hint or ""))
  end
end

-- ---- exploring ----

local spec = {
  {"label", "string", "function"}, {"charset", "string"}, {"case", "string"}, {"steps", "whole", from = 1},
  {"height", "whole", from = 1}, {"step", "whole", from = 1}, {"least", "whole", from = 1}, {"quiet", "boolean"},
}

--- open(path, options) opens a source of files.
return function(open)
  --- Explores a folder, a list or a database of labelled images: prints what it finds and returns it.
  -- in   path = as data.open takes it
  -- opts label = "auto" | rule of data.folder: of folders; charset = "auto"; case = "keep" | "upper" | "lower"; height
  --      = px to bring images to, found when missing; step = 8: widths are multiples of it; steps = T, the time steps
  --      of a net: texts that need more are an error; least = 10: fewer images with a label are one, too; quiet =
  --      false: true prints nothing
  -- out  {source = the opened source, images, labelled = how many, label = the rule, charset, lengths = {[n] = images},
  --      length_min, length_max, characters = {[c] = times}, steps = time steps that the worst text needs (its
  --      characters and one for each pair of equal neighbours), longest = its file, width and height = {median, min,
  --      max} px, one_size, polarity = "dark on light" | "light on dark" | "mixed", gray_keeps = share of the contrast,
  --      gray_loses = share of the pixels that differ from the background but hardly do in gray,
  --      suggested = {height, widths, channels}, unreadable and bad = {{name, message}, …}, warnings = {{what, message,
  --      hint}, …}}
  -- errs what data.open raises; value: too few images, a text that needs too many time steps
  return function(path, opts)
    local o = check.options("data.explore", spec, opts)
    check.value("data.explore", {"path", "string"}, path)
    if o.case ~= nil then check.word("data.explore", "case", o.case, {"keep", "upper", "lower"}) end
    local source = open(path, {
      label = o.label or "auto", charset = o.charset or "auto", length = {1, 32}, case = o.case, width = 1, height = 1,
      resize = true,
    })
    local found = {path = path, source = source, images = source:count(), label = source.label,
      charset = source.charset, bad = source.bad}
    found.charset_short = ranges(symbols.list(source.charset))
    look_at_labels(found, source)
    warnings.refuse_few(found, o.least or 10)
    local scan = source.box:scan{threads = core.sys.workers_most()}
    look_at_sizes(found, source, scan)
    suggest_sizes(found, o.height, o.step or 8)
    look_at_pixels(found, source)
    found.warnings = warnings.find(found, source, scan)
    if not o.quiet then print_found(found) end
    if o.steps then warnings.refuse_long(found, o.steps) end
    return found
  end
end
