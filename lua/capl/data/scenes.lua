-- scenes.lua: generated pictures beyond texts: slider captchas with their places, drawn faces with a mask.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local scenes = {}

local set_keys = {"seed", "count", "fixed", "channels"}

local function keys(more)
  local all = {}
  for _, key in ipairs(set_keys) do all[#all + 1] = key end
  for _, key in ipairs(more) do all[#all + 1] = key end
  return all
end

local function check_count(where, count)
  if count == nil or type(count) == "number" and count >= 1 then return end
  check.fail(where, ("count is a number of pictures from 1 on, got %s"):format(tostring(count)),
    "leave it out for an endless source")
end

--- {first, last} of whole numbers, or both of one number.
local function range(where, key, value)
  if value == nil then return end
  local lo, hi = value, value
  if type(value) == "table" then lo, hi = value[1], value[2] end
  if type(lo) == "number" and type(hi) == "number" and lo % 1 == 0 and hi % 1 == 0 and lo >= 0 and lo <= hi then
    return lo, hi
  end
  check.fail(where, ("%s is {first, last}, whole numbers from 0 on"):format(key))
end

local slider_keys = keys{"width", "height", "sizes", "backgrounds", "piece", "shapes", "style"}

local function check_shapes(shapes)
  if shapes == nil then return end
  check.value("data.slider", {"shapes", "table"}, shapes)
  if #shapes == 0 then check.fail("data.slider", "shapes is an empty list; leave it out for all of them") end
  for _, name in ipairs(shapes) do check.one_of("data.slider", "shape", name, core.data.slider_shapes) end
end

--- make(box) makes a source of its box.
function scenes.new(make)
  local made = {}

  --- Slider captchas generated during training: an image with a gap, and at its left the piece that was cut from it.
  -- opts  width = 320, height = 160 (px, 240..2048 by 120..2048); sizes = "one" | "mixed": mixed pictures are 280..480
  --       by 140..240 px as on web sites, each enlarged into width = 512, height = 256 with white around it;
  --       backgrounds = {0, 1999}: which of the seed's pictures lie behind, so that {0, 1799} and {1800, 1999} make a
  --       training and a validation set with no background in common; piece = {46, 64}: its size in px, even numbers;
  --       style = "shaded" | "outline": gaps bright or merely outlined, other shapes, textures as backgrounds;
  --       shapes = list of data.slider_shapes (those of the style); channels = 3 | 1; seed = 42; count = pictures per
  --       epoch (endless); fixed = false: new pictures in every epoch; true: the same in every epoch, none of which a
  --       fresh source shows
  -- out   source with the fields points (4,3): x, y in px and 1 if it is there, of gap, piece and two decoys, each the
  --       centre of mass; boxes (4,5): left, top, right, bottom, class 0 gap | 1 piece | 2 decoy | -1 none; angle (1):
  --       degrees by which the gap was drawn turned, positive = counter-clockwise (no augmentation changes it); facts
  --       (4): background, shape (0 is the first of data.slider_shapes), size in px, confusions (1 + 8: the first and
  --       the fourth of data.slider_confusions)
  -- errs  value: unknown option, shape or style, size out of range
  function made.slider(opts)
    local o = check.keys("data.slider", opts, slider_keys)
    check_count("data.slider", o.count)
    check_shapes(o.shapes)
    if o.style ~= nil then check.one_of("data.slider", "style", o.style, core.data.slider_styles) end
    if o.sizes ~= nil and o.sizes ~= "one" and o.sizes ~= "mixed" then
      check.fail("data.slider", ('sizes is "one" or "mixed", not %s'):format(tostring(o.sizes)))
    end
    local first, last = range("data.slider", "backgrounds", o.backgrounds)
    local lo, hi = range("data.slider", "piece", o.piece)
    return make(core.data.slider_source{
      seed = o.seed, count = o.count, fixed = o.fixed, channels = o.channels, width = o.width, height = o.height,
      mixed = o.sizes == "mixed", background_first = first, background_count = first and last - first + 1, size_lo = lo,
      size_hi = hi, shapes = o.shapes, style = o.style,
    })
  end

  --- Faces with exact pixel masks, generated during training. They try a pipeline out; what a network scores on
  --- them says nothing about photographs.
  -- opts  size = 512 (px of both sides, 64..1024); style = "painted" | "drawing": line art, flat and bright colours and
  --       large eyes; channels = 3 | 1; seed = 42; count = pictures per epoch (endless); fixed = false: new faces in
  --       every epoch; true: the same in every epoch, none of which a fresh source shows
  -- out   source with the field mask (H,W): 0 is the first of data.face_classes; left and right are the picture's.
  --       swaps = data.face_swaps: classes that change places when a picture is flipped
  -- errs  value: unknown option or style, size out of range
  function made.faces(opts)
    local o = check.keys("data.faces", opts, keys{"size", "style"})
    check_count("data.faces", o.count)
    if o.style ~= nil then check.one_of("data.faces", "style", o.style, core.data.face_styles) end
    local source = make(core.data.faces_source{seed = o.seed, count = o.count, fixed = o.fixed, channels = o.channels,
      size = o.size, style = o.style})
    source.swaps, source.classes = core.data.face_swaps, core.data.face_classes
    return source
  end

  --- Writes the first pictures of a generated source: INDEX.png, INDEX_mask.png, labels.jsonl, or an LMDB database.
  -- opts  source: of data.slider or data.faces; dir = folder, made when missing; count; workers = threads;
  --       format = "png" | "lmdb"
  -- errs  io; value
  function made.save_scenes(opts)
    local o = check.keys("data.save_scenes", opts, {"source", "dir", "count", "workers", "format"})
    if o.format ~= nil then check.one_of("data.save_scenes", "format", o.format, {"png", "lmdb"}) end
    check.value("data.save_scenes", {"dir", "string"}, o.dir)
    check.value("data.save_scenes", {"count", "number"}, o.count)
    if o.dir == "" then check.fail("data.save_scenes", "dir is empty; it names a folder") end
    if type(o.source) ~= "table" or not o.source.box then
      core.fail("data.save_scenes needs source = data.slider{…} or data.faces{…}")
    end
    local database = o.format == "lmdb"
    local folder = not database and o.dir or o.dir:match("^(.+)/[^/]+/*$") -- a database makes its own
    local there, why = true, nil
    if folder then there, why = core.sys.mkdir(folder) end
    if not there then core.error{code = "io", message = why} end
    core.data.scene_save(o.source.box, o.dir, o.count, o.workers or 0, database)
  end

  return made
end

return scenes
