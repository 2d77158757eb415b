-- data: where batches come from: generated captchas, folders of PNG files, and the loader that serves both.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local captcha = require "data.captcha"
local check = require "data.check"
local Loader = require "data.loader"
local split = require "data.split"

local data = {}

-- ---- sources ----

local Source = {}
Source.__index = Source

local function source(box, bad)
  return setmetatable({box = box, bad = bad or {}, charset = box:charset(), length = box:length()}, Source)
end

--- Number of samples per epoch.
function Source:count() return self.box:count() end
--- Path of sample i (from 0) below the folder; nil for generated images.
function Source:name(i) return self.box:name(i) end
--- Size of the images in px.
function Source:width() return self.box:width() end
function Source:height() return self.box:height() end

local folder_keys = {"label", "charset", "length", "width", "height", "channels", "variable", "resize"}

local default_rule = "^(.-)_"

--- The text of a file by a pattern with one capture.
local function label_of(rule, name)
  local base = name:match("([^/]+)$")
  return (base:match(rule))
end

--- The same, where a broken pattern is the recipe's mistake.
local function try_label(rule, name)
  if type(rule) == "function" then return rule(name:match("([^/]+)$")) end
  local fine, text = pcall(label_of, rule, name)
  if fine then return text end
  check.fail(("data.folder: label = '%s' is no Lua pattern: %s"):format(rule, (text:gsub("^[^:]*:[^:]*:%d+: ", ""))))
end

local function show_rule(rule) return type(rule) == "string" and "'" .. rule .. "'" or "given" end

-- A rule that would read names like this one, said with its text; nil when none of the usual ones does.
local function better_rule(name)
  for _, rule in ipairs{default_rule, "^(%w+)%.", "([^_]+)%.[^.]*$"} do
    local text = label_of(rule, name)
    if text and text ~= "" then return ("'%s' reads %s"):format(rule, text) end
  end
end

--- Raises when the rule fits no file at all: it is the rule that is wrong, not the files.
local function refuse_rule(box, dir, rule)
  local examples, count = {}, box:count()
  local shown = math.min(3, count)
  for i = 1, shown do examples[i] = box:name(math.floor((i - 1) * count / shown)):match("([^/]+)$") end
  local better = better_rule(examples[1])
  core.error{
    code = "value", message = ("data.folder: the label rule %s fits none of the %d files in %s"):format(show_rule(rule), count, dir),
    context = "such as " .. table.concat(examples, ", "),
    hint = "label is a Lua pattern whose capture in the file's name is the text" .. (better and "; for the first, " .. better or ""),
  }
end

--- Gives every file its label. -> list of {name=, message=} of those that have none
local function set_labels(box, dir, rule)
  if type(rule) ~= "function" then check.kind("data.folder", "label", rule, "string") end
  local bad, fits = {}, 0
  for i = 0, box:count() - 1 do
    local text = try_label(rule, box:name(i))
    local good, why
    if type(text) == "string" then
      good, why = box:set_label(i, text)
      fits = fits + 1
    else
      box:set_label(i, "") -- counts as bad for the loader too
      why = ("%s/%s: the label rule %s does not fit"):format(dir, box:name(i), show_rule(rule))
    end
    if not good then bad[#bad + 1] = {name = box:name(i), message = why} end
  end
  if fits == 0 then refuse_rule(box, dir, rule) end
  return bad
end

--- All PNG files below a folder, sorted by path.
-- opts  label = "^(.-)_": Lua pattern whose capture in the file's name is the text, or a function(name) -> text;
--       charset, length: of the texts (none = images without labels); variable = false: texts may be shorter;
--       width, height (px): what every file must have (those of the first file); resize = false: files of another size
--       are errors, true: they are stretched, as predict does; channels = 1 | 3
-- errs io: the folder cannot be read; value: no PNG file, a label rule that fits none of them, unknown option
function data.folder(dir, opts)
  local o = check.options("data.folder", opts, folder_keys)
  check.kind("data.folder", "dir", dir, "string")
  if o.label and not o.charset then check.fail("data.folder: label needs a charset to know the characters") end
  local box = core.data.folder_source(dir, {
    width = o.width, height = o.height, channels = o.channels, charset = o.charset, length = o.length,
    variable = o.variable, resize = o.resize,
  })
  local made = source(box, o.charset and set_labels(box, dir, o.label or default_rule))
  made.dir = dir
  return made
end

local drawn = captcha.new(source)
--- Captchas drawn while training, and a folder of them. See lua/capl/data/captcha.lua.
data.captcha, data.save_captchas = drawn.captcha, drawn.save_captchas

--- A folder in parts for training, choosing and testing. See lua/capl/data/split.lua.
data.split = split.new(source)

--- Serves a source in batches, made ahead by threads. See lua/capl/data/loader.lua.
function data.loader(opts) return Loader.new(opts) end

--- Names of the generator's styles.
data.presets = core.data.presets
--- List of {name, doc, presets = {name, …}}: what only some styles can be asked for.
data.style_options = core.data.style_options
--- One PNG file as a tensor (1,C,H,W) u8.
data.png_read = core.data.png_read
--- Writes a tensor (C,H,W) or (1,C,H,W) u8 as a PNG file.
data.png_write = core.data.png_write

return data
