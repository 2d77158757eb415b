-- mute_ranks.lua: a rank that is not the first says and writes nothing of its own: one run has one folder and one
-- voice.
--
-- It does all that rank 0 does, so that both take part in whatever needs all ranks; only the last step, the file, is
-- left out, here and not in each of the many places that write one. What a recipe prints is its own affair, and errors
-- are printed.
-- SPDX-License-Identifier: Apache-2.0
local core = ...


local mute_ranks = {}

-- Functions that write where their first argument says; a rank that is still has written, as far as callers can see.
local writers = {
  {"sys", "write"}, {"sys", "append"}, {"sys", "cut"}, {"sys", "mkdir"}, {"sys", "mkdir_new"}, {"sys", "remove"},
  {"sys", "lock"},
}

-- The same for files of any place: a recipe that saves a model saves it once.
local savers = {
  {"data", "png_write"}, {"plot", "lines"}, {"plot", "sheet"}, {"plot", "gallery"}, {"plot", "matrix"},
  {"plot", "bars"}, {"plot", "trials"}, {"model_save"}, {"safetensors_save"}, {"checkpoint_save"},
}

-- Whether a path is of the run. Caches of data are a host's own, and are made wherever they are missing.
local function is_of_run(run, path)
  local folder = run.path
  return path == "runs" or folder and (path == folder or path:sub(1, #folder + 1) == folder .. "/") or false
end

local function replace(names, make)
  local holder = names[2] and core[names[1]] or core
  local key = names[2] or names[1]
  if holder and holder[key] then holder[key] = make(holder[key]) end
end

--- From here on this process leaves files and lines to rank 0.
function mute_ranks.begin(run)
  run.console.silent = true
  for _, names in ipairs(writers) do
    replace(names, function(write)
      return function(path, ...)
        if is_of_run(run, path) then return true end
        return write(path, ...)
      end
    end)
  end
  for _, names in ipairs(savers) do
    replace(names, function(save)
      return function(path, ...)
        if path == nil then return save(path, ...) end -- a picture that is returned
        return true
      end
    end)
  end
  core.sys.bar, core.sys.out = function() end, function() end
end

return mute_ranks
