-- recompute.lua: gradient checkpointing: layers whose results are not kept for the backward pass, but computed again.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local classes = require "module_class"

local recompute = {runs = 0} -- parts that were run again

local function done(former, ok, ...)
  observer.recomputing = former
  if not ok then error((...), 0) end
  return ...
end

-- Runs fn for the first time or again; batch norm then leaves its running statistics alone.
local function run(again, fn, ...)
  if not again then return fn(...) end
  local former = observer.recomputing
  observer.recomputing = true
  recompute.runs = recompute.runs + 1
  return done(former, pcall(fn, ...))
end

--- capl.checkpoint(fn, …) -> fn's results; activations are not stored; the backward pass calls fn again: less memory,
-- more time. The gradients have the same bits: dropout draws the same masks, batch norm counts a batch once.
-- in   fn: of up to 31 arguments; gives up to 6 tensors. A tensor with history that it uses has to be among its
--      arguments
-- errs value: another result than tensors; state, in the backward pass: a tensor from before that is no argument
function recompute.checkpoint(fn, ...)
  check.arg(1, "checkpoint", "function", fn)
  return core.recompute(run, fn, ...)
end

-- ---- modules ----

-- Layers from..to of a Sequential, one after the other.
local function layers_between(class, layers, from, to)
  return function(x)
    local part = {_layers = {}}
    for i = from, to do part._layers[#part._layers + 1] = layers[i] end
    return class.forward(part, x)
  end
end

-- A Sequential in parts of about equally many layers; the last one is kept, as its backward pass comes first.
local function in_segments(module, class, count)
  local layers = module._layers
  local ends, parts = {}, {}
  for i = 1, count do ends[i] = math.floor(#layers * i / count) end
  for i = 1, count do parts[i] = layers_between(class, layers, (ends[i - 1] or 0) + 1, ends[i]) end
  return function(_, x)
    for i = 1, count - 1 do x = recompute.checkpoint(parts[i], x) end
    return parts[count](x)
  end
end

--- nn.Checkpoint(module[, {segments}]) -> the same module, whose forward pass keeps its inputs only and is run again in
-- the backward pass. Names of parameters stay as they are.
-- opts segments: a Sequential in so many parts, of which the last one is kept; without, the module as a whole
-- paper T. Chen and others: Training deep nets with sublinear memory cost, 2016
-- eg   nn.Checkpoint(nn.Sequential{nn.Linear(2, 4), nn.ReLU()})(capl.zeros(3, 2)):size(2)  --> 4
function recompute.Checkpoint(module, opts)
  if not classes.is_module(module) then check.arg(1, "Checkpoint", "module", module) end
  local o = check.options("nn.Checkpoint", {{"segments", "whole"}}, opts)
  local class = getmetatable(module)
  if o.segments then
    local layers = rawget(module, "_layers")
    if not layers then check.fail("nn.Checkpoint", "segments are of a Sequential, not of a " .. class.__name) end
    if o.segments < 2 or o.segments > #layers then
      check.fail("nn.Checkpoint", ("segments: 2 to %d, the number of layers; got %d"):format(#layers, o.segments))
    end
    rawset(module, "forward", in_segments(module, class, o.segments))
  else
    local function forward(...) return class.forward(module, ...) end
    rawset(module, "forward", function(_, ...) return recompute.checkpoint(forward, ...) end)
  end
  return module
end

return recompute
