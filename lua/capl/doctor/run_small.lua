-- run_small.lua: overfitting on few samples: training texts are read far better than others, as their loss shows; of
-- points, boxes and numbers the loss is far lower on training samples, which say less than the model has parameters.
-- SPDX-License-Identifier: Apache-2.0
local fields = require "fields"
local value = require "report.value"

local FEW = 10000 -- images; with more the remedies are others
local GAP = 0.15 -- of whole samples
local RECENT = 0.1 -- share of the curve
local TIMES = 2 -- the loss on val samples over that on training samples

-- Mean training loss at the end of the curve; nil without any.
local function recent_loss(points)
  local first, sum, n = math.max(1, math.floor(#points * (1 - RECENT))), 0, 0
  for i = first, #points do
    local loss = value.number(points[i], "loss")
    if loss then sum, n = sum + loss, n + 1 end
  end
  return n > 0 and sum / n or nil
end

-- Another loss than the usual one of a character or class, which says nothing of how likely a text is; nil when all is
-- well or unknown.
local function other_loss(r, usual)
  for _, first in ipairs(value.table(r.result, "initial_loss")) do
    local name = value.text(first, "loss")
    if name and name ~= usual then return name end
  end
end

local function remedies(r, kind)
  local list, augment = {}, value.at(r.settings, "settings", "augment", "value")
  if augment == false or augment == "none" then list[1] = "augment = true" end
  list[#list + 1] = kind.pretrains
  list[#list + 1] = "more images (capl sweep RECIPE --grid fraction=0.1,0.3,1 measures their effect)"
  return "in this order: " .. table.concat(list, "; ")
end

-- The share of val samples that are read right, how many losses make a sample, and the kind; nil where none says it.
local function whole(r, set)
  local row, meter = r.evaluations[#r.evaluations], value.text(r.evaluation, "kind")
  for _, kind in ipairs(row and fields.kinds or {}) do
    if kind.whole and (not meter or meter == kind.meter) then
      local metric, losses, loss = kind.whole(set)
      local share = value.number(row, "val_" .. metric)
      if share and losses then return share, losses, kind, loss or "cross_entropy" end
    end
  end
end

-- Texts and classes: exp(-mean loss of a character * characters) is how likely the model finds a whole one of its
-- training.
local function check_whole(ctx, r, count, loss, exact, length, kind, usual)
  local other = other_loss(r, usual)
  if other then return ctx:skip(other .. " does not show how many " .. kind.answers .. " are read") end
  local read = math.exp(-length * loss)
  if count < FEW and read - exact > GAP then
    ctx:warn(("%d training images are overfitted: their loss corresponds to %.0f %% exact accuracy, and on the val " ..
      "images it is %.0f %%")
      :format(count, 100 * read, 100 * exact), {where = ctx:line("augment%s*=", "data%.loader"),
        write = remedies(r, kind)})
  end
  return ("the loss of the training images is that of %.0f %% of the %s, of val images %.0f %% are read"):format(100
    * read, kind.answers, 100 * exact)
end

-- Numbers that a sample gives the model to learn, of all of its outputs; nil where no kind counts them.
local function numbers_said(evaluation)
  local outputs, sum = value.table(evaluation, "outputs"), nil
  for _, name in ipairs(value.keys(outputs)) do
    local more = numbers_said(outputs[name])
    sum = more and (sum or 0) + more or sum
  end
  for _, kind in ipairs(fields.kinds) do
    if kind.says and kind.meter == value.text(evaluation, "kind") then return sum or kind.says(evaluation, value) end
  end
  return sum
end

-- Points, boxes, numbers: fewer of them than parameters can be learned by heart, and the losses show whether they are.
local function check_numbers(ctx, r, count, loss, said)
  local val = value.number(r.evaluations[#r.evaluations], "val_loss")
  local parameters = value.number(r.settings, "model", "trainable")
  if not val or not parameters then return ctx:skip("no loss on val samples and no model are recorded") end
  local times, what = val / loss, ("%.0f numbers of %d training samples for %d parameters"):format(count * said, count,
    parameters)
  if count < FEW and count * said < parameters and loss > 0 and times > TIMES then
    ctx:warn(("%d training samples are overfitted: %s, and the loss on val samples is %.1f times that on them"):format(
      count, what, times), {where = ctx:line("augment%s*=", "data%.loader"), write = remedies(r, {})})
  end
  return ("%s; loss %.3g, on val samples %.3g"):format(what, loss, val)
end

local function check(ctx)
  local r = ctx.r
  local set = value.table(r.settings, "data", "train")
  local count, generator = value.number(set, "count"), value.table(set, "generator")
  local exact, length, kind, usual = whole(r, {length = value.number(set, "length"),
    classes = value.number(set, "classes")})
  local said = not exact and numbers_said(r.evaluation)
  if not count or not exact and not said then
    return ctx:skip("no training set and no evaluation that shows it are recorded")
  end
  if value.has(generator) and generator.fixed ~= true then
    return ctx:skip("the generator never draws an image twice")
  end
  local loss = recent_loss(r.points)
  if not loss then return ctx:skip("the curve has no losses") end
  if exact then return check_whole(ctx, r, count, loss, exact, length, kind, usual) end
  return check_numbers(ctx, r, count, loss, said)
end

return {name = "small set", check = check}
