-- run_gap.lua: metrics on the val images: overfitting, no progress, an early stop that came early.
-- SPDX-License-Identifier: Apache-2.0
local value = require "report.value"

local function list_of(rows)
  local out = {}
  for _, row in ipairs(rows) do
    if value.number(row, "val_loss") then out[#out + 1] = row end
  end
  return out
end

-- Loss on training images near a step.
local function train_loss_at(points, step)
  local near
  for _, p in ipairs(points) do
    if value.number(p, "loss") and p.step <= step then near = p.loss end
  end
  return near
end

-- Whether every training image was new: a generator that draws others in every epoch.
local function never_repeats(r)
  local set = value.table(r.settings, "data", "train")
  local generator = value.table(set, "generator")
  return value.has(generator) and generator.fixed ~= true
end

-- What may bring the losses on val and training images together.
local function remedy(r)
  if never_repeats(r) then return "perhaps the same options for both sets: val images may be generated with other " ..
    "options" end
  return "perhaps augment = \"normal\" in data.loader, nn.Dropout, or more images"
end

local function check(ctx)
  local r = ctx.r
  local rows = list_of(r.evaluations)
  if #rows == 0 then return ctx:skip("the run was never evaluated on val images") end
  local best = rows[1]
  for _, row in ipairs(rows) do
    if row.val_loss < best.val_loss then best = row end
  end
  local last = rows[#rows]
  local train = train_loss_at(r.points, last.step)
  if #rows >= 4 and last.val_loss > 1.1 * best.val_loss and best.step < 0.7 * last.step then
    ctx:warn(("the loss on val images was lowest at step %d of %d (%.3g) and then rose to %.3g while the training " ..
      "loss was %.3g%s")
      :format(best.step, last.step, best.val_loss, last.val_loss, train or 0 / 0,
        never_repeats(r) and "" or ": the model overfits"),
      {where = ctx:line("augment%s*=", "data%.loader"), write = remedy(r) .. "; early_stop ends such a run sooner"})
  elseif train and #rows >= 2 and last.val_loss > 2 * train + 0.05 then
    ctx:note(("the loss on val images is %.3g, on training images %.3g"):format(last.val_loss, train),
      {where = ctx:line("augment%s*=", "data%.loader"), write = remedy(r)})
  end
  if #rows >= 6 then
    local third = rows[math.ceil(2 * #rows / 3)]
    if best.step <= third.step and last.val_loss < 1.1 * best.val_loss then
      ctx:note(("nothing got better on val images in the last third of the run, since step %d"):format(best.step),
        {where = ctx:line("steps%s*=", "samples%s*=", "epochs%s*=", "max_time%s*="),
          write = "perhaps early_stop, or a lower lr at the end"})
    end
  end
  return ("loss %.3g at best (step %d), %.3g at last"):format(best.val_loss, best.step, last.val_loss)
end

return {name = "val images", check = check}
