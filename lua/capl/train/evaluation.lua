-- evaluation.lua: what an evaluation leaves in the run's folder: evaluation.json, the sheet of samples, the confusions.
--
-- Images are read again from the source by the numbers of the samples, so that an evaluation holds none of them.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local Run = require "run"

local evaluation = {}

local CELLS = 24 -- pictures on the sheet of samples
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

local shares = {exact = true, miou = true, accuracy = true}

--- A few words for the line that is redrawn: "val 96.1 %".
function evaluation.note(meter)
  local value = meter:result()[meter.main]
  if shares[meter.main] then return ("val %.1f %%"):format(100 * value) end
  return ("val %s %.4g"):format(meter.main, value)
end

-- ---- samples ----

-- The image of a sample as it lies in its source, u8 (1,C,H,W), and its fields; nil when there is none or its file went
-- away.
local function image_of(meter, id)
  local source = meter.loader and meter.loader.source
  if not source or not source.box then return nil end
  local read, image, _, fields = pcall(source.box.read, source.box, 1, id)
  if read then return image, fields or {} end
  if core.is_error(image) and image.code == "device" then error(image, 0) end -- a lost GPU is no missing picture
end

local function name_of(meter, id)
  local source = meter.loader and meter.loader.source
  return source and source.name and source:name(id) or nil
end

-- Writes the image of a sample below the folder -> its path there; each once.
local function write_image(job, id)
  local known = job.images[id]
  if not job.folder then return nil end
  if known ~= nil then return known or nil end
  local image, path = image_of(job.meter, id), ("evaluation/%d.png"):format(id)
  if image then
    must(core.sys.mkdir(job.folder .. "/evaluation"))
    core.data.png_write(job.folder .. "/" .. path, image)
  end
  job.images[id] = image and path or false
  return image and path or nil
end

-- Copies of entries with the names of their samples, and their images as files.
local function described(job, entries)
  local out = {}
  for i, entry in ipairs(entries) do
    out[i] = {name = name_of(job.meter, entry.id), image = write_image(job, entry.id)}
    for key, value in pairs(entry) do out[i][key] = value end
  end
  return out[1] and out or nil
end

-- ---- pictures ----

