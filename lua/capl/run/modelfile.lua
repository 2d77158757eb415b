-- modelfile.lua: the one place where the program writes and reads model files (best.capl/).
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local run = require "run"

local modelfile = {}

--- Writes weights, graph and meta of a model to the folder path.
-- meta  charset, length, normalize, metrics; the recipe is noted without its folder; width, height and channels are those of the training loader
function modelfile.save(path, model, meta)
  if run.mode ~= "run" then return end
  local width, height, channels = run.image_size()
  local out = {width = width, height = height, channels = channels, recipe = run.recipe:match("[^/]+$")}
  for key, value in pairs(meta or {}) do out[key] = value end
  require("io").save_model(path, model, core.zeros(1, channels, height, width), out)
end

--- The model in the folder path: {forward = function(x), meta = table}.
function modelfile.load(path) return require("io").load_model(path) end

function modelfile.forward(model, x) return model.forward(x) end

return modelfile
