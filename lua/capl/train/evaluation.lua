-- evaluation.lua: what an evaluation leaves in the run's folder: evaluation.json, the sheet of samples, the confusions.
--
-- Images are read again from the source by the numbers of the samples, so that an evaluation holds none of them.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local fields = require "fields"
local Run = require "run"
local samples = require "train.samples"

local evaluation = {}

local PAIRS = 12 -- confusions that are shown with samples

local function must(done, why)
  if not done then core.error{code = "io", message = why, path = false} end
end

-- ---- lines ----

--- Prints what a meter of train.evaluate has counted. name: "test images"
function evaluation.print(run, name, meter)
  local lines = meter.lines and meter:lines() or {{"", evaluation.line(meter)}}
  for i, line in ipairs(lines) do run:print(("%-14s %s"):format((i == 1 and name or line[1]) .. ":", line[2])) end
  if meter.replaced > 0 then
    run:print(("note: %d of these are unreadable files replaced by others"):format(meter.replaced))
  end
end

--- A meter's line(), or its main metric.
function evaluation.line(meter)
  if meter.line then return meter:line() end
  return ("%s %.4g"):format(meter.main, meter:result()[meter.main])
end

-- The same for a title, without intervals where the picture is narrow.
local function title_line(meter)
  local line = evaluation.line(meter)
  return meter.caption and line or (line:gsub(" %[[^%]]*%]", ""))
end

local shares = {}
for _, kind in ipairs(fields.kinds) do
  if kind.is_share then shares[kind.metric] = true end
end

--- A few words for the line that is redrawn: "val 96.1 %".
function evaluation.note(meter)
  local value = meter:result()[meter.main]
  if shares[meter.main] then return ("val %.1f %%"):format(100 * value) end
  return ("val %s %.4g"):format(meter.main, value)
end

-- ---- samples ----

-- Writes the image of a sample below the folder -> its path there; each once.
local function write_image(job, id)
  local known = job.images[id]
  if not job.folder then return nil end
  if known ~= nil then return known or nil end
  local image, path = samples.image_of(job.meter, id), ("evaluation/%d.png"):format(id)
  if image then
    must(core.sys.mkdir(job.folder .. "/evaluation"))
    core.data.png_write(job.folder .. "/" .. path, image)
  end
  job.images[id] = image and path or false
  return image and path or nil
end

-- Small pictures of what was read, as files: each entry gets the path of its own.
local function write_overlays(job, entries)
  if not job.folder or not entries then return end
  local thumbs, place = samples.thumbs(job.meter, entries), "evaluation/overlay" .. job.suffix
  if next(thumbs) then must(core.sys.mkdir(job.folder .. "/" .. place)) end
  for _, entry in ipairs(entries) do
    if thumbs[entry.id] then
      entry.overlay = ("%s/%d.png"):format(place, entry.id)
      core.data.png_write(job.folder .. "/" .. entry.overlay, thumbs[entry.id])
    end
  end
end

-- Copies of entries with the names of their samples, and their images as files.
local function described(job, entries)
  local out = {}
  for i, entry in ipairs(entries) do
    out[i] = {name = samples.name_of(job.meter, entry.id), image = write_image(job, entry.id)}
    for key, value in pairs(entry) do out[i][key] = value end
  end
  return out[1] and out or nil
end

-- ---- confusions ----

local function shown(character) return character == "" and "nothing" or character end

