-- manifest.lua: manifest.json beside generated captchas: what they were drawn from, so that it can be done again.
-- SPDX-License-Identifier: Apache-2.0
local core = ...


local manifest = {}

local function path_of(dir) return dir .. "/manifest.json" end

local function refuse(code, message, hint)
  core.error{code = code, message = message, hint = hint}
end

-- ---- writing ----

local function hash_file(path)
  local text, why = core.sys.read(path)
  if not text then refuse("io", why) end
  return core.sha256(text)
end

local function fonts_of(gen)
  local fonts = {}
  for i, path in ipairs(gen:fonts()) do fonts[i] = {file = path, sha256 = hash_file(path)} end
  return fonts
end

--- {5, 5} -> 5
local function one_length(length)
  if type(length) == "table" and length[1] == length[2] then return length[1] end
  return length
end

--- Beside images that gen has written.
-- facts = {format, images, seed, options = those of the generator, workers}
function manifest.write(dir, gen, facts)
  local options = {}
  for name, value in pairs(facts.options) do options[name] = value end
  options.preset = options.preset or "lepture"
  options.charset, options.height = gen:charset(), gen:height()
  if not options.widths then options.width = gen:width() end
  options.length = one_length(options.length) or gen:length()
  local text = core.json_encode({
    capl = core.version(), format = facts.format, images = facts.images, seed = facts.seed, options = options,
    fonts = fonts_of(gen), freetype = core.data.freetype_version(),
    sha256 = gen:compare(facts.images, facts.seed, facts.workers),
  }, true)
  local done, why = core.sys.write(path_of(dir), text .. "\n")
  if not done then refuse("io", why) end
end

-- ---- reading ----

-- What it must hold, and the type of each.
local parts = {
  {"capl", "string"}, {"format", "string"}, {"images", "number"}, {"seed", "number"}, {"options", "table"},
  {"fonts", "table"}, {"freetype", "string"}, {"sha256", "string"},
}

--- manifest.json of a folder, with everything in it that compare needs.
function manifest.read(dir)
  local path = path_of(dir)
  local text, why = core.sys.read(path)
  if not text then refuse("io", why, "capl generate writes it beside the images") end
  local fine, kept = pcall(core.json_decode, text)
  if not fine or type(kept) ~= "table" then refuse("format", path .. " is no JSON object") end
  for _, part in ipairs(parts) do
    local key, kind = part[1], part[2]
    if kept[key] == nil then refuse("format", ("%s: %s is missing"):format(path, key)) end
    if type(kept[key]) ~= kind then refuse("format", ("%s: %s is a %s, not a %s"):format(path, key, kind, type(kept[key]))) end
  end
  if kept.format ~= "png" and kept.format ~= "lmdb" then
    refuse("format", ("%s: format is png or lmdb, not %s"):format(path, kept.format))
  end
  return kept
end

-- ---- comparing ----

local function check_fonts(path, kept, gen)
  local here = fonts_of(gen)
  for i, font in ipairs(kept.fonts) do
    local now = here[i] or {file = "nothing", sha256 = "none"}
    if type(font) ~= "table" or font.sha256 ~= now.sha256 then
      font = type(font) == "table" and font or {}
      refuse("value", ("the images of %s were drawn with the font %s of SHA-256 %s; here it is %s of %s"):format(
        path, tostring(font.file), tostring(font.sha256), now.file, now.sha256),
        "CAPL_FONT=FILE names the font of the lepture presets")
    end
  end
end

local function open(dir, kept, gen)
  local files = require "data"
  local length = kept.options.length
  local o = {charset = gen:charset(), length = gen:length(), variable = type(length) == "table", channels = 3}
  if kept.options.widths then o.height, o.widths = gen:height(), gen:widths() end
  return files[kept.format == "lmdb" and "lmdb" or "folder"](dir, o)
end

--- Draws them again and compares them one by one.
function manifest.compare(dir, kept, gen, workers)
  local path = path_of(dir)
  check_fonts(path, kept, gen)
  local here = core.data.freetype_version()
  local fine, found = pcall(gen.compare, gen, kept.images, kept.seed, workers, open(dir, kept, gen).box)
  if not fine then
    local hint = here ~= kept.freetype and ("they were drawn with FreeType %s, here is %s, and its letters may differ"):format(
      kept.freetype, here) or nil
    local message = type(found) == "table" and found.message or tostring(found)
    refuse(type(found) == "table" and found.code or "value", ("%s: %s"):format(dir, message), hint)
  end
  if found ~= kept.sha256 then
    refuse("value", ("%s: sha256 is %s, but the images there and those drawn again have %s"):format(path, kept.sha256, found),
      "the manifest was changed, or is of other images")
  end
  return kept
end

return manifest
