-- preview.lua: `capl preview RECIPE`: a sheet of training images as the recipe's augmentation leaves them.
--
-- The recipe runs up to its first train loader; what that would make is drawn from its source, with other random
-- numbers in each column. A section for each stage of a schedule, or one for the epoch that is asked for.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local options = require "cli.options"
local plot = require "plot"
local recipe = require "cli.execute"
local show = require "augment.show"
local kinds = require "fields"

local spec = {
  {name = "out", type = "text", value = "FILE", default = "preview.png", doc = "output PNG file"},
  {name = "epoch", type = "number", from = 1, to = 2 ^ 31 - 1,
  doc = "shows the start of this epoch, instead of all stages"},
  {name = "samples", type = "number", from = 1, to = 64, default = 4, doc = "number of samples (rows)"},
  {name = "columns", type = "number", from = 2, to = 16, default = 6,
    doc = "images per row: a sample without augmentation, then augmented; without augmentation, other samples"},
}

local ENDLESS = 2 ^ 32 - 1

-- Samples from all over a source; of an endless one the first.
local function chosen(loader, n)
  local source, count = loader.source.box, loader.source.box:count()
  n = math.min(n, count)
  if count == ENDLESS then return source, n end
  local ids = {}
  for i = 1, n do ids[i] = math.floor((i - 1) * count / n) end
  return source:subset(ids), n
end

-- ---- batches ----

-- The samples as `like` says, with random numbers of their own: {batch=, i=} for each. Images of several widths are in
-- several batches,
-- in any order.
local function rows_of(source, n, like, seed, epoch)
  local box = core.data.loader(source, {batch = n, dtype = "u8", seed = seed, like = like, on_error = "skip"})
  local rows, places = {}, {}
  box:epoch(epoch)
  repeat
    local batch, ids = box:next()
    for i, id in ipairs(batch and source:widths() and core.data.loader_ids(ids) or {}) do
      places[id] = {batch = batch, i = i}
    end
    for i = 1, batch and not source:widths() and batch.count or 0 do rows[#rows + 1] = {batch = batch, i = i} end
  until not batch or #rows >= n
  for id = 0, n - 1 do rows[#rows + 1] = places[id] end
  return rows
end

local function with_plain(like)
  local out = {plain = true}
  for key, value in pairs(like) do out[key] = value end
  return out
end

-- ---- views ----

local function text_of(loader, target, i)
  return kinds.of_labels(loader).spell(loader, target:narrow(1, i, 1):reshape(-1):tolist())
end

-- "7K0Q", of a mixed sample "7K0Q 70 % + B3".
local function caption(loader, batch, i)
  if not batch.target or not kinds.of_labels(loader) then return nil end
  local text = text_of(loader, batch.target, i)
  local share = batch.mix and batch.mix:reshape(-1):tolist()[i] or 1
  if share == 1 or not batch.target2 then return text end
  return ("%s %.0f %% + %s"):format(text, 100 * share, text_of(loader, batch.target2, i))
end

-- plain: the row without augmentation.
local function view(loader, fields, row, plain)
  local batch, i = row.batch, row.i
  local out = {image = batch.image:narrow(1, i, 1), caption = caption(loader, batch, i)}
  for _, field in ipairs(fields) do
    local value, kind = batch[field.name], kinds.of_field(field)
    if value and kind.view then
      kind.view(out, value:narrow(1, i, 1):squeeze(1), plain.batch[field.name]:narrow(1, plain.i, 1):squeeze(1))
    end
  end
  return out
end

-- Where nothing is augmented, all columns of a sample would be the same: other samples stand there.
local function plain_views(loader, like, o)
  local source, n = chosen(loader, o.samples * o.columns)
  local out, fields = {}, source:fields()
  for i, row in ipairs(rows_of(source, n, like, 0, o.epoch or 1)) do out[i] = view(loader, fields, row, row) end
  return out
end

-- A row for each sample: without augmentation, then with one draw after the other.
local function views(loader, like, o, values)
  if not show.augments(values) then return plain_views(loader, like, o) end
  local source, n = chosen(loader, o.samples)
  local epoch = o.epoch or 1
  local columns = {rows_of(source, n, with_plain(like), 0, epoch)}
  for k = 2, o.columns do columns[k] = rows_of(source, n, like, k, epoch) end
  local out, fields = {}, source:fields()
  for i = 1, #columns[1] do
    for _, rows in ipairs(columns) do
      if rows[i] then out[#out + 1] = view(loader, fields, rows[i], columns[1][i]) end
    end
  end
  return out
end

-- ---- sections ----

local function note_of(values)
  return show.values(values) .. (show.augments(values) and "" or "; every picture is another sample")
end

local function section_of_stage(loader, stage, o)
  local values = loader.box:stage_values(stage.number)
  local ramp = stage.ramp > 0 and ", over " .. show.ramp(stage) or ""
  return {title = ("%s, from %s%s"):format(show.title(stage), show.from(stage), ramp), note = note_of(values),
    views = views(loader, {loader = loader.box, stage = stage.number}, o, values),
    plain = not show.augments(values)}
end

local function section_of_step(loader, step, title, o)
  local values = loader.box:stage_at(step)
  local share = values.share < 1 and (", %.0f %% of its ramp"):format(100 * values.share) or ""
  if loader.schedule then title = title .. ": " .. show.title(loader.schedule.stages[values.stage]) .. share end
  return {title = title, note = note_of(values), views = views(loader, {loader = loader.box, step = step}, o, values),
    plain = not show.augments(values)}
end

local function sections(loader, o)
  if o.epoch then
    return {section_of_step(loader, (o.epoch - 1) * loader:batches(), ("epoch %d"):format(o.epoch), o)}
  end
  if not loader.schedule then return {section_of_step(loader, 0, "training images", o)} end
  local out = {}
  for i, stage in ipairs(loader.schedule.stages) do out[i] = section_of_stage(loader, stage, o) end
  return out
end

local function main(job)
  local o, words, rest = options.read(job.args, spec, {command = "preview", rest = true})
  if words[1] then core.fail(("'%s' is no option; write --key=value"):format(words[1])) end
  local loader = recipe.train_loader(job, {mode = "preview", args = rest, quiet = true})
  core.device("cpu")
  local list, any = sections(loader, o), false
  for _, section in ipairs(list) do
    any = any or not section.plain
    section.plain = nil
  end
  plot.gallery{path = o.out, title = job.run:name(), columns = o.columns, sections = list,
    first = any and "as it is" or nil, rest = any and "augmented" or nil}
  core.sys.out(("%s: %d stage%s of %s\n"):format(o.out, #list, #list == 1 and "" or "s", job.recipe))
end

return {main = main, options = spec, examples = {
  {"capl preview mine.lua --samples=6", "writes preview.png: six images, each in six variants"},
}}
