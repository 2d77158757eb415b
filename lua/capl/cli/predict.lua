-- predict.lua: `capl predict MODEL IMAGE…`: reads images with a trained model.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local decoding = require "cli.decoding"
local files = require "cli.files"
local options = require "cli.options"

local spec = decoding.add_to {
  {name = "json", type = "flag", default = false,
    doc = "prints one JSON object per line: path, text, confidence, chars = confidence per character; or path, error"},
  decoding.device,
  decoding.precision,
  {name = "workers", type = "number", default = -1, doc = "decoding threads; -1 = one per processor"},
}

local escapes = {["\\"] = "\\\\", ["\t"] = "\\t", ["\n"] = "\\n", ["\r"] = "\\r"}

--- A field of a line: a file's name may hold what ends fields and lines, or what a terminal obeys.
local function field(text)
  return (text:gsub("[%c\\]", function(c) return escapes[c] or ("\\x%02x"):format(c:byte()) end))
end

local function as_text(path, reading)
  if reading.error then return "" end
  return ("%s\t%s\t%.4f\n"):format(field(path), field(reading.text), reading.confidence)
end

-- Four places, as the lines of text have.
local function rounded(list)
  local out = {}
  for i, value in ipairs(list) do out[i] = math.floor(1e4 * value + 0.5) / 1e4 end
  return out[1] and out or nil
end

local function as_json(path, reading)
  local line = {path = path, error = reading.error}
  if not reading.error then
    line.text, line.confidence, line.chars = reading.text, reading.confidence, rounded(reading.sure)
  end
  return core.json_encode(line) .. "\n"
end

--- Prints a line per image; bad ones go to standard error. -> number of bad ones
local function read_all(model, paths, o, sizes)
  local batches, done, bad = model:files(paths, o.workers), 0, 0
  for readings in function() return batches:next() end do
    local lines = {}
    for i, reading in ipairs(readings) do
      files.count_size(sizes, reading)
      lines[i] = (o.json and as_json or as_text)(paths[done + i], reading)
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
