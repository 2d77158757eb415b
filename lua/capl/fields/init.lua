-- fields: the kinds of labels that samples have and of outputs that models give, one folder each in engine/fields.
-- SPDX-License-Identifier: Apache-2.0
--
-- A kind is a table:
--   name           as capl.model and a model file call it: output = "text"
--   options        what it takes of capl.model beside output, as check.options reads it
--   check(op, given)  raises for options that do not fit; may be missing
--   facts(given, loader)  its keys in a model file; nil: too little is known for one that predict can read
--   reads(d)       what it is, for capl info: "texts of 4 of 0123456789"; d: those keys
--   decoding(d)    how a model file's scores become that, for capl info; may be missing or give nil
--   columns(out, o, d)    what capl predict prints of an output: list of texts; o: options of the command
--   json(out, o, d)       the same as a table of keys
--   picture(out, d)       u8 (C,H,W) that capl predict --out writes; missing: it is no picture
--   draw(overlay, picture, out, d)   what capl predict --overlay draws; missing: nothing
--   input(name, loader, facts)   its keys where the loader's batches have it as a field of that name; missing: it is no
--                  input; facts: of the images
--   is_ranked      capl predict --top prints several of its answers; is_spelled: its labels are characters
--   is_first       recipes and model files that name no kind mean this one
--   is_levels      an input of pixels, whose golden pairs are pictures
--   onnx_input(d, x, levels, ddddocr)   what an ONNX file takes of an input: x as the network takes it, levels of
--                  images; missing: it is no input
--   places(y, d, ddddocr)   of an ONNX file's output: classes of a place, the blank; missing: the last dim, none
--   answers        what several are called where they are compared as texts: "texts"; missing: they are not
-- Of kinds that are measured:
--   meter          name of the meter that counts how right it is
--   metric         its main metric; is_share: it is a share of the samples
--   counted(d)     options of its meter
--   measures(given)  options of its meter while training, of what capl.model was given; may be missing
--   confused       what its meter's confusion counts, one and several, and what its labels are: {"class", "images",
--                  "classes"}; missing: there is none
--   rows           a table of the report, of what evaluation.json has for each class, point …: {key, title, columns =
--                  {{title, key, "share" | nil: a number}, …}, more(key) -> title and word of columns that some have}
--   sheet          how samples.png shows samples without captions: {views(meter, e, image, fields of the sample) ->
--                  pictures of entry e, legend(meter, list by id of what is compared) -> names and their classes,
--                  plots(meter, plot, samples) -> pictures above them, columns = 4, together = 1, worst = 12, best = 8,
--                  note, thumb = which of the pictures evaluations have small}
--   compared(meter, e, batch, output, i)   in place of views: what was meant and read of entry e, which is read again
--                  as the i-th of a batch, as pictures that lie over the image unless they have one of their own
--   decodings      ways in which its meter reads outputs, of which capl.model takes one; missing: there is one
--   faults(e, value)   of an evaluation without confusion: list of {severity = "error" | "warn", text, write} for capl
--                  doctor, and what was looked at; nil and why not; e: evaluation.json; value: report/value.lua
--   says(e, value)   numbers that a sample gives a model to learn, by an evaluation.json: what few samples are is
--                  measured by them; missing: they are not counted
--   whole(set)     of labels: the metric that is the share of whole samples read right, how many losses make one of
--                  them, and the loss (cross_entropy); set: facts of the data; missing: the loss does not say it
--   pretrains      a recipe that trains on generated data first, for advice; may be missing
-- by labels that are texts:
--   labels(x)      whether the labels of a loader or source are of this kind
--   default(x)     what capl.model takes of a loader where the recipe gives nothing
--   spell(x, ids)  what a row of targets means, for people
--   source(d, o)   how labelled files are opened for capl eval: options of data.open
--   expects(d)     what a label must be, for errors
--   count(meter, out, truth, id, several)   counts an output whose label is a text -> whether it was right; several:
--                  what separates the names of a label, where it has several
-- or by fields of samples:
--   field          name of the batch's field that the meter reads
--   files          options of capl eval and capl data that say where they are: list of {name, value, doc, list = true:
--                  commas separate several, absent = what capl eval takes without it}; the first is read's
--   looks          more options of capl data; looked(o, is_folder) -> the option of data.open that both make
--   read(op, given, out, taken)   the option of data.folder|list|lmdb: adds to out what the engine gets, mask, target
--                  or numbers; -> keys of the source; taken: names that fields of batches have
--   of_database(given), of_folder(given)   that option of data.open as one of a database, or of a list in the images'
--                  folder; missing: the same
--   beside         what they are called where files beside the images are not read: "masks"; missing: there are none
--   moves          how augmentation moves them, a word of the engine: mask, points, boxes; missing: not at all
--   is_numbers     fields of any name that nothing moves are of this kind
--   tensor         what data.tensors takes: {dims, dtype, what, hint, width = the last dim, of_image = has its size}
--   stat(source, field, k, scan)   a line of capl data stat on the k-th field from 0; look(r, source, field, k, scan)
--                  reports what is wrong to r of data_check.lua
--   view(out, value, plain)           adds to out what capl preview draws over a sample, of its field as augmented and
--                  without that
--   truth(d, o)    which fields files are opened with for capl eval: options of data.open; o: of these options
--   measured(outs, d)     what the meter takes as output of a batch, of the outputs of its samples
local core = ...

local check = require "check"
require "tensor" -- kinds call methods of tensors

local fields = {}

local OP = "capl.model"

--- All kinds.
fields.kinds = {}
for i, name in ipairs(core.field_kinds()) do fields.kinds[i] = require("fields." .. name) end

