-- fields: the kinds of labels that samples have and of outputs that models give, one file each.
--
-- A kind is a table:
--   name           as capl.model and a model file call it: output = "text"
--   meter          name of the meter that counts how right it is
--   metric         its main metric; is_share: it is a share of the samples
--   decoding(meta) how a model file's scores become texts, for capl info; may be missing
--   answers        missing where readings are no texts to compare; what several readings are called: "texts"
--   check(op, given)  raises for options of capl.model that do not fit; may be missing
--   labels(x)      whether the labels of a loader or source are of this kind; missing where they never are
--   options(x)     what capl.model takes of a loader where the recipe gives nothing
--   facts(given, loader)  what a model file has to say: keys of meta.json
--   spell(x, ids)  what a row of targets means, for people
--   reads(meta)    the same of a model file, for capl info: "texts of 4 of 0123456789"
--   columns(reading, o)   what capl predict prints of a reading: list of texts
--   json(reading, o, info)   the same as a table of keys
--   source(info, o)       how labelled files are opened for capl eval: options of data.open; missing: eval reads none
--   expects(info)  what a label must be, for errors
--   counted(info)  options of its meter for an open model
--   count(meter, reading, truth, id)   counts a reading whose label is a text
-- SPDX-License-Identifier: Apache-2.0
local fields = {}

--- All kinds, in the order in which they are looked for.
fields.kinds = {require "fields.text", require "fields.class", require "fields.points", require "fields.numbers"}

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

--- The kind of a loader's or source's labels; nil: it has none, or of no kind that a model file reads.
function fields.of_labels(x)
  for _, kind in ipairs(fields.kinds) do
    if kind.labels and kind.labels(x) then return kind end
  end
end

--- The kind of an open model, by model:info().
function fields.of_model(info) return fields.kind(info.kind) end

return fields
