-- io: tensors and models in files. (Not Lua's io: no file handle ever reaches a recipe.)
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local forward = require "forward"

local io = {}

-- A forward pass of batch images of a width (nil: the example's), as a graph. named: {name = tensor} of parameters and
-- buffers.
local function trace(model, example, named, batch, width)
  local size = example:size()
  size[1], size[#size] = batch, width or size[#size]
  local input = core.zeros(size, {dtype = example.dtype, device = example.device})
  core.trace_begin()
  local ok, output = pcall(model, input)
  if not ok then
    core.trace_cancel()
    error(output, 0)
  end
  return core.trace_end(input, output, named)
end

-- The model as a graph for any batch size and each of the widths.
local function graph_of(model, example, widths)
  local named = model:state_dict()
  local first = widths and widths[1]
  local a, b = trace(model, example, named, 2, first), trace(model, example, named, 3, first)
  core.graph_merge(a, b)
  for i = 2, widths and #widths or 0 do core.graph_merge_width(a, trace(model, example, named, 2, widths[i])) end
  return a
end

-- A list of tensors of images, one for each width, from one of them or a list.
local function listed(images)
  if images == nil then return nil end
  return core.is_tensor(images) and {images} or images
end

--- Writes a model folder (weights.safetensors, graph.json, meta.json, golden pairs) that needs no recipe to run.
-- in   path; model a module whose forward takes one tensor and gives one; example an input: its sizes but the first
--      and its dtype are the model's; meta a table of what to know about it, see docs/model-file.md: widths = {96, 128}
--      are those that the input's last dimension may have; images optional: a few of them, u8 (N,C,H,W), or a list of
--      such tensors, one for each width; kept together with what the model says of them now
-- errs value: the model does other ops for another batch size or width, wrong meta; io: the folder cannot be written
function io.save_model(path, model, example, meta, images)
  local text = core.json_encode(meta or {}, true)
  local training = model.training
  model:eval()
  images = listed(images)
  local graph, outputs
  local ok, why = pcall(forward.full, core.no_grad, function()
    graph = graph_of(model, example, meta and meta.widths)
    for i, some in ipairs(images or {}) do
      outputs = outputs or {}
      outputs[i] = model(core.model_input(text, some))
    end
  end)
  model:train(training)
  if not ok then error(why, 0) end
  core.model_save(path, graph, text, images, outputs)
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

return require("missing").watch("capl.io", io)
