-- verify.lua: `capl verify MODEL`: does a model file, or the ONNX file made of one, say here what it said when it was
-- saved?
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local decoding = require "cli.decoding"
local fields = require "fields"
local models = require "cli.models"
local onnx_pairs = require "cli.onnx_pairs"
local onnx_session = require "cli.onnx_session"
local options = require "cli.options"

local spec = {
  decoding.device,
  {name = "json", type = "flag", default = false, doc = "prints one JSON object"},
}

--- Replays the golden pairs in one precision. -> verdict with precision = its name
local function replay(path, device, precision)
  local model = core.model_open(path, {device = device, precision = precision})
  local verdict = model:verify()
  local info = model:info()
  verdict.precision = info.precision
  for _, d in ipairs(fields.outputs_of(core.json_decode(info.meta))) do
    verdict.answers = verdict.answers or d.kind.answers
  end
  model:free()
  return verdict
end

local function line(v)
  local texts = v.answers and (", %d of %d %s the same"):format(v.same_texts, v.n, v.answers) or ""
  return ("  %s  greatest difference %.2g of outputs up to %.3g (%.2g allowed)%s: %s\n"):format(
    v.precision, v.difference, v.largest, v.tolerance, texts, v.ok and "ok" or "FAILED")
end

-- Golden pairs that are tensors, of models whose inputs are not images alone or whose outputs are no text or class;
-- nil: there are none.
local function replay_tensors(path, device)
  local verdict = core.model_verify_tensors(path, device)
  if verdict then verdict.precision = "fp32" end
  return verdict and {verdict}
end

-- Golden images in fp32, and in the type that predict would choose.
local function replay_images(path, device)
  local verdicts = {replay(path, device, "fp32")}
  local auto = replay(path, device, "auto")
  if auto.precision ~= "fp32" then verdicts[2] = auto end
  return verdicts
end

-- The pairs beside FILE.onnx, by ONNX Runtime.
local function main_onnx(path, o)
  local verdict, why = onnx_pairs.replay(path)
  if not verdict then core.fail(("%s cannot be verified: %s"):format(path, why), onnx_session.remedy(path)) end
  core.sys.out(o.json and core.json_encode({model = path, ok = verdict.ok, runs = {verdict}}, true) .. "\n"
    or onnx_pairs.line(verdict))
  return verdict.ok and 0 or 1
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "verify"})
  if not words[1] or words[2] then
    core.error{code = "value", message = "capl verify takes one model; usage: " .. job.usage}
  end
  if words[1]:match("%.onnx$") and core.sys.kind(words[1]) ~= "folder" then return main_onnx(words[1], o) end
  local path = models.path(words[1])
  local verdicts = replay_tensors(path, o.device) or replay_images(path, o.device)
  local ok = true
  for _, v in ipairs(verdicts) do ok = ok and v.ok end
  if o.json then
    core.sys.out(core.json_encode({model = words[1], ok = ok, runs = verdicts}, true) .. "\n")
  else
    core.sys.out(("%s: %d golden pairs\n"):format(words[1], verdicts[1].n))
    for _, v in ipairs(verdicts) do core.sys.out(line(v)) end
  end
  if not ok then
    core.sys.err(words[1] .. ": the output differs from the saved one: the model is damaged, or there is a bug\n")
  end
  return ok and 0 or 1
end

return {main = main, options = spec, examples = {
  {"capl verify runs/mine/best.capl", "verifies a model that was copied to another machine"},
  {"capl verify best.onnx", "runs the golden pairs beside an exported file through ONNX Runtime"},
}}
