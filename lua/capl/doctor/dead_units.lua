-- dead_units.lua: channels behind a ReLU that fire for no image of several batches.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local labels = require "nn.labels"
local settings = require "nn.settings"

local BATCHES = 3
local MANY = 0.2 -- share of a layer that is told

-- Largest value of each channel (dim 2) over everything else.
local function peaks(y)
  return core.no_grad(function()
    local dims = {}
    for d = 1, y.ndim do
      if d ~= 2 then dims[#dims + 1] = d end
    end
    return y:to("f32"):amax(dims):tolist()
  end)
end

local function look(ctx)
  local o, capl = ctx.o, require "init"
  local layers, order = {}, {}
  local function seen(module, name, y)
    if module.__name ~= "ReLU" or not core.is_tensor(y) or y.ndim < 2 then return end
    if not layers[name] then
      layers[name] = {}
      order[#order + 1] = name
    end
    for c, value in ipairs(peaks(y)) do layers[name][c] = math.max(layers[name][c] or 0, value) end
  end
  for _ = 1, BATCHES do
    local batch = ctx:batch()
    labels.observe(o.model, seen, core.no_grad, function() capl.autocast(o.precision, o.model, o.input(batch)) end)
  end
  return layers, order
end

local function check(ctx)
  local o = ctx.o
  if not o then return ctx:skip("the recipe has a loop of its own") end
  local saved, fuse = ctx:save(), settings.fuse
  settings.fuse = false -- every layer shows its result
  o.model:train()
  local ok, layers, order = pcall(look, ctx)
  settings.fuse = fuse
  saved:restore()
  if not ok then error(layers, 0) end
  local units, dead_units = 0, 0
  for _, name in ipairs(order) do
    local dead = 0
    for _, most in ipairs(layers[name]) do
      if most <= 0 then dead = dead + 1 end
    end
    units, dead_units = units + #layers[name], dead_units + dead
    local share = dead / #layers[name]
    if share > MANY then
      local tell = share == 1 and ctx.error or ctx.warn
      tell(ctx, ("%d of the %d channels behind %s fire for no image of %d batches"):format(dead, #layers[name], name, BATCHES),
        {where = ctx:line("nn%.init", "nn%.ReLU"), write = "a lower lr, the layer's own init, or nn.BatchNorm2d before the ReLU"})
    end
  end
  if #order == 0 then return "no ReLU in the model" end
  return ("%d of %d channels behind %d ReLUs never fire"):format(dead_units, units, #order)
end

return {name = "dead units", check = check}
