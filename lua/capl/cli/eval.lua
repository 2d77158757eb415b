-- eval.lua: `capl eval MODEL --data=SOURCE`: a trained model against labelled images: a folder, a list, a database.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local data = require "data"
local guess = require "data.guess"
local decoding = require "cli.decoding"
local fields = require "fields"
local files = require "cli.files"
local options = require "cli.options"
local evaluation = require "train.evaluation"

local spec = decoding.add_to {
  {name = "data", type = "text", value = "SOURCE", required = true,
    doc = "folder of PNG and JPEG files, with subfolders; a list or an LMDB database"},
  {name = "label", type = "text", value = "PATTERN",
    doc = "folders: Lua pattern whose capture in the file name is the label, or folder, auto (texts auto, classes folder)"},
  {name = "errors", type = "text", value = "FILE",
  doc = "output file for wrong predictions: path, label, text, confidence"},
  {name = "out", type = "text", value = "DIR", doc = "folder for evaluation.json, samples.png and confusion.png"},
  decoding.device, decoding.precision,
  {name = "json", type = "flag", default = false, doc = "prints one JSON object"},
}

-- ---- truth ----

-- Up to three files without a usable label, and why.
local function bad_lines(bad)
  local lines = {}
  for i = 1, math.min(3, #bad) do
    local named = bad[i].message:find(bad[i].name, 1, true)
    lines[i] = named and bad[i].message or bad[i].name .. ": " .. bad[i].message
  end
  return lines
end

local function hint_of(source, info, kind)
  if not source.by_name or source.label == "folder" then return kind.expects(info) end
  return "--label=PATTERN is a Lua pattern with one capture; names are read as " ..
    guess.name(source.label or "^(.-)_") .. " here"
end

local function refuse_bad_labels(source, info, kind)
  if #source.bad == 0 then return end
  local lines = bad_lines(source.bad)
  core.error{code = "value", message = ("%d of %d files have no usable label; the first: %s"):format(
    #source.bad, source:count(), table.remove(lines, 1)), context = #lines > 0 and table.concat(lines, "\n") or nil,
    hint = hint_of(source, info, kind)}
end

--- The labelled images. errs value: files without a usable label, the first ones named
local function labelled(o, info, kind)
  if not kind.source then
    core.fail(("capl eval reads texts and classes; this model gives %s"):format(kind.name),
      "train.evaluate in a recipe counts how far they are off")
  end
  local opts = kind.source(info, o)
  opts.widths, opts.width, opts.height = info.widths, not info.widths and info.width or nil, info.height
  opts.channels = info.channels
  local source = data.open(o.data, opts)
  if o.label and not source.by_name then
    core.error{code = "value", message = "--label is a rule for folders; " .. o.data .. " has its own labels"}
  end
  refuse_bad_labels(source, info, kind)
  return source
end

--- What the list of errors calls an image: the path of a folder's, else its name in the list or the database.
local function path_of(source, i)
  return (source.by_name and source.dir:gsub("/+$", "") .. "/" or "") .. source:name(i)
end

-- ---- reading ----

--- Reads every file; -> meter, list of "path truth text confidence" lines
local function read_all(model, source, sizes, kind)
  local opts = kind.counted(model:info())
  opts.loader = {source = source}
  local meter, wrong, done = require("meter." .. kind.meter).new(opts), {}, 0
  local batches = model:files(source.box)
  for readings in function() return batches:next() end do
    for i, reading in ipairs(readings) do
      local text = source:text(done + i - 1)
      if reading.error then core.error{code = "format", message = reading.error} end
      files.count_size(sizes, reading)
      kind.count(meter, reading, text, done + i - 1)
      if reading.text ~= text then
        wrong[#wrong + 1] = ("%s\t%s\t%s\t%.4f\n"):format(path_of(source, done + i - 1), text, reading.text,
          reading.confidence)
      end
    end
    done = done + #readings
  end
  return meter, wrong
end

-- ---- telling ----

local function print_lines(path, o, meter, r, source)
  local out = core.sys.out
  if source.names then out(("%s: names are %s\n"):format(o.data, source.names)) end
  out(("%s on %s: %s\n"):format(path, o.data, meter:line()))
  for i, line in ipairs(meter:lines()) do
    if i > 1 then out(line[1] .. ": " .. line[2] .. "\n") end
  end
  out(("%.0f images per second\n"):format(r.images_per_s))
end

local function write_errors(path, wrong)
  local written, why = core.sys.write(path, table.concat(wrong))
  if not written then core.error{code = "io", message = why} end
end

local function make_folder(path)
  if path == "" then core.error{code = "value", message = "--out is empty; it names a folder"} end
  local there, why = core.sys.mkdir(path)
  if not there then core.error{code = "io", message = why} end
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "eval"})
  local path = words[1]
  if not path or words[2] then
    core.error{code = "value", message = "capl eval takes one model and options; usage: " .. job.usage}
  end
  local model = core.model_open(path, {device = o.device, precision = o.precision})
  decoding.set(model, o)
  local sizes = files.sizes(model:info())
  local kind = fields.of_model(model:info())
  local source = labelled(o, model:info(), kind)
  local started = core.clock()
  local meter, wrong = read_all(model, source, sizes, kind)
  meter.replaced = 0
  if o.out then make_folder(o.out) end
  local r = evaluation.of(meter, o.out)
  r.seconds, r.model, r.data, r.resized = core.clock() - started, path, o.data, sizes.count
  r.images_per_s = r.n / r.seconds
  if o.out then evaluation.write(meter, o.out, path, r) end
  if o.errors then write_errors(o.errors, wrong) end
  files.print_sizes(sizes)
  if o.json then core.sys.out(core.json_encode(r, true) .. "\n") else print_lines(path, o, meter, r, source) end
end

return {main = main, options = spec, examples = {
  {"capl eval runs/mine/best.capl --data=captchas --errors=wrong.tsv",
  "prints the accuracy, and lists wrong predictions"},
}}
