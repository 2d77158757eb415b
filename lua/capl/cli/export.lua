-- export.lua: `capl export MODEL --format=onnx|ddddocr`: a model as an ONNX file, verified by its golden pairs.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local models = require "cli.models"
local onnx_pairs = require "cli.onnx_pairs"
local onnx_session = require "cli.onnx_session"
local options = require "cli.options"

local spec = {
  {name = "format", type = "text", value = "FORMAT", open = true, choices = {"onnx", "ddddocr"},
    doc = "onnx: one file with the preprocessing inside; ddddocr: a folder with model.onnx and charsets.json"},
  {name = "out", type = "text", value = "PATH",
    doc = "file of onnx (NAME.onnx for NAME.capl), folder of ddddocr (NAME.ddddocr)"},
  {name = "json", type = "flag", default = false, doc = "prints one JSON object"},
}

-- Of the word that names it: files of an installed model go here.
local function base(word) return (word:gsub("/+$", ""):gsub("%.capl$", "")) end

-- -> path of the .onnx, of charsets.json or nil
local function places(word, o)
  if o.format == "onnx" then
    local out = o.out or base(word) .. ".onnx"
    if not out:match("%.onnx$") then core.fail(("--out=%s: the name of an ONNX file ends in .onnx"):format(out)) end
    return out
  end
  local folder = o.out or base(word) .. ".ddddocr"
  local kind = core.sys.kind(folder)
  if kind and kind ~= "folder" then core.fail(("--out=%s is no folder"):format(folder)) end
  if not kind then core.sys.mkdir(folder) end
  return folder .. "/model.onnx", folder .. "/charsets.json"
end

local function verify(model, path, meta, ddddocr)
  local n, why = onnx_pairs.write(model, path, meta, ddddocr)
  if not n then return nil, why, "save the model again with images from a loader" end
  local verdict
  verdict, why = onnx_pairs.replay(path)
  return verdict, why, onnx_session.remedy(path)
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "export"})
  if not words[1] or words[2] then
    core.error{code = "value", message = "capl export takes one model; usage: " .. job.usage}
  end
  if o.format ~= "onnx" and o.format ~= "ddddocr" then
    core.fail(o.format and ("--format is onnx or ddddocr, not '%s'"):format(o.format)
      or "capl export needs --format=onnx or --format=ddddocr")
  end
  local model = models.path(words[1])
  local opened = core.model_open(model, {device = "cpu", precision = "fp32"}) -- a damaged one is refused as ever
  local meta = core.json_decode(opened:info().meta)
  opened:free()
  local path, charset = places(words[1], o)
  local nodes, low = core.onnx_model(model, path, charset)
  local verdict, why, remedy = verify(model, path, meta, charset ~= nil)
  if o.json then
    core.sys.out(core.json_encode({model = model, format = o.format, path = path, charsets = charset, nodes = nodes,
      weights_16_bit = low, verified = verdict or false}, true) .. "\n")
  else
    core.sys.out(("%s: opset 17, %d nodes, %d bytes\n"):format(path, nodes, core.sys.size(path)))
    if low > 0 then core.sys.out(("%d weights of 16 bits are f32 in the file\n"):format(low)) end
    if verdict then core.sys.out(onnx_pairs.line(verdict)) end
  end
  if not verdict then core.sys.err(("%s WAS NOT VERIFIED: %s\n  %s\n"):format(path, why, remedy)) end
  return (not verdict or verdict.ok) and 0 or 1
end

return {main = main, options = spec, examples = {
  {"capl export runs/mine/best.capl --format=onnx", "writes runs/mine/best.onnx, which takes images as they are"},
  {"capl export runs/mine/best.capl --format=ddddocr --out=reader",
  "writes reader/model.onnx and reader/charsets.json for ddddocr"},
}}
