-- forward.lua: the one place where a batch meets a model: in which precision, and with what of the batch.
--
-- Training, evaluation and whoever looks at a model beside them call it here: o = {model, loss, input, precision} as of
-- train.fit. Whatever the loader gave, a model outside autocast gets f32.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local precision = require "precision"

local forward = {}

--- The options of whoever calls a model, for check.options.
forward.input = {"input", "function"}
forward.precision = {"precision", "string", "table", default = "auto"}

local function is_16_bit(value) return core.is_tensor(value) and (value.dtype == "bf16" or value.dtype == "f16") end

-- The batch in f32, if something of it has 16 bits. A copy: the batch itself belongs to its loader or a captured step.
local function widened(batch)
  local out
  for key, value in pairs(batch) do
    if is_16_bit(value) then
      out = out or setmetatable({}, {__index = batch})
      out[key] = value:to("f32")
    end
  end
  if not out then return batch end
  for key, value in pairs(batch) do out[key] = rawget(out, key) or value end
  return out
end

local function field(batch, name)
  local value = batch[name]
  if value ~= nil then return value end
  check.fail("capl.model", ("inputs: the batch has no field '%s'"):format(name),
    "its fields are image, target and those of the source: mask, points, input …")
end

-- One field of a batch as it is, several as a table.
local function pick(names)
  if #names == 1 then return function(batch) return field(batch, names[1]) end end
  return function(batch)
    local out = {}
    for _, name in ipairs(names) do out[name] = field(batch, name) end
    return out
  end
end

--- Checks the inputs of capl.model: a function(batch), or a list of the names of a batch's fields.
-- errs value
function forward.check_inputs(inputs)
  if inputs == nil or type(inputs) == "function" then return end
  check.list("capl.model", inputs)
  if #inputs == 0 then check.fail("capl.model", "inputs is an empty list", 'inputs = {"image"}') end
  for _, name in ipairs(inputs) do
    if type(name) ~= "string" then
      check.fail("capl.model", "inputs is a list of names, not of " .. core.typename(name), 'inputs = {"image", "mask"}')
    end
  end
end

--- function(batch) -> what the model is called with: input, or as capl.model says of this model; nil: neither.
function forward.input_of(model, input)
  if input then return input end
  local inputs = observer.model == model and model and (observer.model_options or {}).inputs
  if not inputs then return nil end
  return type(inputs) == "function" and inputs or pick(inputs)
end

--- What the model of o is called with for a batch.
function forward.given(o, batch)
  local input = forward.input_of(o.model, o.input)
  if input then return input(batch) end
  return batch.image or batch.input
end

--- What the model returns for a batch of which input, a function, makes what it is called with.
function forward.call(model, input, batch) return model(input(batch)) end

--- The one thing that a model returns: a tensor, or a table of named tensors.
-- errs type: it returns several
function forward.result(...)
  if select("#", ...) > 1 and select(2, ...) ~= nil then
    check.fail("model", ("the model returns %d results; all but the first would be lost"):format(select("#", ...)),
      "a model with several outputs returns a table of them: return {points = a, mask = b}")
  end
  return (...)
end

-- fn(batch) in the precision of o.
local function under(o, fn, batch)
  if precision.read(o.precision) == "f32" then batch = widened(batch) end
  return precision.autocast(o.precision, fn, batch)
end

--- What the model says of a batch.
function forward.output(o, batch)
  return under(o, function(given) return forward.result(o.model(forward.given(o, given))) end, batch)
end

--- The loss of a batch, and the output that it is of.
function forward.loss(o, batch)
  return under(o, function(given)
    local output = forward.result(o.model(forward.given(o, given)))
    return (o.loss(output, given)), output
  end, batch)
end

--- The loss of an output that is there already.
function forward.loss_of(o, output, batch)
  return under(o, function(given) return o.loss(output, given) end, batch)
end

--- fn(…) in full precision, also inside autocast: what a file holds does not depend on where it was saved.
function forward.full(fn, ...) return precision.autocast("fp32", fn, ...) end

return forward