-- Samples beside the confusions.
local function groups_of(meter)
  local groups = {}
  for i, pair in ipairs(meter.pairs_with_samples and meter:pairs_with_samples(PAIRS) or {}) do
    local cells = {}
    for _, sample in ipairs(pair.samples) do
      local image = samples.image_of(meter, sample.id)
      if image then cells[#cells + 1] = {image = image} end
    end
    groups[i] = {cells = cells, title = ("%s read as %s: %d"):format(shown(pair.truth), shown(pair.read), pair.count)}
  end
  return groups
end

-- Without the labels that were neither meant nor read.
local function used(confusion)
  local kept, labels, counts = {}, {}, {}
  for i = 1, #confusion.labels do
    local sum = 0
    for k = 1, #confusion.labels do sum = sum + confusion.counts[i][k] + confusion.counts[k][i] end
    if sum > 0 then kept[#kept + 1] = i end
  end
  for row, i in ipairs(kept) do
    labels[row], counts[row] = confusion.labels[i] == "" and "-" or confusion.labels[i], {}
    for column, k in ipairs(kept) do counts[row][column] = confusion.counts[i][k] end
  end
  return labels, counts
end

-- confusion.png: what was taken for what, with samples of the most frequent mistakes.
local function draw_confusion(meter, path, name)
  local confusion = meter:write().confusion
  if not confusion then return end
  local labels, counts = used(confusion)
  if #labels == 0 or #labels > 200 then return end
  require("plot").matrix{path = path, title = name .. ": " .. evaluation.line(meter), labels = labels, counts = counts,
    row_label = "meant", column_label = "read as", groups = groups_of(meter)}
end

-- ---- the file ----

local function pairs_of(job)
  local out = {}
  for i, pair in ipairs(job.meter:pairs_with_samples(PAIRS)) do
    out[i] = {truth = pair.truth, read = pair.read, count = pair.count, samples = described(job, pair.samples)}
  end
  return out[1] and out
end

-- suffix: of the names of files, of one output of several
local function facts_of(meter, folder, suffix)
  local out = meter.write and meter:write() or meter:result()
  local job = {meter = meter, folder = folder, images = {}, suffix = suffix}
  for _, key in ipairs{"kind", "role", "main", "better", "loss", "replaced"} do out[key] = meter[key] end
  out.value = out[meter.main]
  if meter.samples then
    out.worst = described(job, meter:samples().wrong)
    write_overlays(job, out.worst)
  end
  if meter.pairs_with_samples then out.pairs = pairs_of(job) end
  return out
end

--- All that is known of an evaluation, for evaluation.json.
-- in   meter of train.evaluate; folder: where images of samples go, nil for none
-- out  table: the meter's write() with kind, role, main, better, value (of main), loss and replaced; worst: list of
--      {id, name,
--      image = path below the folder, …}; pairs: list of {truth, read, count, samples = {{id, name, image, place}, …}};
--      outputs: the same of each of several outputs, by name
function evaluation.of(meter, folder)
  local out = facts_of(meter, folder, "")
  for _, part in ipairs(meter.parts and meter:each() or {}) do
    out.outputs = out.outputs or {}
    out.outputs[part.name] = facts_of(part.meter, folder, "-" .. part.name)
  end
  return out
end

local function draw(meter, folder, suffix, name)
  if meter.samples then
    samples.draw(meter, ("%s/samples%s.png"):format(folder, suffix), name .. ": " .. title_line(meter))
  end
  if meter.write then draw_confusion(meter, ("%s/confusion%s.png"):format(folder, suffix), name) end
end

--- Writes evaluation.json, samples.png, confusion.png and the images of the samples into a folder; of several outputs
-- samples-NAME.png and confusion-NAME.png.
-- in   meter; folder, which is there; name: what the pictures are titled; object: what the file holds, of evaluation.of
function evaluation.write(meter, folder, name, object)
  must(core.sys.write(folder .. "/evaluation.json",
    core.json_encode(object or evaluation.of(meter, folder), true) .. "\n"))
  draw(meter, folder, "", name)
  for _, part in ipairs(meter.parts and meter:each() or {}) do
    draw(part.meter, folder, "-" .. part.name, name .. ", " .. part.name)
  end
end

--- train.save_evaluation(meter[, name]) writes evaluation.json, samples.png and confusion.png into the run's
-- folder, with a name into its folder tests/NAME; not under check, bench and at the prompt.
function evaluation.save(meter, name)
  if type(meter) ~= "table" or not meter.result then
    check.fail("train.save_evaluation", "takes what train.evaluate returns")
  end
  local run = Run.of(observer)
  if run.mode ~= "run" then return end
  local folder = run:folder()
  if name then
    folder = folder .. "/tests/" .. name
    must(core.sys.mkdir(run:folder() .. "/tests"))
    must(core.sys.mkdir(folder))
  end
  evaluation.write(meter, folder, name and run:name() .. ", " .. name or run:name())
end

return evaluation
