-- run_small.lua: overfitting on few images: training texts are read far better than others, as their loss shows.
-- SPDX-License-Identifier: Apache-2.0
local fields = require "fields"
local value = require "report.value"

local FEW = 10000 -- images; with more the remedies are others
local GAP = 0.15 -- of whole samples
local RECENT = 0.1 -- share of the curve

-- exp(-mean loss of a character * characters) is how likely the model finds a whole text of its training.
local function share_read(points, length)
  local first, sum, n = math.max(1, math.floor(#points * (1 - RECENT))), 0, 0
  for i = first, #points do
    local loss = value.number(points[i], "loss")
    if loss then sum, n = sum + loss, n + 1 end
  end
  return n > 0 and math.exp(-length * sum / n) or nil
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

local function check(ctx)
  local r = ctx.r
  local set = value.table(r.settings, "data", "train")
  local count = value.number(set, "count")
  local exact, length, kind, loss = whole(r, {length = value.number(set, "length"),
    classes = value.number(set, "classes")})
  if not count or not exact then
    return ctx:skip("no training set and no evaluation of texts or classes are recorded")
  end
  local generator = value.table(set, "generator")
  if value.has(generator) and generator.fixed ~= true then
    return ctx:skip("the generator never draws an image twice")
  end
  local other = other_loss(r, loss)
  if other then return ctx:skip(other .. " does not show how many " .. kind.answers .. " are read") end
  local read = share_read(r.points, length)
  if not read then return ctx:skip("the curve has no losses") end
  if count < FEW and read - exact > GAP then
    ctx:warn(("%d training images are overfitted: their loss corresponds to %.0f %% exact accuracy, and on the val " ..
      "images it is %.0f %%")
      :format(count, 100 * read, 100 * exact), {where = ctx:line("augment%s*=", "data%.loader"),
        write = remedies(r, kind)})
  end
  return ("the loss of the training images is that of %.0f %% of the %s, of val images %.0f %% are read"):format(100
    * read, kind.answers, 100 * exact)
end

return {name = "small set", check = check}
