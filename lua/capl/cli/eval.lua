-- eval.lua: `capl eval MODEL --data=DIR`: a trained model against labelled PNG files.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

require "init" -- gives tensors their methods

local json = require "run.json"
local modelfile = require "run.modelfile"
local options = require "cli.options"
local text_meter = require "run.text_meter"

local spec = {
  {name = "data", type = "text", required = true, doc = "folder of PNG files, searched below too"},
  {name = "label", type = "text", default = "^(.-)_", doc = "Lua pattern whose capture in the file name is the text"},
  {name = "batch", type = "number", default = 100, doc = "images at a time"},
  {name = "json", type = "flag", default = false, doc = "one JSON object instead of lines"},
}

local function loader_of(o, meta)
  local data = require "data"
  return data.loader{
    source = data.folder(o.data, {label = o.label, charset = meta.charset, length = meta.length,
      width = meta.width, height = meta.height, channels = meta.channels}),
    role = "test", batch = o.batch, normalize = meta.normalize,
  }
end

--- Reads every file; -> meter, seconds
local function read_all(model, loader)
  local meter = text_meter.new(model.meta.charset)
  local started = core.clock()
  local K = #model.meta.charset
  for batch in loader:epoch(1) do
    core.scope(function()
      local ids = modelfile.forward(model, batch.image):reshape(-1, K):argmax(-1)
      meter:add(ids:tolist(), batch.target:reshape(-1):tolist(), model.meta.length)
    end)
  end
  return meter, core.clock() - started
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "eval"})
  local path = words[1]
  if not path or words[2] then
    core.error{code = "value", message = "capl eval takes one model and options; usage: " .. job.usage}
  end
  local model = modelfile.load(path)
  local meter, seconds = read_all(model, loader_of(o, model.meta))
  local r = meter:result()
  r.seconds, r.images_per_s, r.model, r.data = seconds, r.n / seconds, path, o.data
  if o.json then core.sys.out(json.encode(r, true) .. "\n") return end
  core.sys.out(("%s on %s: %s\n"):format(path, o.data, meter:line()))
  core.sys.out("mistakes: " .. meter:confusion_line() .. "\n")
  core.sys.out(("%.0f images per second\n"):format(r.images_per_s))
end

return {main = main, options = spec}
