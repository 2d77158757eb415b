-- eval.lua: `capl eval MODEL --data=SOURCE`: a trained model against labelled images: a folder, a list, a database.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local data = require "data"
local data_fields = require "cli.data_fields"
local guess = require "data.guess"
local decoding = require "cli.decoding"
local fields = require "fields"
local files = require "cli.files"
local models = require "cli.models"
local options = require "cli.options"
local rows = require "cli.rows"
local evaluation = require "train.evaluation"

local spec = decoding.add_to {
  {name = "data", type = "text", value = "SOURCE", required = true,
    doc = "folder of PNG and JPEG files, with subfolders; a list or an LMDB database; CSV rows for models of series"},
  {name = "label", type = "text", value = "PATTERN",
    doc = "folders: Lua pattern whose capture in the file name is the label, or folder, auto (texts auto, classes folder)"},
  {name = "several", type = "text", value = "MARK", doc = "several classes of an image: what separates their names (|)"},
  {name = "output", type = "text", value = "NAME", doc = "models with several outputs: the one to evaluate"},
  {name = "errors", type = "text", value = "FILE",
  doc = "output file for wrong predictions: path, label, text, confidence"},
  {name = "out", type = "text", value = "DIR", doc = "folder for evaluation.json, samples.png and confusion.png"},
  decoding.device, decoding.precision,
  {name = "json", type = "flag", default = false, doc = "prints one JSON object"},
}

-- Where each kind's truth is, behind --several.
local truths, place = {}, 3
data_fields.each(false, function(option)
  place, truths[option.name] = place + 1, option
  table.insert(spec, place, {name = option.name, type = "text", value = option.value,
    doc = ("%s (%s)"):format(option.doc, option.absent)})
end)

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

local function hint_of(source, d)
  if not source.by_name or source.label == "folder" then return d.kind.expects(d) end
  return "--label=PATTERN is a Lua pattern with one capture; names are read as " ..
    guess.name(source.label or "^(.-)_") .. " here"
end

