-- modelfile.lua: the one place where a run writes model files (best.capl/).
--
-- What a reader of images has to know comes from the loaders of the run, so that a recipe cannot say it wrong.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local run = require "run"

local modelfile = {}

local GOLDEN = 8 -- pairs

-- The loader whose images the model is for: that of the test, else of the validation, else of the training.
local function main_loader()
  for _, role in ipairs{"test", "val", "train"} do
    for _, entry in ipairs(run.loaders) do
      if entry.role == role then return entry.loader end
    end
  end
end

-- The first images of a source as they are, u8 (N,C,H,W); nil when none can be read or the model takes another size.
local function first_images(source, facts)
  local images, box = {}, source.box
  if box:width() ~= facts.width or box:height() ~= facts.height or box:channels() ~= facts.channels then return nil end
  for id = 0, math.min(GOLDEN, source:count()) - 1 do
    local read, image = pcall(box.read, box, 0, id)
    if not read and core.is_error(image) and image.code == "device" then error(image, 0) end
    if read then images[#images + 1] = image end
  end
  return #images > 0 and core.op.concat(images, {dim = 1}) or nil
end

-- What the loader knows of the model's input and output.
local function facts_of(loader)
  local width, height, channels, resize
  if run.image_shape or not run.input_shape then -- not of series
    width, height, channels = run.image_size()
    resize = "bicubic"
  end
  local facts = {
    width = width, height = height, channels = channels, resize = resize, created = core.sys.date(),
    recipe = run.recipe:match("[^/]+$"), recipe_sha256 = core.sha256(run.text or ""),
  }
  if loader and width then facts.normalize = loader.normalize or "standardize" end
  if loader and width and loader.charset ~= "" then
    facts.output, facts.decoding, facts.charset, facts.length = "text", "argmax", loader.charset, loader.length
  end
  return facts
end

-- A batch of one for the model.
local function one_input(facts)
  if facts.width then return core.zeros(1, facts.channels, facts.height, facts.width) end
  return core.zeros(1, unpack(run.input_shape, 2))
end

--- Writes the model to the folder path, with everything that reading images with it takes, and golden pairs.
-- in   path; model; meta optional: more to know about it, such as metrics = meter:result(); its keys go before what
--      the loaders say (charset, length, normalize …). docs/model-file.md lists them
-- errs value: the meta data contradict the model; io: the folder cannot be written
function modelfile.save(path, model, meta)
  if run.mode ~= "run" then return end
  local loader = main_loader()
  local facts = facts_of(loader)
  for key, value in pairs(meta or {}) do facts[key] = value end
  local images = facts.output and first_images(loader.source, facts) or nil
  local example = one_input(facts)
  require("io").save_model(path, model, example, facts, images)
end

return modelfile
