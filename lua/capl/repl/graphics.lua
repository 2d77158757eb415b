-- graphics.lua: a row of images as what a terminal understands: half blocks, coloured cells, letters.
--
-- Each way is a function(images, columns, rows, gap, lo, hi) -> text that ends with a line break.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local term = require "repl.term"

local graphics = {}

local pixels_of = core.sys.prompt.pixels

local ways = {}

local ramp = " .:-=+*#%@"

-- Calls cell(r, g, b, r2, g2, b2) for the pixels of each place, upper and lower, and joins what it gives.
local function lines_of(images, columns, rows, gap, lo, hi, cell, reset)
  local pixels = {}
  for i, image in ipairs(images) do pixels[i] = pixels_of(image, columns, rows * 2, lo, hi) end
  local out = {}
  for y = 0, rows - 1 do
    for i, data in ipairs(pixels) do
      if i > 1 then out[#out + 1] = reset() .. (" "):rep(gap) end
      for x = 0, columns - 1 do
        local upper, lower = (2 * y * columns + x) * 3 + 1, ((2 * y + 1) * columns + x) * 3 + 1
        local r, g, b = data:byte(upper, upper + 2)
        out[#out + 1] = cell(r, g, b, data:byte(lower, lower + 2))
      end
    end
    out[#out + 1] = reset() .. "\n"
  end
  return table.concat(out)
end

local function nothing() return "" end

local function bright(r, g, b) return (0.299 * r + 0.587 * g + 0.114 * b) / 255 end

function ways.ascii(images, columns, rows, gap, lo, hi)
  return lines_of(images, columns, rows, gap, lo, hi, function(r, g, b, r2, g2, b2)
    local place = math.floor((bright(r, g, b) + bright(r2, g2, b2)) / 2 * (#ramp - 1) + 0.5) + 1
    return ramp:sub(place, place)
  end, nothing)
end

local function level6(v) return v < 48 and 0 or v < 115 and 1 or math.floor((v - 35) / 40) end

-- The nearest of the 256 colours that all such terminals have.
local function of_256(r, g, b)
  if math.max(r, g, b) - math.min(r, g, b) < 10 then
    local gray = math.floor((r + g + b) / 3)
    if gray < 8 then return 16 end
    if gray > 246 then return 231 end
    return 232 + math.min(23, math.floor((gray - 8) / 10 + 0.5))
  end
  return 16 + 36 * level6(r) + 6 * level6(g) + level6(b)
end

local function color_code(ground, r, g, b)
  if term.color_depth() == "all" then return ("%d;2;%d;%d;%d"):format(ground, r, g, b) end
  return ("%d;5;%d"):format(ground, of_256(r, g, b))
end

-- Colours are said when they change.
local function painter(sign, both)
  local front, back
  local function cell(r, g, b, r2, g2, b2)
    local new_front = both and color_code(38, r, g, b) or ""
    if not both then r2, g2, b2 = math.floor((r + r2) / 2), math.floor((g + g2) / 2), math.floor((b + b2) / 2) end
    local new_back = color_code(48, r2, g2, b2)
    local codes = {}
    if new_front ~= front and new_front ~= "" then codes[1] = new_front end
    if new_back ~= back then codes[#codes + 1] = new_back end
    front, back = new_front, new_back
    return (#codes > 0 and "\27[" .. table.concat(codes, ";") .. "m" or "") .. sign
  end
  return cell, function()
    front, back = nil, nil
    return "\27[0m"
  end
end

-- Two pixels in each place: the upper half in the letter's colour, the lower one in the ground's. Where there are no such
-- letters: one pixel as the ground of a space; where there are no colours: letters.
function ways.blocks(images, columns, rows, gap, lo, hi)
  if not term.color_depth() then return ways.ascii(images, columns, rows, gap, lo, hi) end
  local utf8 = term.has_utf8()
  return lines_of(images, columns, rows, gap, lo, hi, painter(utf8 and "▀" or " ", utf8))
end

--- The function for a way by its name; nil: half blocks, where the terminal has them.
function graphics.of(name)
  return ways[name or "blocks"] or require("check").one_of("show", "way to show images", name, {"ascii", "blocks"})
end

return graphics
