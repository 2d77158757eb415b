-- summary.lua: a table of a model's layers: output shapes, parameters, multiply-accumulates.
--
-- The model runs once on the meta device: its tensors are exchanged for ones without memory, and back.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local classes = require "module_class"
local digit_groups = require "digit_groups"
local labels = require "nn.labels"

local MOST_WIDE = 99 -- of a column: what format takes

local function tensors_of(model)
  local out = {}
  for _, p in model:named_parameters() do out[#out + 1] = p end
  for _, b in model:named_buffers() do out[#out + 1] = b end
  return out
end

-- Runs fn while all tensors of model are on meta.
local function on_meta(model, fn)
  local real, shells = tensors_of(model), {}
  for i, tensor in ipairs(real) do shells[i] = core.copy_to(tensor, "meta") end
  local function exchange()
    for i, tensor in ipairs(real) do core.swap(tensor, shells[i]) end
  end
  local device, training, fuse = core.device(), model.training, observer.fuse
  exchange()
  core.device("meta")
  observer.fuse = false -- every layer shows up
  model:eval()
  local ok, why = pcall(core.no_grad, fn)
  model:train(training)
  observer.fuse = fuse
  core.device(device)
  exchange()
  for _, shell in ipairs(shells) do shell:free() end
  if not ok then error(why, 0) end
end

local function own_parameters(module, counted)
  local n = 0
  for name, tensor in pairs(module) do
    if core.is_tensor(tensor) and module._named[name] == "parameter" and not counted[tensor] then
      counted[tensor] = true
      n = n + tensor:numel()
    end
  end
  return n
end

local function shape_text(shape) return "(" .. table.concat(shape, ",") .. ")" end

local function render(s)
  local rows, wide = {{"layer", "", "output", "parameters", "MACs"}}, {0, 0, 0, 0, 0}
  for _, row in ipairs(s.rows) do
    rows[#rows + 1] = {row.name, row.layer, row.shape and shape_text(row.shape) or "",
      row.parameters > 0 and digit_groups(row.parameters) or "", row.macs > 0 and digit_groups(row.macs) or ""}
  end
  rows[#rows + 1] = {"total", "", "", digit_groups(s.parameters), digit_groups(s.macs)}
  for _, row in ipairs(rows) do
    for c, text in ipairs(row) do wide[c] = math.min(MOST_WIDE, math.max(wide[c], #text)) end
  end
  local format = ("%%-%ds  %%-%ds  %%-%ds  %%%ds  %%%ds"):format(unpack(wide))
  local lines = {}
  for i, row in ipairs(rows) do lines[i] = (format:format(unpack(row)):gsub("%s+$", "")) end
  return table.concat(lines, "\n")
end

local Summary = {__tostring = render}

-- A module of others has a row where it computes or keeps something itself, as attention does.
local function without_idle(rows)
  local out = {}
  for _, row in ipairs(rows) do
    if not row.whole or row.macs > 0 or row.parameters > 0 then out[#out + 1] = row end
  end
  return out
end

--- Table of the layers of a model for an input of the given sizes.
-- in   model; sizes {N, C, H, W} of the input; opts dtype = "f32"; call = function(): calls the model in another way
--      than with a tensor of these sizes, for as many samples
-- out  {rows = {{name, layer, shape, parameters, macs}}, parameters, macs}: MACs of one sample; tostring draws it.
--      A module that runs twice has a row for each time, its parameters only in the first. One of other modules has a
--      row for what it computes itself: a matmul in its forward, attention.
-- eg   nn.summary(nn.Linear(8, 2), {1, 8}).macs  --> 16
local function summary(model, sizes, opts)
  if not classes.is_module(model) then check.arg(1, "summary", "module", model) end
  check.arg(2, "summary", "table", sizes)
  local o = check.options("summary", {{"dtype", "string", default = "f32"}, {"call", "function"}}, opts)
  local rows, counted, events = {}, {}, nil
  local function seen(module, name, out)
    local whole = #module:children() > 0
    rows[#rows + 1] = {name = name, layer = whole and module.__name .. ", its own" or module:describe(), whole = whole,
      shape = core.is_tensor(out) and out.shape or nil, parameters = own_parameters(module, counted), macs = 0,
      label = name}
  end
  on_meta(model, function()
    local x = core.empty(sizes, {dtype = o.dtype, device = "meta"})
    events = labels.observe(model, seen, core.trace, o.call or function() model(x) end)
  end)
  local result = {rows = rows, parameters = model:parameter_count(), macs = 0}
  local first = {}
  for _, row in ipairs(rows) do first[row.label] = first[row.label] or row end
  for _, event in ipairs(events) do
    local macs = event.macs / math.max(sizes[1] or 1, 1)
    result.macs = result.macs + macs
    if first[event.label] then first[event.label].macs = first[event.label].macs + macs end
  end
  result.rows = without_idle(rows)
  return setmetatable(result, Summary)
end

return summary