--- Names of the kinds.
function fields.names()
  local out = {}
  for i, kind in ipairs(fields.kinds) do out[i] = kind.name end
  return out
end

--- The kind of a name; nil: it is none.
function fields.kind(name)
  for _, kind in ipairs(fields.kinds) do
    if kind.name == name then return kind end
  end
end

-- That of recipes and model files which name none.
local function first_kind()
  for _, kind in ipairs(fields.kinds) do
    if kind.is_first then return kind end
  end
end

--- The kind of a loader's or source's labels; nil: it has none, or of no kind that a model file reads.
function fields.of_labels(x)
  for _, kind in ipairs(fields.kinds) do
    if kind.labels and kind.labels(x) then return kind end
  end
end

--- The first kind that a meter measures; nil: it is one of a recipe.
function fields.of_meter(meter)
  for _, kind in ipairs(fields.kinds) do
    if kind.meter == meter then return kind end
  end
end

--- The kind of a field of samples: by how it moves, else by its name; other numbers are those of recipes.
-- in   field: {name, kind = how augmentation moves it}, as the engine's source has it
function fields.of_field(field)
  local numbers
  for _, kind in ipairs(fields.kinds) do
    if kind.moves == field.kind or not kind.moves and kind.stat and kind.field == field.name then return kind end
    if kind.is_numbers then numbers = kind end
  end
  return numbers
end

--- What capl.model would be given of a model that a recipe says nothing of: by the labels of its loader, else by the
-- meter that it is measured with.
function fields.default(loader, meter)
  local kind = fields.of_labels(loader)
  if kind then return kind.default(loader) end
  for _, one in ipairs(fields.kinds) do
    if one.meter == meter then return {output = one.name} end
  end
  return {output = "other"}
end

-- ---- capl.model ----

local function merged(spec, more)
  local out = {}
  for i, entry in ipairs(spec) do out[i] = entry end
  for _, entry in ipairs(more) do out[#out + 1] = entry end
  return out
end

-- Options of one output; word: the key that names its kind.
local function check_output(op, given, word, spec)
  local kind = fields.kind(given[word])
  if not kind then check.one_of(op, word, given[word], fields.names()) end
  check.options(op, merged(spec, kind.options), given)
  if kind.check then kind.check(op, given) end
end

local function check_outputs(outputs)
  if next(outputs) == nil then check.fail(OP, "outputs is empty", 'outputs = {gap = {kind = "points", names = {"gap"}}}') end
  for name, given in pairs(outputs) do
    if type(name) ~= "string" or type(given) ~= "table" then
      check.fail(OP, ("outputs describes each output by its name, and %s is %s"):format(tostring(name),
        core.typename(given)), 'outputs = {gap = {kind = "points", names = {"gap"}}}')
    end
    check_output(("%s: outputs.%s"):format(OP, name), given, "kind", {{"kind", "string"}})
  end
end

local common = {{"output", "string"}, {"inputs", "table", "function"}, {"outputs", "table"}}

--- Checks what capl.model is given but for inputs: output and its kind's options, or outputs.
-- errs value
function fields.check(opts)
  if type(opts) == "table" and opts.outputs ~= nil then
    check.options(OP, {{"outputs", "table"}, {"inputs", "table", "function"}}, opts)
    return check_outputs(opts.outputs)
  end
  if type(opts) == "table" and opts.output ~= nil then return check_output(OP, opts, "output", common) end
  local first = first_kind() -- what the first recipes gave
  check.options(OP, merged(common, first.options), opts)
  first.check(OP, opts)
end

-- ---- what a model file says ----

-- What one output is in the file: its kind's keys, and the name of the kind under `word`; nil: too little is known.
local function describe(given, word, loader)
  local kind = fields.kind(given[word])
  local facts = kind and kind.facts(given, loader)
  if facts then facts[word] = kind.name end
  return facts
end

-- A list in the order of the names; nil where one of them cannot be described.
local function describe_all(outputs, loader)
  local list, names = {}, {}
  for name in pairs(outputs) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    list[i] = describe(outputs[name], "kind", loader)
    if not list[i] then return nil end
    list[i].name = name
  end
  return list
end

--- Keys of a model file that say what the model gives.
-- in   given: options of capl.model; loader
-- out  {output = …} and the keys of its kind, or {outputs = list}; {}: nothing is known
function fields.facts(given, loader)
  if given.outputs then return {outputs = describe_all(given.outputs, loader)} end
  local kind = given.output or not given.output and (fields.of_labels(loader) or {}).name
  local asked = setmetatable({output = kind}, {__index = given})
  return kind and describe(asked, "output", loader) or {}
end

--- What a model file says of an input of a name, a field of the loader's batches; nil: it cannot be described.
-- in   facts: of the images, as meta.json has them
function fields.input(name, loader, facts)
  for _, kind in ipairs(fields.kinds) do
    local given = kind.input and kind.input(name, loader, facts)
    if given then
      given.name, given.kind = name, kind.name
      return given
    end
  end
end

--- The outputs that a model file describes, in its order: list of {kind = table, name = "" for an only one, …}, with
-- the keys of the file.
-- in   meta: meta.json as a table
function fields.outputs_of(meta)
  if not meta.outputs then
    local kind = first_kind()
    if meta.output then kind = fields.kind(meta.output) end
    return {setmetatable({kind = kind, name = ""}, {__index = meta})}
  end
  local list = {}
  for i, given in ipairs(meta.outputs) do
    list[i] = setmetatable({kind = fields.kind(given.kind), name = given.name}, {__index = given})
  end
  return list
end

return fields
