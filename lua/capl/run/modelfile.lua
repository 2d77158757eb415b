-- modelfile.lua: the one place where a run writes model files (best.capl/).
--
-- What a reader of images has to know comes from the loaders of the run, so that a recipe cannot say it wrong.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local fields = require "fields"
local sync = require "dist.sync"
local Run = require "run"
local model_input = require "run.model_input"

local modelfile = {}

local GOLDEN = 8 -- pairs of a width
local MOST = 32 -- of all widths together
local LOOKED = 256 -- images that are looked at for them

-- The loader whose images the model is for: that of the test, else of the validation, else of the training.
local function main_loader(run)
  for _, role in ipairs{"test", "val", "train"} do
    for _, entry in ipairs(run.loaders) do
      if entry.role == role then return entry.loader end
    end
  end
end

-- Image of sample i as it goes to the model, u8 (1,C,H,W), or nil for a bad one.
local function read_image(box, id)
  local read, image = pcall(box.read, box, 0, id)
  if not read and core.is_error(image) and image.code == "device" then error(image, 0) end
  return read and image or nil
end

local function fits(image, facts)
  local _, C, H, W = unpack(image:size())
  if C ~= facts.channels or H ~= facts.height then return false end
  for _, width in ipairs(facts.widths or {facts.width}) do
    if width == W then return true end
  end
  return false
end

-- The first images of a source as they are, a list of u8 (N,C,H,W), one for each width that they have, narrow ones
-- first; nil when none can be read or the model takes another size.
local function first_images(source, facts)
  local of_width, count, out = {}, 0, {}
  local each = facts.widths and math.max(1, math.floor(MOST / #facts.widths)) or GOLDEN
  for id = 0, math.min(LOOKED, source:count()) - 1 do
    local image = read_image(source.box, id)
    if image and not fits(image, facts) then return nil end
    local list = image and (of_width[image:size(4)] or {})
    if list and #list < math.min(each, GOLDEN) then
      of_width[image:size(4)] = list
      list[#list + 1], count = image, count + 1
    end
    if count >= (facts.widths and MOST or GOLDEN) then break end
  end
  for _, width in ipairs(facts.widths or {facts.width}) do
    if of_width[width] then out[#out + 1] = core.op.concat(of_width[width], {dim = 1}) end
  end
  return out[1] and out or nil
end

-- What the loader knows of the model's input and output.
local function facts_of(run, loader)
  local width, height, channels, resize
  if run.image_shape or not run.input_shape then -- not of series
    width, height, channels = run:image_size()
    resize = loader and loader.source.box:letterbox() or "bicubic"
  end
  local widths = loader and loader.widths
  local facts = {
    width = widths and widths[#widths] or width, widths = widths, height = height, channels = channels, resize = resize,
    created = core.sys.date(), recipe = run.recipe:match("[^/]+$"), recipe_sha256 = core.sha256(run.text or ""),
  }
  if loader and width then facts.normalize = loader.normalize or "standardize" end
  for key, value in pairs(loader and fields.facts(run.model_options or {}, loader) or {}) do facts[key] = value end
  return facts
end

-- Whether the file says what goes in and comes out, so that commands can run it.
local function is_described(facts) return facts.output ~= nil or facts.outputs ~= nil end

-- Adds what goes in beside, or in place of, one image; without that, commands cannot run the model.
local function describe_inputs(facts, job, loader)
  if job.only == "image" or facts.inputs or not is_described(facts) then return end
  local list = {}
  for i, name in ipairs(job.names) do list[i] = fields.input(name, loader, facts) end
  if #list == #job.names then facts.inputs = list else facts.output, facts.outputs = nil, nil end
end

-- Golden samples: images as they are for a model of images that a file can read, else what the model is called with.
local function golden_of(job, loader, facts)
  if is_described(facts) and job.only == "image" then return first_images(loader.source, facts) end
  return core.no_grad(model_input.samples, job, loader)
end

-- The levels of the golden samples' images where an image is not all that goes in; nil: none does.
local function levels_of(loader, facts, golden)
  local image
  for _, given in ipairs(facts.inputs or {}) do image = image or fields.kind(given.kind).is_levels and given.name end
  if not image or not golden then return nil end
  local list = {dim = 1}
  for id = 0, golden[image]:size(1) - 1 do table.insert(list, id + 1, (loader.source.box:read(1, id))) end
  return (core.op.concat(unpack(list)))
end

-- What the file is made of: its description, and how it calls the model.
local function parts_of(run, model, meta, input)
  local loader = main_loader(run)
  local facts = facts_of(run, loader)
  for key, value in pairs(meta or {}) do facts[key] = value end
  if facts.decoding == "ctc" then facts.length = nil end -- length_min and length_max say it
  local job = model_input.of(run, model, facts, input)
  describe_inputs(facts, job, loader)
  return facts, job, loader
end

local function save(run, path, model, meta, input)
  local facts, job, loader = parts_of(run, model, meta, input)
  local golden = golden_of(job, loader, facts)
  run.needs_recipe = not is_described(facts) -- no command reads such a model
  require("io").save_model(path, job.call, job.example, facts, golden, {state = model,
    levels = levels_of(loader, facts, golden)})
end

--- Writes the model to the folder path, with everything that prediction needs, and golden pairs.
-- in   path; model; meta optional: more to know about it, such as metrics = meter:result(); its keys go before what
--      the loaders say (charset, length, normalize …). docs/model-file.md lists them
-- errs value: the meta data contradict the model; io: the folder cannot be written
function modelfile.save(path, model, meta, input)
  local run = Run.of(observer)
  if run.mode ~= "run" or not sync.is_main() then return end
  sync.busy("saving a model", save, run, path, model, meta, input)
end

--- Raises at the first step of train.fit what saving its best model would raise. Nothing is written.
-- errs as of save
function modelfile.check(model, input)
  local facts, job = parts_of(Run.of(observer), model, nil, input)
  require("io").check_model(job.call, job.example, facts, {state = model})
end

return modelfile
