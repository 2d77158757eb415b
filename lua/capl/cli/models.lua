-- models.lua: the models that a command line names: a folder, or one that is installed, by its name.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local models = {}

--- Names of the installed models, in order.
function models.names()
  local folder, out = core.sys.models(), {}
  for _, file in ipairs(folder and core.sys.list(folder) or {}) do
    if core.sys.kind(folder .. "/" .. file) == "folder" then out[#out + 1] = file:match("^(.+)%.capl$") end
  end
  table.sort(out)
  return out
end

local function hint(names)
  if #names == 0 then
    return "no models are installed (share/capl/models beside the program, or CAPL_MODELS=DIR); a run's is runs/NAME/best.capl"
  end
  return "installed models: " .. table.concat(names, ", ") .. "; a run's is runs/NAME/best.capl"
end

--- The path of a model: the word, or where the installed model of this name lies.
-- errs io: a name without a folder that is neither here nor installed
function models.path(word)
  if not word:match("^[%w_-]+$") or core.sys.kind(word) then return word end
  local names, installed = models.names(), core.sys.models()
  local path = installed and ("%s/%s.capl"):format(installed, word)
  if path and core.sys.kind(path) then return path end
  local near = core.nearest(word, names)
  core.error{code = "io", message = ("there is no model '%s' here, and none is installed%s"):format(word,
    near and ("; did you mean '%s'?"):format(near) or ""), hint = hint(names)}
end

return models
