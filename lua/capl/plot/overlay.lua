-- overlay.lua: what a model gives, drawn over an image: points, masks, boxes, with their names.
--
-- Each function returns the image with something more on it, u8 (1,3,H,W) on the CPU, as large as it was. So calls may
-- be nested, and data.png_write writes the last one. Marks and names grow with images of more than 400 px. Under check
-- the images have no pixels, and nothing is drawn.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"

local overlay = {}

local RGB = 256 * 256 * 256

-- 0xRRGGBB of a colour {r, g, b}.
local function number_of(colour) return (colour[1] * 256 + colour[2]) * 256 + colour[3] end

--- Colours of n classes, the same in all pictures of capl.
-- in   n: number of classes, the background (class 0) included
-- out  list of {red, green, blue, alpha}, 0 to 255 each; entry k + 1 is that of class k. Class 0 is transparent
-- eg   plot.overlay.palette(2)[2][4]  --> 255
function overlay.palette(n)
  local out = {{0, 0, 0, 0}}
  for class = 1, n - 1 do
    local rgb = core.plot.colour(class)
    out[class + 1] = {math.floor(rgb / 65536), math.floor(rgb / 256) % 256, rgb % 256, 255}
  end
  return out
end

--- Height and width of an image (H,W), (C,H,W), (1,C,H,W) or (H,W,C), in px.
-- eg   plot.overlay.sizes(capl.zeros(3, 40, 60))  --> 40
function overlay.sizes(image)
  local shape = image.shape
  if #shape == 4 then return shape[3], shape[4] end
  if #shape == 3 and (shape[1] == 1 or shape[1] == 3) then return shape[2], shape[3] end
  return shape[1], shape[2] or 0
end

local function drawn(view)
  if observer.mode ~= "check" then return core.plot.overlay(view) end
  local height, width = overlay.sizes(view.image)
  return core.zeros({1, 3, height, width}, {dtype = "u8"})
end

local function finite(op, i, values)
  for k, x in ipairs(values) do
    if type(x) ~= "number" or x ~= x or math.abs(x) > 1e6 then
      check.fail(op, ("entry %d: value %d is %s; px from -1e6 to 1e6 can be drawn"):format(i, k, tostring(x)))
    end
  end
  return values
end

-- Raises for what an entry says beside its numbers and these keys.
local function check_keys(op, entry, keys)
  for key in pairs(entry) do
    if type(key) ~= "number" then check.one_of(op, "option", key, keys) end
  end
end

-- Whether any of the names is one; they stand beside the marks then.
local function names_of(list)
  local out, any = {}, false
  for i, one in ipairs(list) do
    out[i] = one.name and tostring(one.name):gsub("%z", "\239\191\189") or ""
    any = any or out[i] ~= ""
  end
  return any and out or nil
end

--- Draws points over an image: rings, crosses where they cannot be seen, each with its name. The k-th has the colour of
-- class k.
-- in   image: tensor (H,W), (C,H,W), (1,C,H,W) or (H,W,C), C 1 or 3; u8, or floating, whose least value is black and
--      greatest white; list of {x, y, name = text or nil, visible = false for a cross}: px, (0,0) is the upper left
--      corner of the image
-- out  u8 (1,3,H,W)
-- errs value: a place that is no number; shape: no image; unsupported: the library that draws is missing
function overlay.points(image, list)
  local rows = {}
  for i, p in ipairs(list) do
    check_keys("overlay.points", p, {"name", "visible"})
    local xy = finite("overlay.points", i, {p[1] or 0 / 0, p[2] or 0 / 0})
    rows[i] = {xy[1], xy[2], p.visible == false and 0 or 1}
  end
  return drawn{image = image, points = rows[1] and core.tensor(rows) or nil, point_names = names_of(list)}
end

--- Draws boxes with their names over an image.
-- in   image as of overlay.points; list of {left, top, right, bottom, name = text or nil, class = number from 0 (of the
--      colour) or nil}: px. Without a name the class stands there
-- out  u8 (1,3,H,W)
-- errs value: a side that is no number; shape: no image; unsupported
function overlay.boxes(image, list)
  local rows = {}
  for i, b in ipairs(list) do
    check_keys("overlay.boxes", b, {"name", "class"})
    rows[i] = finite("overlay.boxes", i, {b[1] or 0 / 0, b[2] or 0 / 0, b[3] or 0 / 0, b[4] or 0 / 0})
    rows[i][5] = b.class or 0
  end
  local names = names_of(list)
  for i, b in ipairs(list) do
    if names and names[i] == "" and b.class then names[i] = tostring(b.class) end
  end
  return drawn{image = image, boxes = rows[1] and core.tensor(rows) or nil, box_names = names}
end

local function packed(op, palette)
  local out = {}
  for i, colour in ipairs(palette) do
    if type(colour) ~= "table" or #colour < 3 then
      check.fail(op, ("colour %d of the palette is no {red, green, blue}"):format(i))
    end
    out[i] = number_of(colour) % RGB
  end
  return out
end

-- What a mask's numbers must be so that each has a colour.
local function check_labels(op, labels, palette)
  local flat = labels:to("f32"):reshape(-1)
  local least, most = -(-flat):max(1):item(), flat:max(1):item()
  if least < 0 or most > 255 then
    check.fail(op, ("classes of a mask are 0 to 255, got %g to %g"):format(least, most))
  end
  if palette and most >= #palette then
    check.fail(op, ("the mask has class %g, and the palette %d colours"):format(most, #palette),
      "overlay.palette(n) makes one for n classes")
  end
end

--- Tints the pixels of a mask in the colours of their classes; class 0 stays as it is.
-- in   image as of overlay.points; labels: tensor (H,W), a class 0 to 255 of each pixel of the image; palette: that of
--      overlay.palette (default), or a list of {red, green, blue}, entry k + 1 of class k; alpha: how much a tint
--      covers, above 0 up to 1 (0.45)
-- out  u8 (1,3,H,W)
-- errs value: a class without a colour, alpha; shape: labels of another size; unsupported
function overlay.mask(image, labels, palette, alpha)
  local op = "overlay.mask"
  if alpha and not (alpha > 0 and alpha <= 1) then
    check.fail(op, ("alpha is above 0 and at most 1, not %g"):format(alpha))
  end
  local height, width = overlay.sizes(image)
  if labels:dim() ~= 2 or labels:size(1) ~= height or labels:size(2) ~= width then
    core.error{code = "shape", op = op, path = false,
      message = ("the mask is (%s), and the image %d px high and %d px wide"):format(table.concat(labels.shape, ","),
        height, width), hint = "resize one of them first"}
  end
  if observer.mode ~= "check" then check_labels(op, labels, palette) end
  return drawn{image = image, mask = labels, palette = palette and packed(op, palette), tint = alpha}
end

return require("missing").watch("plot.overlay", overlay)
