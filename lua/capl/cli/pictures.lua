-- pictures.lua: what `capl predict` writes beside its lines: masks and images that a model gives, and overlays.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local overlay = require "plot.overlay"

local pictures = {}

local function make_folder(path, option)
  if path == "" then core.error{code = "value", message = option .. " is empty; it names a folder"} end
  local there, why = core.sys.mkdir(path)
  if not there then core.error{code = "io", message = why} end
end

-- "images/a.png" -> "a"; those of one name in several folders get a number behind it: a, a_2.
local function names_of(paths)
  local out, seen = {}, {}
  for i, path in ipairs(paths) do
    local name = path:match("[^/]+$"):gsub("%.[^.]*$", "")
    local n = (seen[name] or 0) + 1
    seen[name] = n
    out[i] = n > 1 and ("%s_%d"):format(name, n) or name
  end
  return out
end

-- What one output is called in the names of files: nothing where it is the only one.
local function suffix(d) return d.name == "" and "" or "_" .. d.name end

local function write_pictures(o, name, reading)
  for i, d in ipairs(o.outputs) do
    local picture = d.kind.picture and d.kind.picture(reading.outputs[i], d)
    if picture then core.data.png_write(("%s/%s%s.png"):format(o.out, name, suffix(d)), picture) end
  end
end

local function write_overlay(o, path, name, reading)
  local picture = core.data.image_read(path)
  for i, d in ipairs(o.outputs) do
    if d.kind.draw then picture = d.kind.draw(overlay, picture, reading.outputs[i], d) end
  end
  core.data.png_write(("%s/%s.png"):format(o.overlay, name), picture)
end

--- function(i, reading) that writes what --out and --overlay ask for of the i-th image.
-- errs io: a folder cannot be made, a file cannot be written
function pictures.new(o, paths)
  if not o.out and not o.overlay then return function() end end
  if o.out then make_folder(o.out, "--out") end
  if o.overlay then make_folder(o.overlay, "--overlay") end
  local names = names_of(paths)
  return function(i, reading)
    if o.out then write_pictures(o, names[i], reading) end
    if o.overlay then write_overlay(o, paths[i], names[i], reading) end
  end
end

return pictures
