-- dead_units.lua: channels behind a ReLU that fire for no image of several batches.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local forward = require "forward"
local labels = require "nn.labels"
local units = require "doctor.units"

local BATCHES = 3
local MANY = 0.2 -- share of a layer that is reported

local function look(ctx)
  local o, seen = ctx.o, units.new()
  local function note(module, _, y) seen:note(module, y) end
  for _ = 1, BATCHES do
    local batch = ctx:batch()
    labels.observe(o.model, note, core.no_grad, function() forward.output(o, batch) end)
  end
  return seen
end

-- Forward passes of their own, after which all is as before.
local function seen_by_fit(ctx)
  local saved, fuse = ctx:save(), observer.fuse
  observer.fuse = false -- every layer shows its result
  ctx.o.model:train()
  local ok, seen = pcall(look, ctx)
  observer.fuse = fuse
  saved:restore()
  if not ok then error(seen, 0) end
  return seen
end

local function check(ctx)
  local layers = (ctx.o and seen_by_fit(ctx) or ctx.seen.units):layers(ctx.model)
  local channels, dead = 0, 0
  for _, layer in ipairs(layers) do
    channels, dead = channels + layer.channels, dead + layer.dead
    local share = layer.dead / layer.channels
    if share > MANY then
      local report = share == 1 and ctx.error or ctx.warn
      report(ctx, ("%d of the %d channels after %s are zero for all images of %d batches"):format(
        layer.dead, layer.channels, layer.name, BATCHES),
        {where = ctx:line("nn%.init", "nn%.ReLU"),
        write = "perhaps a lower lr, the layer's own init, or nn.BatchNorm2d before the ReLU"})
    end
  end
  if #layers == 0 then return "no ReLU in the model" end
  return ("%d of %d channels after %d ReLUs are always zero"):format(dead, channels, #layers)
end

return {name = "dead units", check = check}
