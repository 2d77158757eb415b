-- io: tensors and models in files. (Not Lua's io: no file handle ever reaches a recipe.)
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json = require "run.json"

local io = {}

-- A forward pass of batch images, as a graph. named: {name = tensor} of parameters and buffers.
local function trace(model, example, batch, named)
  local size = example:size()
  size[1] = batch
  local input = core.zeros(size, {dtype = example.dtype, device = example.device})
  core.trace_begin()
  local ok, output = pcall(model, input)
  if not ok then
    core.trace_cancel()
    error(output, 0)
  end
  return core.trace_end(input, output, named)
end

-- The model as a graph for any batch size.
local function graph_of(model, example)
  local named = model:state_dict()
  local a, b = trace(model, example, 2, named), trace(model, example, 3, named)
  core.graph_merge(a, b)
  return a
end

--- Writes a model folder (weights.safetensors, graph.json, meta.json, golden pairs) that needs no recipe to run.
-- in   path; model a module whose forward takes one tensor and gives one; example an input: its sizes but the first
--      and its dtype are the model's; meta a table of what to know about it, see docs/model-file.md; images optional:
--      a few of them, u8 (N,C,H,W), kept together with what the model says of them now
-- errs value: the model does other ops for another batch size, wrong meta; io: the folder cannot be written
function io.save_model(path, model, example, meta, images)
  local text = json.encode(meta or {}, true)
  local training = model.training
  model:eval()
  local graph, output
  local ok, why = pcall(core.no_grad, function()
    graph = graph_of(model, example)
    output = images and model(core.model_input(text, images))
  end)
  model:train(training)
  if not ok then error(why, 0) end
  core.model_save(path, graph, text, images, output)
end

--- Reads a model folder.
-- in   path; device a name, default the current one
-- out  {forward = function(x) -> y, meta = table}
-- errs io: no such folder; format: damaged, with the file's name
function io.load_model(path, device)
  local graph, meta = core.model_load(path, device)
  return {
    forward = function(x) return core.graph_run(graph, x) end,
    meta = core.json_decode(meta),
  }
end

--- Writes {name = tensor} as a safetensors file.
function io.save(path, tensors) core.safetensors_save(path, tensors) end

--- Reads a safetensors file as {name = tensor}.
function io.load(path, device) return core.safetensors_load(path, device) end

return io
