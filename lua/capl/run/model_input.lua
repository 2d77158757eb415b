-- model_input.lua: what of a batch a model is called with, as a model file has to know it.
--
-- capl.model{inputs = …} or train.fit{input = …} says what a batch becomes before the model gets it. The graph of a
-- model file begins with the fields of the batch that are read there, so what is computed of them is in the file.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local forward = require "forward"

local model_input = {}

local OP = "capl.model"
local GOLDEN = 2 -- samples that a file keeps where it keeps no images: masks and series can be large

--- What is to be known of a batch: {name = {shape, dtype}} of the tensors with a row for each sample, and
-- {name = false} of what else there is.
function model_input.fields(batch)
  local out = {ids = false, onehot = false, target_length = false} -- made when they are asked for
  for name, value in pairs(batch) do
    local rows = core.is_tensor(value) and value.ndim > 0 and value.shape[1] == batch.count
    out[name] = rows and {shape = value.shape, dtype = value.dtype} or false
  end
  return out
end

-- A model outside autocast gets f32.
local function wide(dtype) return (dtype == "bf16" or dtype == "f16") and "f32" or dtype end

-- Zeros for each field: of one sample, or of a batch as it was seen.
local function examples(run, whole)
  local out = {}
  if not run.batch_fields then
    core.error{code = "state",
      message = "no loader has given a batch yet, so the sizes of the model's inputs are unknown"}
  end
  for name, field in pairs(run.batch_fields) do
    local size = field and {whole and field.shape[1] or 1, unpack(field.shape, 2)}
    out[name] = size and core.zeros(size, {dtype = wide(field.dtype)}) or field
  end
  return out
end

-- A batch of these fields. seen: gets the names that are read.
local function batch_of(fields, seen)
  local _, any = next(fields)
  return setmetatable({count = any and core.is_tensor(any) and any:size(1) or 1}, {__index = function(_, name)
    local value = fields[name]
    if value == false then
      check.fail(OP, ("the model's input reads batch.%s, which is no tensor with a row for each sample"):format(name),
        "a model file begins with such tensors: batch.image, batch.input, batch.points …")
    end
    if seen and value ~= nil then seen[name] = true end
    return value
  end})
end

-- Names of the fields that the function reads, sorted.
local function names_read(input, example)
  local seen, names = {}, {}
  core.no_grad(input, batch_of(example, seen))
  for name in pairs(seen) do names[#names + 1] = name end
  if #names == 0 then check.fail(OP, "the model's input reads no field of the batch", "it is a function(batch)") end
  table.sort(names)
  return names
end

local function pick(from, names)
  local out = {}
  for _, name in ipairs(names) do out[name] = from[name] end
  return out
end

-- A batch of one for a model that takes images or series as they are.
local function one_input(run, facts)
  if facts.width then return core.zeros(1, facts.channels, facts.height, facts.width) end
  return core.zeros(1, unpack(run.input_shape, 2))
end

--- How a file calls the model.
-- in   run; model; facts: of the images, as meta.json has them; input: function(batch), nil: as registered
-- out  {call = function(x) -> what the model says; example: an x, a tensor or a table of them by name; names: of the
--      fields in it; only = the name where x is a tensor}
-- errs value: input reads what no file can hold; state: no loader has given a batch
function model_input.of(run, model, facts, input)
  input = forward.input_of(model, input)
  if not input then
    local name = facts.width and "image" or "input"
    return {call = model, example = one_input(run, facts), names = {name}, only = name}
  end
  local example = examples(run)
  if facts.width then example.image = one_input(run, facts) end
  local names = names_read(input, example)
  local only = #names == 1 and names[1] or nil
  return {
    call = function(x) return forward.call(model, input, batch_of(only and {[only] = x} or x)) end,
    example = only and example[only] or pick(example, names), names = names, only = only,
  }
end

--- function() that calls the run's model for a batch like those of the run; nil where it takes images or series as they
-- are.
function model_input.caller(run)
  local input = forward.input_of(run.model)
  if not input then return nil end
  return function() return forward.call(run.model, input, batch_of(examples(run, true))) end
end

--- A few samples of the loader, as job.call takes them; nil where it has no source to read.
function model_input.samples(job, loader)
  if not (loader and loader.low and loader.source and loader.source.box) then return nil end
  local ids = {}
  for i = 1, math.min(GOLDEN, loader.source:count()) do ids[i] = i - 1 end
  local batch, out = require("run.reread")(loader, ids), {}
  for _, name in ipairs(job.names) do
    local value = batch[name]
    out[name] = value.dtype == wide(value.dtype) and value or value:to(wide(value.dtype))
  end
  return job.only and out[job.only] or out
end

return model_input
