-- folder.lua: the folder of a run, chosen before the sandbox starts: the only part of runs/ that the recipe may write
-- to.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sync = require "dist.sync"

local run_folder = {}

-- Another run that left nothing removes runs/ when it is empty, which may be between two lines of this one.
local function mkdir_new(path)
  local made, why = core.sys.mkdir_new(path)
  for _ = 1, 3 do
    if made ~= nil or not core.sys.mkdir("runs") then break end
    made, why = core.sys.mkdir_new(path)
  end
  return made, why
end

-- Makes a folder that nobody had before: base, base-2, base-3 …
local function new_folder(base)
  local number, path = 1, base
  while true do
    local made, why = mkdir_new(path)
    if made == nil then core.error{code = "io", message = why} end
    if made then return path end
    number = number + 1
    path = ("%s-%d"):format(base, number)
  end
end

-- -> its path, and the first of its kind. given: the place that was chosen before, nil = below runs
local function make(name, given)
  local made, why = core.sys.mkdir(given or "runs")
  if not made then core.error{code = "io", message = why} end
  local base = given or "runs/" .. name
  local path = given or new_folder(base)
  core.sys.lock(path) -- nobody else resumes it while this process lives
  return {path = path, base = base, given = given ~= nil}
end

-- What went wrong is raised when somebody needs the folder: many a recipe writes nothing.
local function try(name, given)
  local ok, got = pcall(make, name, given)
  if ok then return got end
  return {message = core.is_error(got) and got.message or tostring(got), code = core.is_error(got) and got.code or "io"}
end

--- Makes the folder of a run called name, or takes the resumed one, and lets the recipe write there. Every rank
-- calls it.
-- in   resumed: {folder =, said = whether the user has named it}; nil: a new run
function run_folder.choose(run, name, resumed)
  local settled = resumed and {path = resumed.folder, base = resumed.folder}
  settled = settled or sync.of_main(function() return try(name, run.given_folder) end)
  run.settled = settled -- {path =, base =}, or {message =, code =}: why there is none
  if not settled.path then return end
  local how = resumed and (resumed.said and "named" or "found") or settled.given and "named" or "made"
  core.sys.run_folder(settled.path, how)
end

--- The folder -> its path, and the path that it would have if no other run had that one.
-- in   scratch: a command that leaves no run wants a place for files that nobody keeps
function run_folder.path(run, name, scratch)
  local temporary = scratch and run.temporary
  if temporary then
    local path = temporary .. "/run"
    core.sys.mkdir(path)
    return path, path
  end
  local settled = run.settled or sync.of_main(function() return try(name, run.given_folder) end)
  run.settled = settled
  if not settled.path then core.error{code = settled.code, message = settled.message} end
  return settled.path, settled.base
end

return run_folder
