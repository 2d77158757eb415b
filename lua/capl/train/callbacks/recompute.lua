-- recompute.lua: the key checkpoint_layers of train.fit: layers whose results are computed again in the backward pass.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local recompute = require "nn.recompute"

local OP = "train.fit"

local Part = {}
Part.__index = Part

local function modules_by_name(model)
  local out, names = {}, {}
  for name, module in model:named_modules() do
    if name ~= "" then
      out[name] = module
      names[#names + 1] = name
    end
  end
  return out, names
end

local function read(o)
  local wanted = o.checkpoint_layers
  if type(wanted) ~= "table" then return end
  if #wanted == 0 then check.fail(OP, "checkpoint_layers is a list of layers, such as {\"0\", \"2\"}, or true") end
  local modules, names = modules_by_name(o.model)
  for _, name in ipairs(wanted) do
    if not modules[name] then check.unknown(OP, "layer in checkpoint_layers", name, names) end
  end
end

-- Without a list: the blocks right below the model; of a plain list of layers, parts of it.
local function wrap_all(model)
  local done = {}
  for name, child in model:named_children() do
    if #child:children() > 0 then
      recompute.Checkpoint(child)
      done[#done + 1] = name
    end
  end
  if #done > 0 then return "layers " .. table.concat(done, ", ") end
  local layers = rawget(model, "_layers")
  if not layers or #layers < 4 then
    check.fail(OP, "checkpoint_layers = true: the model has no blocks of layers to run again",
      "name layers: checkpoint_layers = {…}")
  end
  local count = math.ceil(math.sqrt(#layers))
  recompute.Checkpoint(model, {segments = count})
  return ("%d layers in %d parts"):format(#layers, count)
end

local function wrap_named(model, names)
  local modules = modules_by_name(model)
  for _, name in ipairs(names) do recompute.Checkpoint(modules[name]) end
  return "layers " .. table.concat(names, ", ")
end

local function new(fit)
  local wanted = fit.o.checkpoint_layers
  if not wanted then return nil end
  local text = wanted == true and wrap_all(fit.model) or wrap_named(fit.model, wanted)
  local before = recompute.runs
  fit.run:add_feature{name = "checkpoint_layers", what = "parts that were run again", count = function()
    return recompute.runs - before end}
  return setmetatable({text = text}, Part)
end

function Part:lines() return {"computed again in the backward pass: " .. self.text} end

return {name = "recompute", spec = {{"checkpoint_layers", "boolean", "table"}}, read = read, new = new}