-- Half of the cells for wrong ones, the rest for right ones; either takes what the other leaves.
local function chosen(samples)
  local wrong = math.min(#samples.wrong, math.max(CELLS / 2, CELLS - #samples.right))
  local cells = {}
  for i = 1, wrong do cells[i] = samples.wrong[i] end
  for i = 1, math.min(#samples.right, CELLS - wrong) do cells[#cells + 1] = samples.right[i] end
  return cells
end

local function cell(meter, e)
  local image = image_of(meter, e.id)
  local caption, truth = meter.caption(e)
  return image and {image = image, caption = caption, truth = truth, good = e.truth == e.read,
    note = e.confidence and ("%.0f %%"):format(100 * e.confidence)} or nil
end

local function captioned_sheet(meter, path, name)
  local cells = {}
  for _, e in ipairs(chosen(meter:samples())) do cells[#cells + 1] = cell(meter, e) end
  if #cells > 0 then
    require("plot").sheet{path = path, title = name .. ": " .. evaluation.line(meter), columns = 4, cells = cells}
  end
end

-- Points (P,3) as pictures take them: those that the sample does not have, which stand at (0,0), are none.
local function points_of(points)
  local rows = points:tolist()
  for _, row in ipairs(rows) do row[3] = row[3] ~= 0 and 1 or -1 end
  return core.tensor(rows)
end

-- The same of a list of {x, y} that was read; what is said of a point that there is not counts for nothing.
local function read_points(meter, list, truth)
  local rows, there = {}, truth:tolist()
  for i, xy in ipairs(list) do
    local point = there[meter.points and meter.points[i] or i]
    rows[i] = {xy[1], xy[2], point and point[3] == 0 and -1 or 1}
  end
  return core.tensor(rows)
end

local function without_batch(t) return t and t:reshape(unpack(t.shape, 2)) end

-- What a model says of a mask's images, by their numbers: the meter keeps no masks, so they are read once more. Weights
-- that have changed since say something else; then there is nothing to show.
local function masks_of(meter, entries)
  local ids, out = {}, {}
  for i, e in ipairs(entries) do ids[i] = e.id end
  if meter.kind ~= "segmentation" or not meter.again or not meter.loader.low or #ids == 0 then return out end
  local batch, output = meter.again(ids)
  local read = output:to("f32"):argmax(2):to("f32")
  local right, all = read:eq(batch.mask:to("f32")):to("f32"), batch.mask:to("f32"):ne(meter.ignore):to("f32")
  local parts = ((right * all):reshape(#ids, -1):sum(2) / all:reshape(#ids, -1):sum(2)):tolist()
  for i, e in ipairs(entries) do
    if math.abs(parts[i] - e.accuracy) < 1e-5 then
      out[e.id] = read:narrow(1, i, 1):reshape(read:size(2), read:size(3)):to("u8")
    end
  end
  return out
end

-- The image with what was read over it, where the meter has kept it, and beside it with the truth.
local function views_of(meter, e, masks)
  local image, fields = image_of(meter, e.id)
  if not image then return {} end
  local caption = e.distance and ("off by %.1f px"):format(e.distance) or e.accuracy
    and ("%.1f %% right"):format(100 * e.accuracy)
  local points = without_batch(fields.points)
  local truth = {image = image, mask = without_batch(fields.mask), points = points and points_of(points),
    caption = "truth"}
  return {{image = image, points = e.read and points and read_points(meter, e.read, points), mask = masks[e.id],
    caption = caption}, truth}
end

local function gallery(meter, path, name)
  local views, entries = {}, {}
  for i, e in ipairs(meter:samples().wrong) do entries[i] = i <= CELLS / 2 and e or nil end
  local masks = masks_of(meter, entries)
  for _, e in ipairs(entries) do
    for _, view in ipairs(views_of(meter, e, masks)) do views[#views + 1] = view end
  end
  if #views == 0 then return end
  local short = evaluation.line(meter):match("^[^,]+")
  require("plot").gallery{path = path, title = name .. ": " .. short, columns = 4,
    sections = {{title = "the worst ones", views = views}}}
end

-- samples.png: the worst readings, and some right ones of texts and classes, with the confidence of each.
local function draw_samples(meter, path, name)
  if meter.caption then captioned_sheet(meter, path, name) else gallery(meter, path, name) end
end

local function shown(character) return character == "" and "nothing" or character end

-- Samples beside the confusions.
local function groups_of(meter)
  local groups = {}
  for i, pair in ipairs(meter.pairs_with_samples and meter:pairs_with_samples(PAIRS) or {}) do
    local cells = {}
    for _, sample in ipairs(pair.samples) do
      local image = image_of(meter, sample.id)
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

--- All that is known of an evaluation, for evaluation.json.
-- in   meter of train.evaluate; folder: where images of samples go, nil for none
-- out  table: the meter's write() with kind, role, main, better, value (of main), loss and replaced; worst: list of
--      {id, name,
--      image = path below the folder, …}; pairs: list of {truth, read, count, samples = {{id, name, image, place}, …}}
function evaluation.of(meter, folder)
  local out = meter.write and meter:write() or meter:result()
  local job = {meter = meter, folder = folder, images = {}}
  for _, key in ipairs{"kind", "role", "main", "better", "loss", "replaced"} do out[key] = meter[key] end
  out.value = out[meter.main]
  if meter.samples then out.worst = described(job, meter:samples().wrong) end
  if meter.pairs_with_samples then
    for i, pair in ipairs(meter:pairs_with_samples(PAIRS)) do
      out.pairs = out.pairs or {}
      out.pairs[i] = {truth = pair.truth, read = pair.read, count = pair.count, samples = described(job, pair.samples)}
    end
  end
  return out
end

--- Writes evaluation.json, samples.png, confusion.png and the images of the samples into a folder.
-- in   meter; folder, which is there; name: what the pictures are titled; object: what the file holds, of evaluation.of
function evaluation.write(meter, folder, name, object)
  must(core.sys.write(folder .. "/evaluation.json",
    core.json_encode(object or evaluation.of(meter, folder), true) .. "\n"))
  if meter.samples then draw_samples(meter, folder .. "/samples.png", name) end
  if meter.write then draw_confusion(meter, folder .. "/confusion.png", name) end
end

--- train.save_evaluation(meter) writes evaluation.json, samples.png and confusion.png into the run's
-- folder; not under check, bench and at the prompt.
function evaluation.save(meter)
  if type(meter) ~= "table" or not meter.result then
    check.fail("train.save_evaluation", "takes what train.evaluate returns")
  end
  local run = Run.of(observer)
  if run.mode == "run" then evaluation.write(meter, run:folder(), run:name()) end
end

return evaluation
