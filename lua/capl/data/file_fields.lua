-- file_fields.lua: options mask, target_image, points, boxes and numbers of sources of files, as the engine reads them.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local field_names = require "data.field_names"
local sorted_keys = require "sorted_keys"

local file_fields = {}

--- The options' names.
file_fields.keys = {"mask", "target_image", "points", "boxes", "numbers"}

-- ---- masks ----

local mask_keys = {"file", "column", "root", "classes", "values", "parts"}

-- How many classes a mask has, and their names.
local function read_classes(op, classes, values)
  if classes == nil then return values and #values end
  if type(classes) == "table" then
    for _, name in ipairs(classes) do check.value(op, {"a class of mask", "string"}, name) end
    return #classes, classes
  end
  check.value(op, {"classes of mask", "whole", "table", from = 1, to = 256}, classes)
  return classes
end

local function check_values(op, values, n)
  if values == nil then return end
  check.value(op, {"values of mask", "table"}, values)
  if #values ~= n then
    check.fail(op, ("mask has %d classes, but values has %d levels"):format(n, #values),
      "values lists the level that stands for each class, in their order")
  end
  local seen = {}
  for _, level in ipairs(values) do
    if seen[level] then check.fail(op, ("values of mask has %s twice; each class has its own level"):format(level)) end
    seen[level] = true
  end
end

-- mask = true | {classes =, values =} of a database, where each record has its own -> likewise
local function read_database_mask(op, mask)
  local o = mask == true and {} or check.keys(op .. ": mask", mask, {"classes", "values"})
  return {file = "mask", classes = o.classes, values = o.values}
end

-- mask = {parts = {"skin", "nose", …}, root =, classes =}: a file for each part -> likewise
local function read_parts(op, o)
  check.value(op, {"parts of mask", "table"}, o.parts)
  check.value(op, {"root of mask", "string"}, o.root)
  for _, name in ipairs(o.parts) do check.value(op, {"a part of mask", "string"}, name) end
  if op ~= "data.folder" then check.fail(op, "parts of mask are those of a folder: data.folder reads them") end
  if o.file or o.values then
    check.fail(op, ("parts and %s of mask exclude each other"):format(o.file and "file" or "values"))
  end
  local n, names = read_classes(op, o.classes)
  if n and n ~= #o.parts + 1 or #o.parts < 1 or #o.parts > 254 then
    check.fail(op, ("mask has %d parts and %s classes"):format(#o.parts, n or "no"),
      "there is a class more than parts: the first one is where no part is; at most 255")
  end
  return {root = o.root, parts = o.parts, classes = #o.parts + 1}, names or #o.parts + 1
end

-- mask = "_mask.png" | {file =, column =, root =, classes =, values =} -> for the engine, names of classes
local function read_mask(op, mask)
  local in_list = op == "data.list"
  if op == "data.lmdb" then mask = read_database_mask(op, mask) end
  if type(mask) == "string" then mask = {[in_list and "column" or "file"] = mask} end
  check.value(op, {"mask", "string", "table"}, mask)
  local o = check.keys(op .. ": mask", mask, mask_keys)
  if o.parts then return read_parts(op, o) end
  if not o.file == not o.column or o.column and not in_list then
    check.fail(op, in_list and "mask names a column, or a file: the ending of the masks beside the images"
      or 'mask names a file: the ending of the masks beside the images, such as "_mask.png"')
  end
  local n, names = read_classes(op, o.classes, o.values)
  if n and (n < 1 or n > 256) then check.fail(op, ("a mask has 1 to 256 classes, not %d"):format(n)) end
  check_values(op, o.values, n)
  return {ending = o.file, column = o.column, root = o.root, classes = n, values = o.values}, names or n
end

-- ---- target images ----

-- target_image = "_target.png" | {file =, root =, channels =} -> for the engine
local function read_target(op, given)
  if op == "data.lmdb" then
    check.fail(op, "a database holds no target images", "data.folder and data.list read them beside the images")
  end
  if type(given) == "string" then given = {file = given} end
  check.value(op, {"target_image", "string", "table"}, given)
  local o = check.keys(op .. ": target_image", given, {"file", "root", "channels"})
  if type(o.file) ~= "string" or o.file == "" then
    check.fail(op, 'target_image names a file: the ending of the images beside the images, such as "_target.png"')
  end
  return {ending = o.file, root = o.root, channels = o.channels}
end

-- ---- columns ----

local rows = {
  points = {widths = {[1] = true, [2] = true, [3] = true}, how = '"x y" or "x y visible"'},
  boxes = {widths = {[1] = true, [4] = true, [5] = true},
    how = '"left top right bottom" or "left top right bottom class"'},
}

-- "x y" or {"x", "y"} -> list of columns
local function split(op, key, entry)
  if type(entry) == "table" then return entry end
  check.value(op, {"an entry of " .. key, "string", "table"}, entry)
  local columns = {}
  for column in entry:gmatch("%S+") do columns[#columns + 1] = column end
  return columns
end

-- points = {"x1 y1", {"x2", "y2"}}, or "key" of JSON
local function read_places(op, key, entries)
  if type(entries) == "string" then entries = {entries} end
  check.value(op, {key, "string", "table"}, entries)
  local columns, per_row = {}, nil
  for _, entry in ipairs(entries) do
    local some = split(op, key, entry)
    if not rows[key].widths[#some] or per_row and #some ~= per_row then
      check.fail(op, ("%s has an entry of %d columns%s"):format(key, #some, per_row and #some ~= per_row
        and (", the first has %d"):format(per_row) or ""),
        ("each entry is %s, or a key of JSON that holds such rows"):format(rows[key].how))
    end
    per_row = #some
    for _, column in ipairs(some) do columns[#columns + 1] = column end
  end
  if not per_row then check.fail(op, key .. " is empty; leave it out") end
  return {name = key, kind = key, per_row = per_row, columns = columns}
end

local function number_field(op, name, columns)
  if type(columns) == "string" then columns = {columns} end
  check.value(op, {"numbers", "string", "table"}, columns)
  if #columns == 0 then check.fail(op, "numbers has a list without columns") end
  for _, column in ipairs(columns) do check.value(op, {"a column of numbers", "string"}, column) end
  return {name = name, kind = "values", per_row = 1, columns = columns}
end

local reserved = {image = true, target = true, target_image = true, mask = true, points = true, boxes = true}

-- numbers = {"pm25", "temp"}, or {weather = {"pm25", "temp"}, angle = "angle"}
local function read_numbers(op, fields, numbers)
  if type(numbers) ~= "table" or numbers[1] ~= nil then
    fields[#fields + 1] = number_field(op, "numbers", numbers)
    return
  end
  for _, name in ipairs(sorted_keys(numbers)) do
    field_names.check(op, name)
    if reserved[name] then check.fail(op, ("numbers cannot be called %s, which batches have already"):format(name)) end
    fields[#fields + 1] = number_field(op, name, numbers[name])
  end
end

--- The mask of data.open as an option of a database: which file a mask lies in is of no account there.
function file_fields.database_mask(mask)
  if mask == nil then return nil end
  return type(mask) == "table" and {classes = mask.classes, values = mask.values} or true
end

--- What of these options the engine gets; nil without any.
-- out  table, names of the mask's classes or how many they are
function file_fields.read(op, o)
  local any = false
  for _, key in ipairs(file_fields.keys) do any = any or o[key] ~= nil end
  if not any then return nil end
  local out, classes = {numbers = {}}, nil
  if o.mask ~= nil then out.mask, classes = read_mask(op, o.mask) end
  if o.target_image ~= nil then out.target = read_target(op, o.target_image) end
  for _, key in ipairs{"points", "boxes"} do
    if o[key] ~= nil then out.numbers[#out.numbers + 1] = read_places(op, key, o[key]) end
  end
  if o.numbers ~= nil then read_numbers(op, out.numbers, o.numbers) end
  return out, classes
end

return file_fields
