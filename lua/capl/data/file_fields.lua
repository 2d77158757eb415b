-- file_fields.lua: options mask, points, numbers … of sources of files, as their kinds read them for the engine.
-- SPDX-License-Identifier: Apache-2.0
local kinds = require("fields").kinds

local file_fields = {}

-- What batches call otherwise than by the names of numbers.
local taken = {image = true, target = true}
for _, kind in ipairs(kinds) do
  if kind.field and not kind.is_numbers then taken[kind.field] = true end
end

-- fn(name, kind) of each option
local function each(fn)
  for _, kind in ipairs(kinds) do
    if kind.read then fn(kind.files[1].name, kind) end
  end
end

--- The options' names.
file_fields.keys = {}
each(function(name) file_fields.keys[#file_fields.keys + 1] = name end)

--- Whether one of them may be a column of the list that lies in a folder.
function file_fields.in_table(o)
  local any = false
  each(function(name, kind) any = any or kind.files[1].list and o[name] ~= nil end)
  return any
end

--- The options of data.open as those of a database, or of a list in the images' folder: way: "of_database", "of_folder"
function file_fields.adapt(o, way)
  each(function(name, kind)
    if kind[way] and o[name] ~= nil then o[name] = kind[way](o[name]) end
  end)
end

--- What of these options the engine gets; nil without any.
-- out  table, what the source says of them: {mask_classes = names of the mask's classes or how many they are}
function file_fields.read(op, o)
  local out, facts, any = {numbers = {}}, {}, false
  each(function(name, kind)
    if o[name] == nil then return end
    any = true
    for key, value in pairs(kind.read(op, o[name], out, taken) or {}) do facts[key] = value end
  end)
  return any and out or nil, facts
end

return file_fields
