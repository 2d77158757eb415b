-- data_fields.lua: for `capl data stat|check`: masks, points, numbers … of images, as their kinds look at them.
-- SPDX-License-Identifier: Apache-2.0
local count = require "count"
local fields = require "fields"

local data_fields = {}

--- "x1 y1,x2 y2" -> {"x1 y1", "x2 y2"}; nil without it
function data_fields.list(text)
  if not text then return nil end
  local out = {}
  for entry in text:gmatch("[^,]+") do out[#out + 1] = entry end
  return out
end

--- fn(option, kind) of each option that says where fields are; what two kinds share is one. all: also what capl data
-- alone takes
function data_fields.each(all, fn)
  local seen = {}
  for _, kind in ipairs(fields.kinds) do
    for _, list in ipairs{kind.files or {}, all and kind.looks or {}} do
      for _, option in ipairs(list) do
        if not seen[option.name] then fn(option, kind) end
        seen[option.name] = true
      end
    end
  end
end

--- Those options of capl data as options of data.open. is_folder: it is one of files
function data_fields.given(o, is_folder)
  local out = {}
  for _, kind in ipairs(fields.kinds) do
    local option = kind.read and kind.files[1]
    if option and kind.looked then out[option.name] = kind.looked(o, is_folder)
    elseif option then out[option.name] = option.list and data_fields.list(o[option.name]) or o[option.name] end
  end
  return out
end

local function escaped(text) return (text:gsub("%p", "%%%0")) end

-- What is called as the file of a field beside another image is, and was opened as an image: how many, the first.
local function unread(source, ending)
  local has, n, first = {}, 0, nil
  for i = 0, source:count() - 1 do has[source:name(i):gsub("%.%w+$", "")] = true end
  for i = 0, source:count() - 1 do
    local of = source:name(i):match("^(.*)" .. escaped(ending) .. "$")
    if of and has[of] then n, first = n + 1, first or source:name(i) end
  end
  return n, first
end

-- fn(kind, option, n, first) of each kind that has such files.
local function each_unread(source, fn)
  local read = {}
  for _, field in ipairs(source.box:fields()) do read[fields.of_field(field)] = true end
  for _, kind in ipairs(source.by_name and fields.kinds or {}) do
    local option = kind.beside and kind.files[1]
    if option and not read[kind] then
      local n, first = unread(source, option.absent)
      if n > 0 then fn(kind, option, n, first) end
    end
  end
end

--- {{name, text}, …} of a source's fields for stat.
function data_fields.lines(source, scan)
  local out = {}
  each_unread(source, function(kind, option, n, first)
    out[#out + 1] = {kind.beside, ("%d look like some, such as %s: --%s=%s reads them so"):format(n, first, option.name,
      option.absent)}
  end)
  for k, field in ipairs(source.box:fields()) do
    out[#out + 1] = {field.name, fields.of_field(field).stat(source, field, k - 1, scan)}
  end
  return out
end

--- Reports what is wrong with them to r of data_check.
function data_fields.check(r, source, scan)
  each_unread(source, function(kind, option, n, first)
    r:note(("%s as %s of others are, such as %s: --%s=%s reads them so"):format(
      count.of(n, "image is called", "images are called"), kind.beside, first, option.name, option.absent))
  end)
  for k, field in ipairs(source.box:fields()) do fields.of_field(field).look(r, source, field, k - 1, scan) end
end

return data_fields
