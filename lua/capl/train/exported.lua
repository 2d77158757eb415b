-- exported.lua: a saved model reads a few images from file to text, and has to read what the evaluation has read.
--
-- A model that is right in training and says nothing as a file was saved with something missing. The samples are those
-- that the meter kept: wrong readings and right ones. Their images take the way of capl predict.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local fields = require "fields"
local merge = require "meter.merge"

local exported = {}

local EACH = 4 -- wrong readings and right ones
local CLOSE = 1e-3 -- difference of two confidences that rounding may make
local TIE = 0.51 -- a reading that rounding can change has two characters that are as likely: it is no surer than that

local function first(list, count, out)
  for i = 1, math.min(count, #list) do out[#out + 1] = list[i] end
end

-- Whether a loader changes its images, anew each time: of what the run has seen, nothing is left to read again.
local function changes(loader) return loader.low ~= nil and (loader.low.augment or loader.low.stages) ~= nil end

-- Samples to compare; {} where what is read is no text or class, or is read by a decoding that no file has.
local function chosen(meter)
  local out = {}
  if not meter or not meter.fresh or meter.decode or not meter.loader or not meter.again then return out end
  if changes(meter.loader) then return out end
  local samples = meter:samples()
  first(samples.right, EACH, out)
  first(samples.wrong, 2 * EACH - #out, out)
  return out
end

local function ids_of(entries)
  local out = {}
  for i, e in ipairs(entries) do out[i] = e.id end
  return out
end

-- Readings of the files, or of the images where there are none.
local function read_file(model, box, ids)
  local some = box:subset(ids)
  local fine, files = pcall(model.files, model, some, 0)
  if fine then return files:next() end
  if files.code ~= "state" then error(files, 0) end
  local out = {}
  for i = 0, #ids - 1 do
    local image = some:read(1, i)
    out[i + 1] = model:read(image)[1]
  end
  return out
end

-- What the model itself reads of a sample in f32: rounding in 16 bits is no difference of the file's.
local function read_again(meter, id)
  local again = merge.alone(meter.fresh, meter, 1)
  local batch, output = meter.again({id}, "fp32")
  again:add(output, {target = batch.target, ids = {id}})
  local samples = again:samples()
  return samples.wrong[1] or samples.right[1]
end

local function reads_other(path, meter, id, read, filed)
  core.error{code = "state", op = "train.fit", path = false,
    message = ("%s does not read what the run has read: the text of %s is '%s' in the evaluation and '%s' from the " ..
    "file"):format(
      path, meter:name_of(id), read, filed),
    hint = "does the model compute something that is not in its forward, or the loss or decode something that the " ..
    "file lacks? " ..
      "'capl verify' checks the file itself"}
end

local function tied(a, b) return math.max(a, b) <= TIE and math.abs(a - b) <= CLOSE * b end

-- The number of the output that is read as labels are; nil: there is none.
local function labelled(info)
  for i, output in ipairs(info.outputs) do
    if fields.kind(output.kind).labels then return i end
  end
end

--- Compares what the file at path reads with what the meter has. Nothing is done without a path or a meter of texts.
-- errs state: a text differs; sample and both texts are named
function exported.check(path, meter)
  local entries = path and chosen(meter) or {}
  if #entries == 0 then return end
  local model = core.model_open(path, {precision = "fp32"})
  local place = labelled(model:info())
  local readings = place and read_file(model, meter.loader.source.box, ids_of(entries)) or {}
  model:free()
  for i, e in ipairs(place and entries or {}) do
    if readings[i].error then core.error{code = "format", message = readings[i].error} end
    local filed = readings[i].outputs[place]
    if filed.text ~= e.read then
      local again = read_again(meter, e.id) -- by itself: a batch has images of one width
      local same = again.read == filed.text or tied(again.confidence, filed.confidence)
      if not same then reads_other(path, meter, e.id, e.read, filed.text) end
    end
  end
end

return exported
