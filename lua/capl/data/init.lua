-- data: where batches come from: generated captchas, image files, and the loader that serves both.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local captcha = require "data.captcha"
local check = require "check"
local explore = require "data.explore"
local files = require "data.files"
local Loader = require "data.loader"
local pm25 = require "data.pm25"
local scenes = require "data.scenes"
local series = require "data.series"
local split = require "data.split"
local symbols = require "fields.symbols"
local tensors = require "data.tensors"
local warnings = require "data.warnings"

local data = {}

-- ---- sources ----

local Source = {}
Source.__index = Source

-- n_classes: of its targets; those of texts are the characters of the charset. class_names: where they are classes;
-- several: what separates the names of a label, where a sample may have several.
local function source(box, bad)
  local charset, names = box:charset(), box:class_names()
  return setmetatable({box = box, bad = bad or {}, charset = charset, class_names = names,
    n_classes = names and #names or symbols.count(charset), several = names and box:several(),
    length = box:length(), length_min = box:length_min(), widths = box:widths()}, Source)
end

--- Number of samples per epoch.
-- eg   data.captcha({charset = "0-9", count = 5}):count()  --> 5
function Source:count() return self.box:count() end
--- Path of sample i (from 0) below the folder, as its list has it, or its record's name; nil for generated images.
function Source:name(i) return self.box:name(i) end
--- Label of sample i as it was given; nil without one.
function Source:text(i) return self.box:text(i) end
--- Raises, naming the first file, when a text needs more time steps for CTC than a net gives: a number, or
-- function(width of
--- the batch in px) -> number. Generated texts are not looked at.
function Source:check_steps(steps) warnings.check_steps(self, steps) end
--- source:width(), source:height(): size of the images in px, of the widest where they differ.
-- eg   data.captcha({count = 1}):width()  --> 160
function Source:width() return self.box:width() end
function Source:height() return self.box:height() end

local of_files = files.new(source)
--- Images in files: folders, lists and databases. See lua/capl/data/files.lua.
data.folder, data.list, data.lmdb, data.open = of_files.folder, of_files.list, of_files.lmdb, of_files.open

--- What such a set holds, for recipes that are pointed at any. See lua/capl/data/explore.lua.
data.explore = explore(of_files.open)

local drawn = captcha.new(source)
--- Captchas generated during training, and folders of captchas. See lua/capl/data/captcha.lua.
data.captcha, data.save_captchas = drawn.captcha, drawn.save_captchas

local pictures = scenes.new(source)
--- Slider captchas and faces, with what is in them. See lua/capl/data/scenes.lua.
data.slider, data.faces, data.save_scenes = pictures.slider, pictures.faces, pictures.save_scenes
--- Names of what they draw: shapes of slider gaps, and what they are easily taken for; classes of faces, and the pairs
-- of these that change places in a mirror.
data.slider_shapes, data.slider_confusions = core.data.slider_shapes, core.data.slider_confusions
data.face_classes, data.face_swaps = core.data.face_classes, core.data.face_swaps
--- Names of the styles that sliders and faces are drawn in; the first is the default.
data.slider_styles, data.face_styles = core.data.slider_styles, core.data.face_styles

--- Tensors in memory. See lua/capl/data/tensors.lua.
data.tensors = tensors.new(source)
--- Time series: a synthetic one, its features, CSV files. See lua/capl/data/pm25.lua.
data.pm25, data.pm25_features, data.read_csv = pm25.make, pm25.features, pm25.read_csv
--- A table ordered by time as windows. See lua/capl/data/series.lua.
data.series = series.new(source)

--- A folder in parts for training, choosing and testing. See lua/capl/data/split.lua.
data.split = split.new(source)

--- Serves a source in batches, made ahead by threads. See lua/capl/data/loader.lua.
function data.loader(opts) return Loader.new(opts) end

--- data.presets(): list of the names of the generator's styles, for data.captcha{preset = …}.
-- eg   data.presets()[1]  --> lepture
data.presets = core.data.presets
--- data.style_options(): list of {name, kind, doc, presets = {name, …}}: what only some styles can be asked for.
data.style_options = core.data.style_options
--- What a JSON file holds: tables, texts, numbers and booleans; null is nil, also in lists.
-- in   path
-- errs io: no such file; format: no JSON, with line and column
-- eg   local classes = data.read_json("classes.json")
function data.read_json(path)
  check.value("data.read_json", {"path", "string"}, path)
  local text, why = core.sys.read(path)
  if not text then core.error{code = "io", message = why} end
  local fine, value = pcall(core.json_decode, text)
  if fine then return value end
  core.error{code = "format", message = ("%s: %s"):format(path, type(value) == "table" and value.message
    or tostring(value))}
end

--- data.image_read(path[, channels]): one PNG or JPEG file as a tensor (1,C,H,W) u8.
-- errs io: no such file; format: no image, or a broken one
data.image_read = core.data.image_read
--- data.png_read(path[, channels]): one PNG file as a tensor (1,C,H,W) u8.
-- errs io: no such file; format: no PNG, or a broken one
data.png_read = core.data.png_read
--- data.png_write(path, image): writes a tensor (C,H,W) or (1,C,H,W) u8 as a PNG file.
-- errs dtype, shape: not such a tensor; io: it cannot be written
data.png_write = core.data.png_write

return require("missing").watch("data", data)
