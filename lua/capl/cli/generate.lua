-- generate.lua: `capl generate --out=DIR`: captcha images as PNG files TEXT_INDEX.png or TEXT/INDEX.png, or as an LMDB
-- database.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local data = require "data"
local options = require "cli.options"
local scenes = require "cli.generate_scenes"

local spec = {
  {name = "out", type = "text", value = "DIR", doc = "output folder; created if missing; for pm25 a CSV file"},
  {name = "format", type = "text", value = "FORMAT", open = true, choices = {"png", "folders", "list", "lmdb"},
    default = "png", doc = "png: files named by their text; folders: one for each text, for classes; "
      .. "list: numbers, and labels.jsonl; lmdb: a database"},
  {name = "preset", type = "text", value = "STYLE", default = "lepture",
  doc = "style of the images, see docs/captchas.md"},
  {name = "n", type = "number", from = 1, to = 2 ^ 32 - 1, default = 1000, doc = "images"},
  {name = "seed", type = "number", from = 0, to = 2 ^ 53, default = 1, doc = "the same seed gives the same images"},
  {name = "charset", type = "text", value = "CHARS",
  doc = "charset, ranges allowed; gb2312-1 or gb2312-1:N: common Chinese characters; @FILE: the symbols in a UTF-8 file; "
    .. "default: that of the preset"},
  {name = "length", type = "text", value = "N..M", doc = "text length, 6 or 4..8; default: that of the preset"},
  {name = "width", type = "number",
  doc = "px; default: that of the preset, proportional to the length if lengths vary"},
  {name = "pitch", type = "number", from = 1, to = 1024,
  doc = "px by which each further character widens the image; default: that of the preset"},
  {name = "height", type = "number", doc = "px; default: that of the preset"},
  {name = "font", type = "text", value = "FILE",
  doc = "font files, separated by commas; default: those of the preset"},
  {name = "days", type = "number", doc = "number of days, for the preset pm25 (3653)"},
  {name = "workers", type = "number", from = 0, to = 256, default = core.sys.workers_most(),
  default_doc = "one per processor",
    doc = "threads"},
}

-- What only some presets have.
local styles = data.style_options()
for _, option in ipairs(styles) do
  spec[#spec + 1] = {name = option.name, type = "text", value = "VALUE",
    doc = ("%s; for %s"):format(option.doc, table.concat(option.presets, ", "))}
end

--- "6" -> {6, 6}; "4..8" -> {4, 8}
local function read_pair(text, read)
  local lo, hi = text:match("^(.-)%.%.(.+)$")
  if not lo then lo, hi = text:match("^(%d+)%-(%d+)$") end
  lo, hi = read(lo or text), read(hi or text)
  return lo and hi and {lo, hi}
end

local function read_length(text)
  return read_pair(text, tonumber) or
    core.error{code = "value", message =
    ("--length is a number of characters or two, as in 4..8, not '%s'"):format(text)}
end

--- "90" -> {90, 90, 90}; "90,0,255" -> {90, 0, 255}
local function read_colour(text)
  local r, g, b = text:match("^(%d+),(%d+),(%d+)$")
  if r then return {tonumber(r), tonumber(g), tonumber(b)} end
  local gray = tonumber(text)
  return gray and {gray, gray, gray}
end

local function read_style(option, text)
  if option.kind == "word" then return text end
  if option.kind == "colour" then
    return read_pair(text, read_colour) or core.error{code = "value",
      message = ("--%s is a gray level, a colour as in 90,0,255, or two of them as in 0..90, not '%s'"):format(option.name, text)}
  end
  return read_pair(text, tonumber) or
    core.error{code = "value", message = ("--%s is a number or two, as in 2..8, not '%s'"):format(option.name, text)}
end

local function read_fonts(text)
  local fonts = {}
  for name in text:gmatch("[^,]+") do fonts[#fonts + 1] = name end
  return fonts
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "generate"})
  if words[1] then core.error{code = "value", message = ("'%s' is no option; write --key=value"):format(words[1])} end
  if not o.out then
    core.error{code = "value", message = "capl generate needs --out=…: folder for the images; made when it is missing"}
  end
  if scenes.run(o) then return end
  local wanted = {
    dir = o.out, count = o.n, seed = o.seed, preset = o.preset, charset = o.charset,
    length = o.length and read_length(o.length), width = o.width, pitch = o.pitch, height = o.height, font = o.font
    and read_fonts(o.font), workers = o.workers, format = o.format,
  }
  for _, option in ipairs(styles) do
    if o[option.name] then wanted[option.name] = read_style(option, o[option.name]) end
  end
  local length = wanted.length
  local varies = not length or length[1] ~= length[2]
  if varies and (not o.width or o.pitch) then wanted.widths = "auto" end
  local started = core.clock()
  local fonts = data.save_captchas(wanted)
  local seconds = core.clock() - started
  core.sys.out(("%d images (%s, seed %d%s) in %s, %.0f per second\n"):format(
    o.n, o.preset, o.seed, fonts[2] and ", fonts " .. table.concat(fonts, " ") or "", o.out, o.n / seconds))
end

return {main = main, options = spec, examples = {
  {"capl generate --out=captchas --n=500 --preset=mixed --length=4..6", "writes 500 files such as A1B2_17.png"},
  {"capl generate --out=icons --preset=icons --format=folders --n=20000", "a folder for each of 100 classes"},
}}
