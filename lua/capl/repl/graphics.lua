-- graphics.lua: a row of images as what a terminal understands: kitty's pictures, sixels, half blocks, coloured cells,
-- letters.
--
-- Each way is a function(images, columns, rows, gap, lo, hi) -> text that ends with a line break.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sorted_keys = require "sorted_keys"
local term = require "repl.term"

local graphics = {}

local pixels_of = core.sys.prompt.pixels

local ways = {}

-- ---- letters and blocks ----

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

-- Two pixels in each place: the upper half in the letter's colour, the lower one in the ground's. Where there are no
-- such letters: one pixel as the ground of a space; where there are no colours: letters.
function ways.blocks(images, columns, rows, gap, lo, hi)
  if not term.color_depth() then return ways.ascii(images, columns, rows, gap, lo, hi) end
  local utf8 = term.has_utf8()
  return lines_of(images, columns, rows, gap, lo, hi, painter(utf8 and "▀" or " ", utf8))
end

-- ---- pixels ----

local cell_width, cell_height -- in pixels

local function cell_size()
  if cell_width then return cell_width, cell_height end
  local rows, columns, height, width = core.sys.prompt.window()
  if rows and height > 0 and width > 0 then
    cell_width, cell_height = math.floor(width / columns), math.floor(height / rows)
  else
    local h, w = (core.sys.prompt.ask("\27[16t", "t", 0.3) or ""):match("6;(%d+);(%d+)t")
    cell_width, cell_height = tonumber(w) or 8, tonumber(h) or 16
  end
  cell_width, cell_height = math.max(1, math.min(cell_width, 64)), math.max(1, math.min(cell_height, 128))
  return cell_width, cell_height
end

-- The images side by side as one picture: bytes, width, height.
local function strip(images, columns, rows, gap, lo, hi)
  local cw, ch = cell_size()
  local w, h, between = math.min(columns * cw, 4096), math.min(rows * ch, 4096), ("\0"):rep(gap * cw * 3)
  if #images == 1 then return pixels_of(images[1], w, h, lo, hi), w, h end
  local parts, lines = {}, {}
  for i, image in ipairs(images) do parts[i] = pixels_of(image, w, h, lo, hi) end
  for y = 0, h - 1 do
    for i, part in ipairs(parts) do
      if i > 1 then lines[#lines + 1] = between end
      lines[#lines + 1] = part:sub(y * w * 3 + 1, (y + 1) * w * 3)
    end
  end
  return table.concat(lines), #images * w + (#images - 1) * gap * cw, h
end

local KITTY_CHUNK = 4096

function ways.kitty(images, columns, rows, gap, lo, hi)
  local bytes, w, h = strip(images, columns, rows, gap, lo, hi)
  local text, out = core.sys.prompt.base64(bytes), {}
  for at = 1, #text, KITTY_CHUNK do
    local more = at + KITTY_CHUNK <= #text and 1 or 0
    local head = at == 1 and ("a=T,q=2,f=24,s=%d,v=%d,c=%d,r=%d,m=%d"):format(w, h,
      #images * columns + (#images - 1) * gap, rows, more)
      or ("m=%d"):format(more)
    out[#out + 1] = "\27_G" .. head .. ";" .. text:sub(at, at + KITTY_CHUNK - 1) .. "\27\\"
  end
  return table.concat(out) .. "\n"
end

function ways.sixel(images, columns, rows, gap, lo, hi)
  local bytes, w, h = strip(images, columns, rows, gap, lo, hi)
  return core.sys.prompt.sixel(bytes, math.min(w, 4096), h) .. "\n"
end

-- ---- what the terminal can do ----

local found

local function ask()
  local env = core.sys.getenv
  local name, program = env("TERM") or "", env("TERM_PROGRAM") or ""
  if not core.sys.isatty(1) or not term.color_depth() or name == "linux" then return "blocks" end
  local in_tmux = (env("TMUX") or "") ~= ""
  if not in_tmux and ((env("KITTY_WINDOW_ID") or "") ~= "" or name == "xterm-kitty" or program == "ghostty") then
    return "kitty"
  end
  local answer = core.sys.prompt.ask("\27[c", "c", 0.5) -- "\27[?62;4;22c": 4 is sixel
  return answer and answer:gsub("c$", ";"):gsub("%?", ";"):find(";4;", 1, true) and "sixel" or "blocks"
end

--- The function for a way by its name, or for the best that this terminal has.
function graphics.of(name)
  if name == nil then
    found = found or ask()
    name = found
  end
  local list = sorted_keys(ways)
  return ways[name] or require("check").one_of("show", "way to show images", name, list)
end

return graphics
