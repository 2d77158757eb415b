-- files.lua: the images named on a command line: files, folders of image files, - for a list on standard input.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local data = require "data"

local files = {}

local function add_folder(list, path)
  local source = data.folder(path, {width = 1, height = 1}) -- only its names are wanted; no file is opened
  local prefix = path:gsub("/+$", "") .. "/"
  for i = 0, source:count() - 1 do list[#list + 1] = prefix .. source:name(i) end
  local others, first = source.box:left_out()
  if others == 0 then return end
  core.sys.err(("note: of other kinds and not read: %d, such as %s%s; convert them to PNG\n"):format(others, prefix, first))
end

local function add_list(list)
  local text, why = core.sys.read("/dev/stdin")
  if not text then core.error{code = "io", message = why} end
  for line in text:gmatch("[^\n]+") do list[#list + 1] = line end
end

--- Paths of all images, in the order named; folders are searched below too.
-- errs value: nothing is named, a folder without image files; io: a folder or the list cannot be read
function files.of(words, usage)
  local list = {}
  if #words == 0 then core.error{code = "value", message = "no image is named; usage: " .. usage} end
  for _, word in ipairs(words) do
    if word == "-" then add_list(list)
    elseif core.sys.kind(word) == "folder" then add_folder(list, word)
    else list[#list + 1] = word end
  end
  return list
end

-- ---- sizes ----

--- Counts the images that had to be resized. info: of model:info()
function files.sizes(info)
  return {width = info.width, height = info.height, widths = info.widths, count = 0, n = 0, by_size = {}}
end

-- Whether an image is as the model reads it. One of several widths keeps its own, unless it is squeezed into the
-- widest.
local function as_it_is(sizes, reading)
  if reading.height ~= sizes.height then return false end
  return sizes.widths and reading.width <= sizes.width or reading.width == sizes.width
end

function files.count_size(sizes, reading)
  sizes.n = sizes.n + 1
  if reading.error or as_it_is(sizes, reading) then return end
  local size = ("%d x %d"):format(reading.width, reading.height)
  sizes.count = sizes.count + 1
  sizes.by_size[size] = (sizes.by_size[size] or 0) + 1
end

--- Says once on standard error how many images of which sizes were fitted.
function files.print_sizes(sizes)
  if sizes.count == 0 then return end
  local names = {}
  for size in pairs(sizes.by_size) do names[#names + 1] = size end
  table.sort(names, function(a, b)
    if sizes.by_size[a] ~= sizes.by_size[b] then return sizes.by_size[a] > sizes.by_size[b] end
    return a < b
  end)
  local parts = {}
  for i = 1, math.min(3, #names) do parts[i] = ("%s px (%d)"):format(names[i], sizes.by_size[names[i]]) end
  if #names > 3 then parts[4] = ("%d other sizes"):format(#names - 3) end
  local to = sizes.widths and ("height of %d px and at most %d px of width"):format(sizes.height, sizes.width)
    or ("%d x %d px"):format(sizes.width, sizes.height)
  core.sys.err(("note: %d of %d images were resized to the model's %s: %s\n"):format(sizes.count, sizes.n, to,
    table.concat(parts, ", ")))
end

return files
