-- captcha.lua: data.captcha: images drawn while training, and data.save_captchas: the same as files.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sync = require "dist.sync"
local charset = require "fields.charset"
local check = require "check"

local captcha = {}

-- What every preset has, beside what core.data.style_options lists.
local common = {"charset", "width", "height", "font", "often", "times", "pitch"}

local function list(...)
  local all = {}
  for _, names in ipairs{...} do
    for _, name in ipairs(names) do all[#all + 1] = name end
  end
  return all
end

--- Names of the options that only some presets have, and of all. libcapl_synth knows them, which is loaded when first
-- asked.
local own, look

local function learn()
  if own then return end
  own = {}
  for i, option in ipairs(core.data.style_options()) do own[i] = option.name end
  look = list({"preset", "length", "widths"}, common, own)
end

local STEP = 8 -- px: widths that are chosen are multiples

--- length = 4 or {4, 8} -> shortest, longest
local function read_length(where, length)
  if type(length) ~= "table" then return length end
  local lo, hi = length[1], length[2]
  if type(lo) == "number" and type(hi) == "number" and lo <= hi then return lo, hi end
  check.fail(where, ("length is a number, or {shortest, longest}, got {%s, %s}"):format(tostring(lo), tostring(hi)))
end

local function generator(where, o)
  learn()
  local low = {}
  for _, name in ipairs(common) do low[name] = o[name] end
  for _, name in ipairs(own) do low[name] = o[name] end
  low.charset = charset.read(where, o.charset)
  low.length, low.length_max = read_length(where, o.length)
  low.grows = o.widths ~= nil
  return core.data.captcha(o.preset or "lepture", low)
end

--- widths = "auto" or a list of px -> the list: as many as hold all texts with little to fill up
local function read_widths(where, widths, gen)
  if widths == nil or type(widths) == "table" then return widths end
  if widths ~= "auto" then
    check.fail(where, ('widths is "auto" or a list of widths in px, not %s'):format(tostring(widths)))
  end
  local px = {}
  for _, width in ipairs(gen:widths()) do
    for _ = 1, 40 do px[#px + 1] = width end -- texts of all lengths come equally often
  end
  return core.data.choose_widths(px, STEP)
end

local function check_count(where, count)
  if type(count) == "number" and count >= 1 then return end
  check.fail(where, ("count is a number of images from 1 on, got %s"):format(tostring(count)),
    "leave it out for an endless source")
end

--- source(box) makes the object of a source.
function captcha.new(source)
  local data = {}

  --- Captchas generated during training.
  -- opts  preset = "lepture", "lepture-0.7.1" (letters pushed out of shape, dots, an arc), "gd-security" (turned
  --       letters on a grid or on rings), "seed-custom" (upright coloured letters over lines and dots), "mixed"
  --       (lepture or seed-custom, image by image), "gradient-curve" (bold black letters on a gray gradient, crossed by
  --       a curve), "free" (every step set below), "varied" (lines of 4 to 20 letters, each of its own size, colour and
  --       contrast, down to hardly visible ones), "zh-word" (Chinese characters as lepture draws letters, of up to
  --       three fonts) or "icons" (one of 100 symbols, turned, on a noisy gradient: a set of classes); charset =
  --       "0-9A-Z", "一-龥" (by code point), "gb2312-1" (3,755 common Chinese characters), "gb2312-1:500" (500 of them at
  --       even distances) or "@FILE" (the symbols in a UTF-8 file); length = 4, or {4, 8}: between; width, height (px):
  --       without them these four are the preset's; font = font file, its path or the bare name of an installed one
  --       (NAME.ttc:2 is font 2 of a collection, from 0 on), or a list of them, of which each letter has one; channels
  --       = 1 | 3; seed = 42; count = images per epoch (endless); often = "0O", times = 3: these characters of the
  --       charset come three times as often as each other one; widths = "auto" or {160, 240, 320}: longer texts have
  --       wider images, each as wide as the preset makes one character, times its characters (width is that of the
  --       preset's own length), or wider by pitch = px for each further character, as varied is (40); they are filled
  --       up on the right to the smallest of these widths that holds them, and a batch has one of them. auto: at most
  --       6, multiples of 8 px. It needs a count; fixed = false: new images in every epoch; true: the same in every
  --       epoch, none of which a fresh source of that seed ever shows
  --       "free", "varied" and "icons" have, as a number or {lo, hi}, rolled anew for each letter or thing: size (px),
  --       rotate (degrees), warp, spacing (which icons lack), rise (shares of the size), lines, arcs, curves, dots (how
  --       many), line_width, dot_size (px), grain (noise of the background, in levels), smooth (times), contrast
  --       (levels between a letter and the background; 0: as ink says); as a gray level, {lo, hi} or {{r, g, b}, {r, g,
  --       b}}: background, ink, line_ink; backdrop = "plain" | "gradient"; ink_per = "image" | "letter"; line_place =
  --       "over" (the letters) | "under" | "any" (some over, some under), of lines, arcs and curves.
  --       "gd-security" has size, lines, dots, background, ink, line_ink and style = "default", "rect", "circle",
  --       "ellipse", "ec", "box", "blank" or "any". data.style_options() lists them all
  -- errs value: unknown preset, an option out of range or one that the preset does not have; io: no font
  -- eg   data.captcha({charset = "0-9", length = 2, count = 5, fixed = true}):count()  --> 5
  function data.captcha(opts)
    learn()
    local o = check.keys("data.captcha", opts, list(look, {"count", "fixed", "seed", "channels"}))
    if o.count ~= nil then check_count("data.captcha", o.count) end
    local gen = generator("data.captcha", o)
    local made = source(core.data.captcha_source(gen, {
      seed = o.seed, channels = o.channels, count = o.count, fixed = o.fixed,
      widths = read_widths("data.captcha", o.widths, gen),
    }))
    made.generator = {preset = o.preset or "lepture", seed = o.seed or 42, count = o.count, charset = gen:charset(),
      font = table.concat(gen:fonts(), ", "), fixed = o.fixed}
    return made
  end

  --- Writes n captchas as PNG files TEXT_INDEX.png or TEXT/INDEX.png, or as an LMDB database.
  -- opts  dir = folder, made when missing; count; seed; workers = threads; format = "png" | "folders" | "list" |
  --       "lmdb"; folders: one for each text, as data.folder reads classes; list: INDEX.png and labels.jsonl, for any
  --       charset; widths = "auto": longer texts have wider images;
  --       and what data.captcha knows of the style
  -- out   names of the fonts
  -- errs io, value: the charset holds a character that file names cannot carry
  function data.save_captchas(opts)
    learn()
    local o = check.keys("data.save_captchas", opts, list(look, {"dir", "count", "seed", "workers", "format"}))
    check.value("data.save_captchas", {"dir", "string"}, o.dir)
    if o.dir == "" then check.fail("data.save_captchas", "dir is empty; it names a folder") end
    check.value("data.save_captchas", {"count", "number"}, o.count)
    local format = o.format or "png"
    if format ~= "png" and format ~= "folders" and format ~= "list" and format ~= "lmdb" then
      check.fail("data.save_captchas", ('format is "png", "folders", "list" or "lmdb", not %s'):format(tostring(format)))
    end
    local folder = format ~= "lmdb" and o.dir or o.dir:match("^(.+)/[^/]+/*$") -- a database makes its own
    if folder then
      local there, why = core.sys.mkdir(folder)
      if not there then core.error{code = "io", message = why} end
    end
    if o.widths ~= nil and o.widths ~= "auto" then
      check.fail("data.save_captchas", 'widths is "auto": each image is as wide as its text')
    end
    local gen = generator("data.save_captchas", o)
    sync.by_main("writing captchas", function() gen:save(o.dir, o.count, o.seed or 42, o.workers or 0, format) end)
    return gen:fonts()
  end

  return data
end

return captcha
