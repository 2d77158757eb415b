-- mask.lua: a class for each pixel of an image.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local count = require "count"
local named = require "fields.named"
local sorted_keys = require "sorted_keys"
local symbols = require "fields.symbols"

local mask = {name = "mask", meter = "segmentation", metric = "miou", is_share = true, field = "mask",
  confused = {"class", "pixels", "classes"}, rows = named.by_class, moves = "mask", beside = "masks",
  tensor = {dims = 3, dtype = "u8", what = "(N,H,W) u8 classes", hint = 'mask:to("u8")', of_image = true}}

mask.options = {{"names", "table"}}

local MOST = 256

function mask.check(op, given)
  if given.names == nil then return end -- the source's
  named.check(op, given, "mask", "classes of a mask", MOST)
end

function mask.facts(given, loader)
  local names = given.names or loader.source and loader.source.mask_classes
  return type(names) == "table" and {classes = names} or nil
end

function mask.reads(d) return ("a mask of %d classes: %s"):format(#d.classes, symbols.shown(d.classes, ", ")) end

function mask.columns(out) return named.formatted(out.values, "%.4f") end

function mask.json(out, _, d)
  local shares = {}
  for i, name in ipairs(d.classes) do shares[name] = out.values[i] end
  return {mask = shares}
end

--- The mask as an image file has it: u8 (1,H,W), the class of each pixel.
function mask.picture(out) return out.levels:unsqueeze(1) end

function mask.draw(overlay, picture, out) return overlay.mask(picture, out.levels) end

--- How the sheet of samples shows them: the image, the mask that was meant, the one that was read.
mask.sheet = {columns = 6, together = 3, worst = 8, best = 4, thumb = 3}

--- Names of the classes that there are in the masks.
function mask.sheet.legend(meter, list)
  local there, out = {[0] = true}, {}
  for _, views in pairs(list) do
    for _, view in ipairs(views) do
      for class in pairs(meter:present(view.mask)) do there[class] = true end
    end
  end
  for class = 0, (meter.K or 0) - 1 do
    if there[class] then out[#out + 1] = {name = meter:name(class), class = class} end
  end
  return out
end

--- The masks of entry e, which is the i-th of a batch, as views. nil: the model has changed since
function mask.compared(meter, e, batch, output, i)
  local read, truth = output:narrow(1, i, 1):to("f32"):argmax(2):to("f32"), batch.mask:narrow(1, i, 1):to("f32")
  local counts = truth:ne(meter.ignore):to("f32")
  local right = ((read:eq(truth):to("f32") * counts):sum() / counts:sum()):item()
  if not (math.abs(right - e.accuracy) < 1e-5) then return nil end
  local shown = truth * counts -- what does not count has no colour
  return {{mask = shown:to("u8"):squeeze(1), caption = "meant"},
    {mask = read:to("u8"):squeeze(1), caption = ("read, IoU %.1f %%"):format(100 * (meter:overlap(shown, read) or 0))}}
end

mask.files = {{name = "mask", value = "ENDING", absent = "_mask.png",
  doc = "masks: ending of the files beside the images, the column of a list, or true for those of a database"}}

mask.looks = {{name = "classes", value = "NAMES",
  doc = "masks: how many classes, or a file with a name per line; another level is an error"}}

-- A name per line -> list.
local function names_of(path)
  local text, why = core.sys.read(path)
  if not text then core.error{code = "io", message = why} end
  local out, seen = {}, {}
  for line in (text:gsub("\r", ""):gsub("\n+$", "") .. "\n"):gmatch("(.-)\n") do
    local at = #out + 1
    if line == "" or seen[line] then
      core.fail(("%s:%d: %s"):format(path, at, line == "" and "the line is empty" or ("%s is in line %d, too"):format(
        line, seen[line])), "it has the name of a class in each line, in the order of the levels")
    end
    out[at], seen[line] = line, at
  end
  if #out > MOST then core.fail(("%s has %d names; masks have 1 to %d classes"):format(path, #out, MOST)) end
  return out
end

-- "19" -> 19, "names.txt" -> its names
local function classes_of(text)
  local n = tonumber(text)
  if not n then return names_of(text) end
  if n >= 1 and n <= MOST and n % 1 == 0 then return n end
  core.fail(("--classes=%s: masks have 1 to %d classes"):format(text, MOST))
end

--- Options --mask and --classes of capl data as option mask of data.open.
function mask.looked(o, is_folder)
  if not o.classes then return o.mask end
  if not o.mask then core.fail("--classes is of masks, which --mask names") end
  return {[is_folder and "file" or "column"] = o.mask, classes = classes_of(o.classes)}
end

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
local function read_database_mask(op, given)
  local o = given == true and {} or check.keys(op .. ": mask", given, {"classes", "values"})
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
local function read_mask(op, given)
  local in_list = op == "data.list"
  if op == "data.lmdb" then given = read_database_mask(op, given) end
  if type(given) == "string" then given = {[in_list and "column" or "file"] = given} end
  check.value(op, {"mask", "string", "table"}, given)
  local o = check.keys(op .. ": mask", given, mask_keys)
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

--- Option mask of a source of files: out.mask is what the engine gets.
function mask.read(op, given, out)
  local classes
  out.mask, classes = read_mask(op, given)
  return {mask_classes = classes}
end

--- The option as one of a database: which file a mask lies in is of no account there.
function mask.of_database(given)
  return type(given) == "table" and {classes = given.classes, values = given.values} or true
end

--- The option as one of a list in the images' folder, where masks lie, too.
function mask.of_folder(given) return type(given) == "string" and {file = given} or given end

-- Pixels of each class in all masks; how many masks have class 0 alone; what is wrong with others.
local function count_masks(source)
  local found = {pixels = {}, total = 0, empty = {}, bad = {}}
  for i = 0, source:count() - 1 do
    local counts, why = source.box:mask_counts(i)
    if not counts then found.bad[#found.bad + 1] = why end
    for class, n in pairs(counts or {}) do
      found.pixels[class], found.total = (found.pixels[class] or 0) + n, found.total + n
    end
    if counts and counts[0] and not next(counts, next(counts)) then found.empty[#found.empty + 1] = source:name(i) end
  end
  return found
end

local function class_name(source, class)
  local names = source.mask_classes
  return type(names) == "table" and names[class + 1] or ("%d"):format(class)
end

--- A line of capl data stat.
function mask.stat(source)
  local found, parts = count_masks(source), {}
  for i, class in ipairs(sorted_keys(found.pixels)) do
    parts[i] = ("%s: %.2f %%"):format(class_name(source, class), 100 * found.pixels[class] / found.total)
  end
  return ("%s, %d of class 0 alone; pixels by class: %s"):format(count.of(source:count() - #found.bad, "mask"),
    #found.empty, table.concat(parts, ", "))
end

--- What is wrong, for capl data check.
function mask.look(r, source)
  local found = count_masks(source)
  r:add("masks that cannot be used", #found.bad, function(i) return found.bad[i] end)
  if #found.empty > 0 then
    r:note(("masks of class 0 alone: %d, such as %s"):format(#found.empty, found.empty[1]))
  end
end

--- How capl eval reads the truth: masks beside the images.
function mask.truth(d, o) return {mask = o.mask or {file = "_mask.png", classes = d.classes}} end

--- What capl preview draws over a sample.
function mask.view(out, value) out.mask = out.mask or value end

function mask.counted(d) return {classes = d.classes} end

--- What a SegmentationMeter takes, (N,K,H,W), of the outputs of several images: 1 for the class of each pixel.
function mask.measured(outs, d)
  local images, classes = {}, {}
  for i, out in ipairs(outs) do images[i] = out.levels:unsqueeze(1) end
  local levels = core.op.concat(images, {dim = 1}):unsqueeze(2):to("f32")
  for k = 1, #d.classes do classes[k] = levels:eq(k - 1):to("f32") end
  return core.op.concat(classes, {dim = 2})
end

return mask