local function refuse_bad_labels(source, d)
  if #source.bad == 0 then return end
  local lines = bad_lines(source.bad)
  core.error{code = "value", message = ("%d of %d files have no usable label; the first: %s"):format(
    #source.bad, source:count(), table.remove(lines, 1)), context = #lines > 0 and table.concat(lines, "\n") or nil,
    hint = hint_of(source, d)}
end

-- How the model's images come to its size: an option of sources.
local function resize_of(info)
  local meta = core.json_decode(info.meta)
  for _, input in ipairs(meta.inputs or {meta}) do
    if type(input.resize) == "table" then return input.resize end
  end
  return not info.widths
end

-- Options of the images, as the model sees them.
local function sized(opts, info)
  opts.widths, opts.width, opts.height = info.widths, not info.widths and info.width or nil, info.height
  opts.channels, opts.resize = info.channels, resize_of(info)
  return opts
end

--- The labelled images. errs value: files without a usable label, the first ones named
local function labelled(o, info, d)
  local source = data.open(o.data, sized(d.kind.source(d, o), info))
  if o.label and not source.by_name then
    core.error{code = "value", message = "--label is a rule for folders; " .. o.data .. " has its own labels"}
  end
  refuse_bad_labels(source, d)
  return source
end

--- What the list of errors calls an image: the path of a folder's, else its name in the list or the database.
local function path_of(source, i)
  return (source.by_name and source.dir:gsub("/+$", "") .. "/" or "") .. source:name(i)
end

-- ---- reading ----

local function new_meter(d, loader)
  local opts = d.kind.counted(d)
  opts.loader = loader
  return require("meter." .. d.kind.meter).new(opts)
end

--- Reads every file; -> meter, list of "path truth text confidence" lines
local function read_labels(model, o, sizes, d)
  local source = labelled(o, o.info, d)
  local meter, wrong, done = new_meter(d, {source = source}), {}, 0
  local batches = model:files(source.box)
  for readings in function() return batches:next() end do
    for i, reading in ipairs(readings) do
      local text = source:text(done + i - 1)
      if reading.error then core.error{code = "format", message = reading.error} end
      files.count_size(sizes, reading)
      local out = reading.outputs[d.place]
      if not d.kind.count(meter, out, text, done + i - 1, source.several) then
        wrong[#wrong + 1] = ("%s\t%s\t%s\t%.4f\n"):format(path_of(source, done + i - 1), text, out.text,
          out.confidence)
      end
    end
    done = done + #readings
  end
  return meter, source, wrong
end

-- ---- fields ----

local BATCH = 16

-- Options of data.open for the truth of a kind that is measured by a field of the samples.
local function fields_of(o, d)
  local given = {columns = o.data:find("%.[ct]sv$") ~= nil,
    in_list = core.sys.kind(o.data) == "file" and not o.data:find("%.mdb$")}
  for name, option in pairs(truths) do given[name] = option.list and data_fields.list(o[name]) or o[name] end
  return d.kind.truth(d, given)
end

-- What the model says of samples: of each the output to evaluate, decoded as its file says.
local function outputs_of(model, source, ids, d)
  local images, outs = {}, {}
  for i, id in ipairs(ids) do images[i] = source.box:read(1, id) end
  for i, reading in ipairs(model:read(core.op.concat(images, {dim = 1}))) do
    if reading.error then core.error{code = "format", message = reading.error} end
    outs[i] = reading.outputs[d.place]
  end
  return outs
end

-- The fields of samples, as a batch has them.
local function truth_of(source, ids)
  local lists, batch = {}, {}
  for _, id in ipairs(ids) do
    for name, x in pairs((select(3, source.box:read(1, id)))) do
      lists[name] = lists[name] or {dim = 1}
      table.insert(lists[name], x)
    end
  end
  for name, list in pairs(lists) do batch[name] = core.op.concat(unpack(list)) end
  return batch
end

--- Images with fields. -> meter, source
local function read_fields(model, o, d)
  if #o.info.inputs > 1 then core.fail("capl eval reads images or rows; this model takes both") end
  local source = data.open(o.data, sized(fields_of(o, d), o.info))
  local loader = data.loader{source = source, role = "test", batch = BATCH, workers = 0}
  local meter = new_meter(d, loader)
  meter.again = function(ids) return truth_of(source, ids), d.kind.measured(outputs_of(model, source, ids, d), d) end
  core.no_grad(function()
    for batch in loader:epoch(1) do
      meter:add(d.kind.measured(outputs_of(model, source, batch.ids, d), d), batch)
    end
  end)
  return meter, source
end

-- ---- rows of CSV files ----

-- The numbers of a row; nil where one is missing.
local function numbers_at(truth, row)
  local out = {}
  for k, column in ipairs(truth) do out[k] = column[row] end
  return #out == #truth and out or nil
end

-- Rows from the last that the model sees to the one that it speaks of.
local function horizon_of(d)
  local rows_on = d.horizon or 0
  if type(rows_on) == "number" and rows_on >= 0 and rows_on % 1 == 0 then return rows_on end
  core.fail(("meta.json: horizon is a whole number of rows from 0 on, not %s"):format(tostring(rows_on)))
end

--- Every row of a CSV file that has the rows before it and a truth. -> meter, what else is known of the rows
local function read_rows(model, o, d)
  local columns = fields_of(o, d).numbers
  if not columns then core.fail(("capl eval does not read %s of rows"):format(d.kind.name)) end
  local truth, name = rows.truth(o.data, columns)
  local meter = new_meter(d, {source = {name = function(_, row) return name(row) end}})
  for _, readings, from in rows.readings(model, {o.data}, o.info, core.json_decode(o.info.meta).inputs) do
    local said, meant, ids = {}, {}, {}
    for i, reading in ipairs(readings) do
      if reading.error then core.error{code = "format", message = reading.error} end
      local row = from + i - 1 + horizon_of(d)
      local numbers = numbers_at(truth, row)
      if numbers then
        said[#said + 1], meant[#meant + 1], ids[#ids + 1] = reading.outputs[d.place], numbers, row
      end
    end
    if ids[1] then meter:add(d.kind.measured(said, d), {[meter.field] = core.tensor(meant), ids = ids}) end
  end
  if meter:result().n > 0 then return meter, {} end
  core.fail(("%s: no row has %s to compare with"):format(o.data, table.concat(columns, ", ")))
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

-- The output to evaluate, as the file describes it, with its place among them.
local function output_of(o)
  local names, found = {}, nil
  for i, d in ipairs(fields.outputs_of(core.json_decode(o.info.meta))) do
    d.place, names[i] = i, d.name
    local better = not found or not (found.kind.source or found.kind.truth) -- than one that eval does not read
    if d.name == o.output or not o.output and better then found = d end
  end
  if not found then
    core.fail(("the model has no output '%s'; it has %s"):format(o.output, table.concat(names, ", ")))
  end
  if found.kind.source or found.kind.truth then return found end
  core.fail(("capl eval does not read %s; a recipe's own meter can count them"):format(found.kind.name))
end

local function run(model, o, sizes, d)
  if d.kind.source then return read_labels(model, o, sizes, d) end
  if o.errors then core.fail("--errors lists wrong texts and classes; this output is " .. d.kind.name) end
  if o.info.width == 0 then return read_rows(model, o, d) end
  return read_fields(model, o, d)
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "eval"})
  local path = words[1]
  if not path or words[2] then
    core.error{code = "value", message = "capl eval takes one model and options; usage: " .. job.usage}
  end
  local model = core.model_open(models.path(path), {device = o.device, precision = o.precision})
  decoding.set(model, o)
  o.info = model:info()
  local sizes, started, d = files.sizes(o.info), core.clock(), output_of(o)
  local meter, source, wrong = run(model, o, sizes, d)
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
