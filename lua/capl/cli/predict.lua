-- predict.lua: `capl predict MODEL IMAGE…`: what a trained model says of images, or of the rows of CSV files.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local answer = require "cli.answer"
local decoding = require "cli.decoding"
local fields = require "fields"
local files = require "cli.files"
local models = require "cli.models"
local options = require "cli.options"
local pictures = require "cli.pictures"
local rows = require "cli.rows"

local spec = decoding.add_to {
  {name = "json", type = "flag", default = false,
    doc = "prints one JSON object per line: path, text, confidence, chars = confidence per character, or for classes " ..
      "path, class, confidence; points, mask, numbers … by name; or path, error"},
  {name = "top", type = "number", from = 1, to = 16,
    doc = "classes: how many of the most probable ones to print, each with its probability (1)"},
  {name = "out", type = "text", value = "DIR",
    doc = "folder for the masks and images that the model gives, NAME.png; of masks the class of each pixel"},
  {name = "overlay", type = "text", value = "DIR",
    doc = "folder for the images with points, boxes and masks drawn over them, NAME.png"},
  decoding.device,
  decoding.precision,
  {name = "workers", type = "number", default = -1, doc = "decoding threads; -1 = one per processor"},
}

local escapes = {["\\"] = "\\\\", ["\t"] = "\\t", ["\n"] = "\\n", ["\r"] = "\\r"}

--- A field of a line: a file's name may hold what ends fields and lines, or what a terminal obeys.
local function field(text)
  return (text:gsub("[%c\\]", function(c) return escapes[c] or ("\\x%02x"):format(c:byte()) end))
end

local function as_text(path, reading, o)
  if reading.error then return "" end
  local columns = {field(path)}
  for i, d in ipairs(o.outputs) do
    for _, value in ipairs(d.kind.columns(reading.outputs[i], o, d)) do columns[#columns + 1] = field(value) end
  end
  return table.concat(columns, "\t") .. "\n"
end

local function as_json(path, reading, o)
  local line = answer.of(reading, o)
  line.path = path
  return core.json_encode(line) .. "\n"
end

-- Prints a line for each reading; bad ones go to standard error. -> number of bad ones
local function print_readings(readings, name_of, o)
  local lines, bad = {}, 0
  for i, reading in ipairs(readings) do
    lines[i] = (o.json and as_json or as_text)(name_of(i), reading, o)
    if reading.error then
      bad = bad + 1
      core.sys.err(reading.error .. "\n")
    end
  end
  core.sys.out(table.concat(lines))
  return bad
end

-- -> number of images, of bad ones
local function read_images(model, words, o, usage)
  local paths = files.of(words, usage)
  local sizes, batches, done, bad = files.sizes(o.info), model:files(paths, o.workers), 0, 0
  local write = pictures.new(o, paths)
  for readings in function() return batches:next() end do
    for i, reading in ipairs(readings) do
      files.count_size(sizes, reading)
      if not reading.error then write(done + i, reading) end
    end
    bad = bad + print_readings(readings, function(i) return paths[done + i] end, o)
    done = done + #readings
  end
  files.print_sizes(sizes)
  return done, bad
end

local function read_rows(model, words, o)
  for name, readings in rows.readings(model, words, o.info, o.inputs) do print_readings(readings, name, o) end
end

-- Options that no output of this model knows.
local function check_options(o)
  local function any(has)
    for _, d in ipairs(o.outputs) do
      if has(d.kind) then return true end
    end
    return false
  end
  local given = o.outputs[1].kind.name
  if o.top and not any(function(kind) return kind.is_ranked end) then
    core.fail("--top is for models that give classes; this one gives " .. given)
  end
  if o.out and not any(function(kind) return kind.picture end) then
    core.fail("--out is for models that give masks or images; this one gives " .. given)
  end
  if o.overlay and not any(function(kind) return kind.draw end) then
    core.fail("--overlay is for models that give points, boxes or masks; this one gives " .. given)
  end
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "predict"})
  local path = table.remove(words, 1)
  if not path then core.error{code = "value", message = "no model is named; usage: " .. job.usage} end
  if #words == 0 then files.of(words, job.usage) end
  local model = core.model_open(models.path(path), {device = o.device, precision = o.precision})
  decoding.set(model, o)
  o.info = model:info()
  local meta = core.json_decode(o.info.meta)
  o.outputs, o.inputs = fields.outputs_of(meta), meta.inputs
  check_options(o)
  if o.info.width == 0 then return read_rows(model, words, o) end
  local n, bad = read_images(model, words, o, job.usage)
  if bad == 0 then return 0 end
  if n > 1 then core.sys.err(("%d of %d images could not be read\n"):format(bad, n)) end
  return 1
end

return {main = main, options = spec, examples = {
  {"capl predict runs/mine/best.capl images/*.png",
  "prints one line per image: path, text, confidence, separated by tabs"},
  {"capl predict captcha images",
  "reads with the installed model captcha, share/capl/models/captcha.capl"},
  {"find . -name '*.png' | capl predict runs/mine/best.capl - --json",
  "reads a list from standard input and prints one object per image"},
  {"capl predict runs/slider/best.capl images --overlay=drawn",
  "draws the points that the model gives over each image"},
}}
