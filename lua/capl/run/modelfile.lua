-- modelfile.lua: the one place where the program writes and reads model files (best.capl/).
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local run = require "run"

local modelfile = {}

--- Writes weights, graph and meta of a model to the folder path.
-- meta  charset, length, normalize, metrics; the recipe is noted without its folder; width, height and channels
--       are those of the training loader
function modelfile.save(path, model, meta)
  if run.mode ~= "run" then return end
  local width, height, channels = run.image_size()
  local out = {width = width, height = height, channels = channels, recipe = run.recipe:match("[^/]+$")}
  for key, value in pairs(meta or {}) do out[key] = value end
  require("io").save_model(path, model, core.zeros(1, channels, height, width), out)
end

-- What reading images with a model takes from its meta.json: kind and least value.
local needed = {
  {"charset", "string"}, {"length", "number", 1}, {"width", "number", 1}, {"height", "number", 1}, {"channels", "number", 1},
}

--- The model in the folder path: {forward = function(x), meta = table}.
-- errs format: its meta.json lacks what reading images needs
function modelfile.load(path)
  local model = require("io").load_model(path)
  for _, entry in ipairs(needed) do
    local key, kind, least = entry[1], entry[2], entry[3]
    local value = model.meta[key]
    if type(value) ~= kind or (least and not (value >= least and value % 1 == 0)) then
      core.error{code = "format", message = ("%s/meta.json: %s is a %s, not %s"):format(path, key,
        least and "whole number from 1 on" or "text", type(value) == "number" and ("%g"):format(value) or type(value)),
        hint = "the file is damaged, or not of a model that reads text"}
    end
  end
  return model
end

function modelfile.forward(model, x) return model.forward(x) end

return modelfile
