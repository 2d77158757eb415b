-- contents.lua: hashes of what a recipe is used with: sets of images, and models.
--
-- The hash of a set is of names, texts and bytes of its files, in order: a copy of it has the same one on every machine
-- (engine/data/content.c). That of a model folder is of its files' names and hashes.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local contents = {}

local MOST_FILES = 1000 -- of a model

--- Of a folder, list or database of images.
-- out  {files, bytes, sha256}
-- errs io: it cannot be read; what opening it raises
function contents.data(path)
  if not core.sys.kind(path) then core.fail(path .. ": there is no such file or folder", nil, "io") end
  local data = require "data"
  return data.open(path, {width = 1, height = 1}).box:content() -- files are not decoded, so any size will do
end

-- Adds the files below a folder, links refused.
local function add_files(list, folder, below)
  local names, why = core.sys.list(below == "" and folder or folder .. "/" .. below)
  if not names then core.fail(why, nil, "io") end
  for _, name in ipairs(names) do
    local path = below == "" and name or below .. "/" .. name
    if core.sys.kind(folder .. "/" .. path) == "folder" then
      add_files(list, folder, path)
    else
      local hash, bytes = core.sys.sha256_file(folder, path)
      if not hash then core.fail(("%s/%s %s"):format(folder, path, bytes), nil, "io") end
      list[#list + 1] = {file = path, sha256 = hash, bytes = bytes}
    end
    if #list > MOST_FILES then
      core.fail(("%s has more than %d files, so it is no model"):format(folder, MOST_FILES))
    end
  end
end

--- Of a model folder, or of a file of weights.
-- out  {files, bytes, sha256}
-- errs io: it cannot be read, or holds links
function contents.model(path)
  local kind = core.sys.kind(path)
  if not kind then core.fail(path .. ": there is no such file or folder", nil, "io") end
  if kind == "file" then
    local folder, name = require("recipe.about").split(path)
    local hash, bytes = core.sys.sha256_file(folder, name)
    if not hash then core.fail(path .. " " .. bytes, nil, "io") end
    return {files = 1, bytes = bytes, sha256 = hash}
  end
  local list, lines, bytes = {}, {}, 0
  add_files(list, path, "")
  if #list == 0 then core.fail(path .. " is an empty folder, and no model") end
  table.sort(list, function(a, b) return a.file < b.file end)
  for i, f in ipairs(list) do
    lines[i] = ("%s %d:%s\n"):format(f.sha256, #f.file, f.file)
    bytes = bytes + f.bytes
  end
  return {files = #list, bytes = bytes, sha256 = core.sha256(table.concat(lines))}
end

return contents
