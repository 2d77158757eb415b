-- io: tensors and models in files. (Not Lua's io: no file handle ever reaches a recipe.)
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local fields = require "fields"
local forward = require "forward"

local io = {}

local OP = "model file"
local NAME = "^[%a_][%w_]*$"

-- ---- inputs and outputs ----

local function fail(...) check.fail(OP, ...) end

-- Names and tensors of a table of them, checked; what: "input" | "output".
local function check_named(what, given)
  if next(given) == nil then fail(("the model's table of %ss is empty"):format(what)) end
  for name, value in pairs(given) do
    if type(name) ~= "string" or not name:match(NAME) then
      fail(("%s is no name for an %s of a model"):format(type(name) == "string" and ("'%s'"):format(name)
        or ("[%s]"):format(tostring(name)), what), "a name has letters, digits and _, and begins with no digit")
    end
    if type(value) == "table" then
      fail(("the %s '%s' is a table; a table of %ss holds tensors alone"):format(what, name, what),
        ("give each tensor in it a name of its own: {%s_a = …, %s_b = …}"):format(name, name))
    end
    if not core.is_tensor(value) then
      fail(("the %s '%s' is no tensor, but a %s"):format(what, name, core.typename(value)))
    end
  end
  return given
end

-- A tensor or a table of named ones.
local function check_ports(what, given)
  if core.is_tensor(given) then return given end
  if type(given) ~= "table" then
    fail(("the model's %s is no tensor, but a %s"):format(what, core.typename(given)),
      "a model file holds models that take and return a tensor or a table of named tensors")
  end
  return check_named(what, given)
end

-- fn(tensor) for the tensor, or for each of the named ones.
local function each(ports, fn)
  if core.is_tensor(ports) then return fn(ports) end
  local out = {}
  for name, tensor in pairs(ports) do out[name] = fn(tensor) end
  return out
end

-- ---- tracing ----

local function output_of(model, input) return check_ports("output", forward.result(model(input))) end

-- Zeros like the example, for a batch of images of a width (nil: the example's).
local function zeros(example, batch, width)
  return each(example, function(tensor)
    local size = tensor:size()
    if #size == 0 then fail("an input has no dims; the first dim of every input is the batch") end
    if width then size[#size] = width end
    size[1] = batch
    return core.zeros(size, {dtype = tensor.dtype, device = tensor.device})
  end)
end

-- A forward pass as a graph. named: {name = tensor} of parameters and buffers.
local function trace(model, example, named, batch, width)
  local input = zeros(example, batch, width)
  core.trace_begin()
  local ok, output = pcall(output_of, model, input)
  if not ok then
    core.trace_cancel()
    error(output, 0)
  end
  return core.trace_end(input, output, named)
end

-- The model as a graph for any batch size and each of the widths. state: a module's parameters and buffers.
local function graph_of(model, state, example, widths)
  local named = state:state_dict()
  local first = widths and widths[1]
  local a, b = trace(model, example, named, 2, first), trace(model, example, named, 3, first)
  core.graph_merge(a, b)
  for i = 2, widths and #widths or 0 do core.graph_merge_width(a, trace(model, example, named, 2, widths[i])) end
  return a
end

-- fn() in full precision, with the module in eval mode and nothing recorded for gradients.
local function evaluating(module, fn)
  local training = module.training
  module:eval()
  local ok, out = pcall(forward.full, core.no_grad, fn)
  module:train(training)
  if not ok then error(out, 0) end
  return out
end

-- ---- golden pairs ----

-- A list of what the model is given, one entry for each width, from one of them or a list.
local function listed(golden)
  if golden == nil then return nil end
  return (core.is_tensor(golden) or golden[1] == nil) and {golden} or golden
end

-- Images as they are: levels that normalization makes numbers of.
local function is_image(given) return core.is_tensor(given) and given.dtype == "u8" and given.ndim == 4 end

local function f32(tensor) return tensor.dtype == "f32" and tensor or tensor:to("f32") end

-- What the model says of each entry.
local function answers(model, golden, meta)
  local out = {}
  for i, given in ipairs(golden or {}) do
    out[i] = each(output_of(model, is_image(given) and core.model_input(meta, given) or given), f32)
  end
  return out
end

-- Entries as the file takes them: an input without a name is called input.
local function stored(golden)
  local out = {}
  for i, given in ipairs(golden) do
    out[i] = core.is_tensor(given) and not is_image(given) and {input = given} or given
  end
  return out
end

-- ---- model folders ----

--- Writes a model folder (weights.safetensors, graph.json, meta.json, golden pairs) that needs no recipe to run.
-- in   path; model a module whose forward takes a tensor or a table of named tensors and returns one or the other;
--      example such an input: its sizes but the first and its dtypes are the model's; meta a table of what to know
--      about it, see docs/model-file.md: widths = {96, 128} are those that the last dimension of an only input may
--      have; golden optional: a few images, u8 (N,C,H,W), or inputs as the model takes them, or a list of such, one
--      for each width; kept together with what the model says of them now
-- opts state = module: whose parameters model uses, where model is a function; levels = u8 (N,C,H,W): of the image
--      among the named inputs of golden, for ONNX files
-- errs type: an input or output that is no tensor; value: a wrong name, the model does other ops for another batch size
--      or width or returns other outputs, wrong meta; io: the folder cannot be written
function io.save_model(path, model, example, meta, golden, opts)
  local text = core.json_encode(meta or {}, true)
  local module = opts and opts.state or model
  check_ports("input", example)
  golden = listed(golden)
  local outputs
  local graph = evaluating(module, function()
    outputs = golden and answers(model, golden, text)
    return graph_of(model, module, example, meta and meta.widths)
  end)
  core.model_save(path, graph, text, golden and stored(golden), outputs, opts and opts.levels)
end

--- Does all that io.save_model does but write: raises what saving would raise, before a run is worth anything.
-- in   as of io.save_model
-- errs as of io.save_model
function io.check_model(model, example, meta, opts)
  local module = opts and opts.state or model
  check_ports("input", example)
  evaluating(module, function() return graph_of(model, module, example, meta and meta.widths) end)
end

--- Reads a model folder.
-- in   path; device a name, default the current one
-- out  {forward = function(x) -> y, meta = table}; x and y are tensors or tables of named tensors, as of the model that
--      was saved
-- errs io: no such folder; format: damaged, with the file's name
function io.load_model(path, device)
  local graph, meta = core.model_load(path, device)
  return {
    forward = function(x) return core.graph_run(graph, x) end,
    meta = core.json_decode(meta),
  }
end

local Model = {}
Model.__index = Model

--- What the model says of images, as capl predict has it.
-- in   images: u8 (N,C,H,W) of any size, at most 64; nil for a model that takes none; values: {name = f32 (N,…)} of its
--      other inputs, in their units
-- out  list of {outputs = list in the order of self.outputs, width, height, error = why this one could not be read}; an
--      output has what its kind has: text, confidence, sure, top = {{class, name, probability}, …}, values, levels
function Model:read(images, values) return self.box:read(images, values) end

--- Opens a model folder to read samples with it; prepared and decoded as its file says.
-- in   path; opts device = "cpu", precision = "auto" | "fp32" | "bf16" | "fp16"
-- out  {read = function(self, images), outputs = list of {name, kind, and the keys of meta.json}, info}
-- errs io: no such folder; format: damaged, or a model that does not describe what it gives; value: unknown option
function io.open_model(path, opts)
  local o = check.options("io.open_model", {{"device", "string"}, {"precision", "string"}}, opts)
  if o.precision then check.one_of("io.open_model", "precision", o.precision, {"auto", "fp32", "bf16", "fp16"}) end
  local box = core.model_open(path, {device = o.device, precision = o.precision})
  local info = box:info()
  return setmetatable({box = box, info = info, outputs = fields.outputs_of(core.json_decode(info.meta))}, Model)
end

--- Writes {name = tensor} as a safetensors file.
function io.save(path, tensors) core.safetensors_save(path, tensors) end

--- Reads a safetensors file as {name = tensor}.
function io.load(path, device) return core.safetensors_load(path, device) end

return require("missing").watch("capl.io", io)
