-- picture.lua: show(image): images in the terminal, as pixels where it can (kitty, sixel), else as half blocks or
-- letters.
--
-- Images go in rows that fit the width, each with its label below. What a terminal can do is asked once (graphics.lua).
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local graphics = require "repl.graphics"
local fields = require "fields"
local term = require "repl.term"

local picture = {}

local MOST, GAP, WIDE, SMALL, GROWN = 16, 2, 38, 24, 32

local spec = {{"columns", "whole"}, {"labels", "table"}, {"scale", "table"}, {"as", "string"}}

-- ---- what is shown ----

local function refuse(message)
  core.error{code = "value", op = "show", message = message,
    hint = "a tensor (H,W), (C,H,W) or (N,C,H,W), a batch, a data source, or the path of an image", path = false}
end

local function shape_text(x) return "(" .. table.concat(x.shape, ",") .. ")" end

local is_channels = {[1] = true, [3] = true, [4] = true}

-- An image as (C,H,W); (H,W,C) is turned. A fourth channel, opacity, is left out.
local function as_image(x)
  if x.ndim == 2 then return x:unsqueeze(1) end
  if not is_channels[x.shape[1]] and is_channels[x.shape[3]] then x = x:permute(3, 1, 2) end
  if not is_channels[x.shape[1]] then refuse(("%s is no image: 1 or 3 channels expected"):format(shape_text(x))) end
  return x.shape[1] == 4 and x:narrow(1, 1, 3) or x
end

-- A list of images from a tensor of any of the shapes; many matrices (N,H,W) are as many images.
local function add_tensor(list, x)
  if x.device == "meta" then refuse("a tensor on device meta has no values") end
  if x.ndim < 2 or x.ndim > 4 then refuse(("a tensor %s is no image"):format(shape_text(x))) end
  if x:numel() == 0 then refuse(("a tensor %s is empty"):format(shape_text(x))) end
  local many = x.ndim == 4 or x.ndim == 3 and not is_channels[x.shape[1]] and not is_channels[x.shape[3]]
  if not many then list[#list + 1] = as_image(x) return end
  for i = 1, x.shape[1] do
    list.all = (list.all or 0) + 1
    if #list < MOST then list[#list + 1] = as_image(x:select(1, i)) end
  end
end

-- Labels of a batch that is the source's first: as the source has them, else as the targets say.
local function texts_of(source, batch, n)
  local out, target = {}, batch.target
  local kind = core.is_tensor(target) and target.ndim == 2 and fields.of_labels(source)
  for i = 1, n do
    out[i] = source:text(i - 1) or kind and kind.spell(source, target:select(1, i):tolist())
      or source:name(i - 1) or ""
  end
  return out
end

-- The first images of a data source, as a loader for evaluation has them.
local function from_source(source)
  local n = source:count()
  n = n and n > 0 and math.min(n, 8) or 8
  local loader = require("data.loader").new{source = source, batch = n, role = "val"}
  local step, state, first = loader:epoch(1)
  local batch = step(state, first)
  n = math.min(n, batch.image.shape[1])
  return batch.image:narrow(1, 1, n), texts_of(source, batch, n)
end

-- Images and labels of whatever is given.
local function read(what)
  local list = {}
  if type(what) == "string" then what = core.data.image_read(what) end
  if core.is_tensor(what) then
    add_tensor(list, what)
  elseif type(what) == "table" and core.is_tensor(rawget(what, "image")) then
    add_tensor(list, what.image)
    return list, type(what.text) == "table" and what.text or nil
  elseif type(what) == "table" and type(rawget(what, "box")) == "userdata" then
    local images, labels = from_source(what)
    add_tensor(list, images)
    return list, labels
  elseif type(what) == "table" then
    for i, each in ipairs(what) do
      if not core.is_tensor(each) then refuse(("entry %d of the list is a %s"):format(i, core.typename(each))) end
      add_tensor(list, each)
    end
  end
  if #list == 0 then refuse(("cannot show a %s"):format(core.typename(what))) end
  return list
end

-- The values that become black and white, for all images alike.
local function range_of(list, given)
  if given then return check.arg(2, "show", "number", given[1]), check.arg(2, "show", "number", given[2]) end
  if list[1].dtype == "u8" then return 0, 255 end
  local lo, hi = math.huge, -math.huge
  for _, image in ipairs(list) do
    local f = core.sys.prompt.tensor_figures(image)
    lo, hi = math.min(lo, f.min or lo), math.max(hi, f.max or hi)
  end
  if lo >= 0 and hi <= 1 then return 0, 1 end
  return lo, hi
end

-- ---- where it goes ----

-- Columns side by side, and the size of each image in columns and rows of the terminal (a row is two pixels high).
local function layout(list, asked)
  local rows, width = term.size()
  local h, w = list[1].shape[2], list[1].shape[3]
  for _, image in ipairs(list) do h, w = math.max(h, image.shape[2]), math.max(w, image.shape[3]) end
  local across = asked or math.floor((width + GAP) / (math.min(w, WIDE) + GAP))
  across = math.max(1, math.min(across, #list))
  local most = math.max(2, math.floor((width - (across - 1) * GAP) / across))
  local wide = w <= SMALL and w * math.max(1, math.floor(math.min(GROWN, most) / w)) or w
  local columns = math.min(wide, most)
  local highest = math.max((rows or 40) - 4, 4)
  local high = math.max(1, math.ceil(columns * h / w / 2))
  if high > highest then columns, high = math.max(1, math.floor(columns * highest / high)), highest end
  return across, columns, high
end

local function label_line(labels, first, last, columns)
  local parts, any = {}, false
  for i = first, last do
    local text = term.cut(term.plain(tostring(labels[i] or "")), columns):gsub("[\n\t]", " ")
    any = any or text ~= ""
    parts[#parts + 1] = text .. (" "):rep(columns - term.width(text) + GAP)
  end
  return any and table.concat(parts):gsub("%s+$", "") .. "\n" or ""
end

--- show(image[, opts]); globals.lua documents it.
function picture.show(what, opts)
  opts = check.options("show", spec, opts or {})
  if opts.columns and opts.columns < 1 then refuse("columns is a number from 1 on") end
  local out = core.no_grad(function()
    local list, labels = read(what)
    local all = math.max(list.all or 0, #list)
    for i, image in ipairs(list) do list[i] = image.device == "cpu" and image or image:to("cpu") end
    local draw = graphics.of(opts.as)
    local lo, hi = range_of(list, opts.scale)
    local across, columns, high = layout(list, opts.columns)
    local parts = {}
    for first = 1, #list, across do
      local last = math.min(first + across - 1, #list)
      local row = {}
      for i = first, last do row[#row + 1] = list[i] end
      parts[#parts + 1] = draw(row, columns, high, GAP, lo, hi)
      parts[#parts + 1] = label_line(opts.labels or labels or {}, first, last, columns)
    end
    if all > #list then parts[#parts + 1] = term.paint("dim", ("%s %d more\n"):format(term.dots(), all - #list)) end
    return table.concat(parts)
  end)
  core.sys.draw(out)
end

return picture
