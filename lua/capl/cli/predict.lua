-- predict.lua: `capl predict MODEL IMAGE…`: reads images with a trained model.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local decoding = require "cli.decoding"
local fields = require "fields"
local files = require "cli.files"
local options = require "cli.options"

local spec = decoding.add_to {
  {name = "json", type = "flag", default = false,
    doc = "prints one JSON object per line: path, text, confidence, chars = confidence per character, or for classes " ..
      "path, class, confidence; or path, error"},
  {name = "top", type = "number", from = 1, to = 16,
    doc = "classes: how many of the most probable ones to print, each with its probability (1)"},
  decoding.device,
  decoding.precision,
  {name = "workers", type = "number", default = -1, doc = "decoding threads; -1 = one per processor"},
}

local escapes = {["\\"] = "\\\\", ["\t"] = "\\t", ["\n"] = "\\n", ["\r"] = "\\r"}

--- A field of a line: a file's name may hold what ends fields and lines, or what a terminal obeys.
local function field(text)
  return (text:gsub("[%c\\]", function(c) return escapes[c] or ("\\x%02x"):format(c:byte()) end))
end

local function as_text(kind, path, reading, o)
  if reading.error then return "" end
  local columns = {field(path)}
  for _, value in ipairs(kind.columns(reading, o)) do columns[#columns + 1] = field(value) end
  return table.concat(columns, "\t") .. "\n"
end

local function as_json(kind, path, reading, o)
  local line = reading.error and {error = reading.error} or kind.json(reading, o, o.info)
  line.path = path
  return core.json_encode(line) .. "\n"
end

--- Prints a line per image; bad ones go to standard error. -> number of bad ones
local function read_all(model, paths, o, sizes)
  local batches, done, bad = model:files(paths, o.workers), 0, 0
  o.info = model:info()
  local kind = fields.of_model(o.info)
  for readings in function() return batches:next() end do
    local lines = {}
    for i, reading in ipairs(readings) do
      files.count_size(sizes, reading)
      lines[i] = (o.json and as_json or as_text)(kind, paths[done + i], reading, o)
      if reading.error then
        bad = bad + 1
        core.sys.err(reading.error .. "\n")
      end
    end
    core.sys.out(table.concat(lines))
    done = done + #readings
  end
  return bad
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "predict"})
  local path = table.remove(words, 1)
  if not path then core.error{code = "value", message = "no model is named; usage: " .. job.usage} end
  local paths = files.of(words, job.usage)
  local model = core.model_open(path, {device = o.device, precision = o.precision})
  decoding.set(model, o)
  if o.top and model:info().kind ~= "class" then core.fail("--top is for models that give classes; this one gives " .. model:info().kind) end
  local sizes = files.sizes(model:info())
  local bad = read_all(model, paths, o, sizes)
  files.print_sizes(sizes)
  if bad == 0 then return 0 end
  if #paths > 1 then core.sys.err(("%d of %d images could not be read\n"):format(bad, #paths)) end
  return 1
end

return {main = main, options = spec, examples = {
  {"capl predict runs/mine/best.capl images/*.png",
  "prints one line per image: path, text, confidence, separated by tabs"},
  {"find . -name '*.png' | capl predict runs/mine/best.capl - --json",
  "reads a list from standard input and prints one object per image"},
}}
