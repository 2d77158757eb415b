-- chart.lua: plot(series): lines in the terminal, as dots of Braille letters or, without them, as signs.
--
-- The canvas has 2 x 4 dots in each place. Numbers stand at the axes; a value that is missing leaves a gap.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local sorted_keys = require "sorted_keys"
local term = require "repl.term"

local chart = {}

local spec = {{"height", "whole"}, {"width", "whole"}, {"log", "boolean"}, {"title", "string"}}
local colors = {"34", "33", "32", "35", "36", "31"}
local signs = {"*", "+", "o", "x", "#", "%"}
local MOST_SERIES = 12

local HINT = "a list of numbers, a tensor (N), {name = list, …}, {x = list, y = list}, or a run's folder"

local function fail(message) check.fail("plot", message, HINT) end

-- ---- what is drawn ----

local function numbers(values, name)
  if core.is_tensor(values) then
    if values.device == "meta" then fail("a tensor on device meta has no values") end
    if values.ndim > 1 then values = values:squeeze() end
    if values.ndim ~= 1 then fail(("a tensor with %d dims is no series"):format(values.ndim)) end
    return values:detach():tolist()
  end
  if type(values) ~= "table" then
    fail(("%s is a %s, not a list"):format(name == "" and "the series" or name, core.typename(values)))
  end
  local out, last = {}, 0
  for key in next, values do
    if type(key) ~= "number" or key < 1 or key % 1 ~= 0 or key > 1e7 then
      fail(("%s has an entry [%s]"):format(name == "" and "the series" or name, tostring(key)))
    end
    last = math.max(last, key)
  end
  for i = 1, last do
    local value = values[i]
    if core.is_tensor(value) and value:numel() == 1 then value = value:item() end
    if value ~= nil and type(value) ~= "number" then
      fail(("value %d of %s is a %s"):format(i, name == "" and "the series" or name, core.typename(value)))
    end
    out[i] = value or 0 / 0
  end
  return out
end

local function series(name, y, x)
  y = numbers(y, name)
  x = x and numbers(x, name .. ".x")
  if x and #x ~= #y then fail(("%s: x has %d values, y has %d"):format(name, #x, #y)) end
  if not x then
    x = {}
    for i = 1, #y do x[i] = i end
  end
  return {name = name, x = x, y = y}
end

-- Metrics that people look at first, of those that a run has.
local function default_metrics(rows)
  local out = {}
  for _, name in ipairs{"loss", "train_loss", "val_loss"} do
    for _, row in ipairs(rows) do
      if type(row[name]) == "number" then out[#out + 1] = name break end
    end
  end
  return out
end

local function of_run(path, wanted)
  if core.sys.kind(path) ~= "folder" and core.sys.kind("runs/" .. path) == "folder" then path = "runs/" .. path end
  local run = require("report.folder").read(path)
  local rows = {}
  for _, list in ipairs{run.points, run.evaluations} do
    for _, row in ipairs(list) do rows[#rows + 1] = row end
  end
  local out, known = {}, {}
  for _, row in ipairs(rows) do
    for key, value in pairs(row) do
      if type(value) == "number" and key ~= "step" then known[key] = true end
    end
  end
  for _, name in ipairs(wanted or default_metrics(rows)) do
    local x, y = {}, {}
    for _, row in ipairs(rows) do
      if type(row[name]) == "number" and type(row.step) == "number" then x[#x + 1], y[#y + 1] = row.step, row[name] end
    end
    if #x == 0 then
      local list = sorted_keys(known)
      fail(("%s has no metric '%s'; it has %s"):format(path, tostring(name), #list > 0 and table.concat(list, ", ")
        or "none yet"))
    end
    out[#out + 1] = {name = name, x = x, y = y}
  end
  if #out == 0 then fail(path .. " has no losses to draw") end
  return out
end

local function is_list(what)
  local first = rawget(what, 1)
  return first ~= nil and (type(first) == "number" or core.is_tensor(first) and first:numel() == 1)
end

-- A list of {name, x, y} from whatever is given, and the options.
local function read(what, second, third)
  if type(what) == "string" then
    local is_names = type(second) == "table" and type(rawget(second, 1)) == "string"
    if is_names then return of_run(what, second), third end
    return of_run(what), second
  end
  if core.is_tensor(what) then return {series("", what)}, second end
  if type(what) ~= "table" then fail(("cannot draw a %s"):format(core.typename(what))) end
  if is_list(what) or rawequal(next(what), nil) then return {series("", what)}, second end
  if what.y ~= nil and (what.x ~= nil or what.name ~= nil) then
    return {series(what.name or "", what.y, what.x)}, second
  end
  local out, names = {}, {}
  for key in next, what do names[#names + 1] = key end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(names) do
    local value = what[key]
    local is_pair = type(value) == "table" and value.y ~= nil
    out[#out + 1] = is_pair and series(value.name or tostring(key), value.y, value.x) or series(tostring(key), value)
  end
  if #out > MOST_SERIES then
    fail(("%d series are more than the %d that can be told apart"):format(#out, MOST_SERIES))
  end
  return out, second
end

-- ---- axes ----

local function is_finite(v) return v == v and v ~= math.huge and v ~= -math.huge end

local function range_of(list, key, usable)
  local lo, hi = math.huge, -math.huge
  for _, s in ipairs(list) do
    for i, v in ipairs(s[key]) do
      if usable(v) and is_finite(s.y[i]) then lo, hi = math.min(lo, v), math.max(hi, v) end
    end
  end
  if lo > hi then return nil end
  if lo == hi then
    local room = lo == 0 and 1 or math.abs(lo) * 0.5
    return lo - room, hi + room
  end
  return lo, hi
end

local function number_text(v)
  if v ~= 0 and (math.abs(v) >= 1e6 or math.abs(v) < 1e-3) then
    return (("%.1e"):format(v):gsub("e([+-])0+(%d)", "e%1%2"))
  end
  return ("%.4g"):format(v)
end

-- Round numbers between lo and hi, about as many as wanted.
local function ticks(lo, hi, wanted)
  local rough = (hi - lo) / math.max(wanted, 1)
  local power = 10 ^ math.floor(math.log10(rough))
  local step = power * 10
  for _, m in ipairs{1, 2, 5} do
    if rough <= m * power * 1.0001 then step = m * power break end
  end
  local out, first = {}, math.ceil(lo / step - 1e-9)
  for k = first, first + 40 do
    local v = k * step
    if v > hi + step * 1e-9 then break end
    out[#out + 1] = math.abs(v) < step * 1e-9 and 0 or v
  end
  return out
end

-- ---- the canvas ----

local bit_of = {[0] = {[0] = 1, 8}, {[0] = 2, 16}, {[0] = 4, 32}, {[0] = 64, 128}} -- [row][column] of a Braille letter

local function braille(bits)
  local code = 0x2800 + bits
  return string.char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
end

local Canvas = {}
Canvas.__index = Canvas

local function canvas(columns, rows, fine)
  local dots = {dx = fine and 2 or 1, dy = fine and 4 or 1}
  return setmetatable({columns = columns, rows = rows, dx = dots.dx, dy = dots.dy, fine = fine, bits = {}, owner = {}},
    Canvas)
end

-- x from 0 on to the right, y from 0 on downwards, in dots
function Canvas:dot(x, y, owner)
  local column, row = math.floor(x / self.dx), math.floor(y / self.dy)
  if column < 0 or row < 0 or column >= self.columns or row >= self.rows then return end
  local place = row * self.columns + column
  local b = self.fine and bit_of[y % 4][x % 2] or 1
  local had = self.bits[place] or 0
  if math.floor(had / b) % 2 == 0 then self.bits[place] = had + b end
  self.owner[place] = owner
end

function Canvas:line(x0, y0, x1, y1, owner)
  local n = math.max(math.abs(x1 - x0), math.abs(y1 - y0), 1)
  for k = 0, n do
    self:dot(math.floor(x0 + (x1 - x0) * k / n + 0.5), math.floor(y0 + (y1 - y0) * k / n + 0.5), owner)
  end
end

local function paint(owner, text)
  if not term.has_color() then return text end
  return "\27[" .. colors[(owner - 1) % #colors + 1] .. "m" .. text .. "\27[0m"
end

function Canvas:text(row)
  local out = {}
  for column = 0, self.columns - 1 do
    local place = row * self.columns + column
    local owner = self.owner[place]
    if not owner then out[#out + 1] = " "
    elseif self.fine then out[#out + 1] = paint(owner, braille(self.bits[place]))
    else out[#out + 1] = paint(owner, signs[(owner - 1) % #signs + 1]) end
  end
  return (table.concat(out):gsub(" +$", ""))
end

-- ---- drawing ----

local function draw_series(c, s, owner, to_x, to_y)
  local px, py
  for i, x in ipairs(s.x) do
    local y = to_y(s.y[i])
    if not y or not is_finite(x) then
      px = nil
    else
      local qx, qy = to_x(x), y
      c:line(px or qx, py or qy, qx, qy, owner)
      px, py = qx, qy
    end
    if not px then py = nil end
  end
end

-- Numbers of the y axis by row; they are as long as the longest.
local function y_labels(c, lo, hi, log)
  local labels, widest = {}, 0
  for _, v in ipairs(ticks(lo, hi, math.max(2, math.floor(c.rows / 3)))) do
    local row = math.floor((hi - v) / (hi - lo) * (c.rows * c.dy - 1) / c.dy + 0.5 / c.dy)
    local text = number_text(log and 10 ^ v or v)
    labels[row] = text
    widest = math.max(widest, #text)
  end
  return labels, widest
end

local function x_line(c, lo, hi)
  local line, last = {}, -2
  for _, v in ipairs(ticks(lo, hi, math.max(2, math.floor(c.columns / 12)))) do
    local text = number_text(v)
    local at = math.floor((v - lo) / (hi - lo) * (c.columns - 1) + 0.5) - math.floor(#text / 2)
    at = math.max(0, math.min(at, c.columns - #text))
    if at > last + 1 then
      line[#line + 1] = (" "):rep(at - math.max(last, 0)) .. text
      last = at + #text
    end
  end
  return table.concat(line)
end

local function legend(list, room)
  local parts = {}
  for i, s in ipairs(list) do
    local last
    for k = #s.y, 1, -1 do
      if is_finite(s.y[k]) then last = s.y[k] break end
    end
    local sign = term.has_utf8() and "━" or signs[(i - 1) % #signs + 1]
    if s.name ~= "" then
      parts[#parts + 1] = paint(i, sign) .. " " .. term.plain(s.name) .. (last and " " .. number_text(last) or "")
    end
  end
  return term.cut(table.concat(parts, "  "), room)
end

local function skipped_text(list, usable)
  local n = 0
  for _, s in ipairs(list) do
    for _, v in ipairs(s.y) do
      if not usable(v) then n = n + 1 end
    end
  end
  return n > 0 and term.paint("dim", (n == 1 and "1 value is missing\n" or ("%d values are missing\n"):format(n))) or ""
end

local function compose(list, opts)
  local rows, width = term.size()
  local function usable(v) return is_finite(v) and (not opts.log or v > 0) end
  local lo, hi = range_of(list, "y", usable)
  local left, right = range_of(list, "x", is_finite)
  if not lo or not left then fail(opts.log and "no value above zero to draw" or "no value to draw") end
  if opts.log then lo, hi = math.log10(math.max(lo, 1e-300)), math.log10(hi) end
  local fine = term.has_utf8()
  local height = math.max(3, math.min(opts.height or math.min((rows or 24) - 6, 16), 200))
  local c = canvas(10, height, fine)
  local labels, margin = y_labels(c, lo, hi, opts.log)
  c.columns = math.max(10, math.min(opts.width or width, 1000) - margin - 3)
  local function to_x(x) return math.floor((x - left) / (right - left) * (c.columns * c.dx - 1) + 0.5) end
  local function to_y(y)
    if not usable(y) then return nil end
    y = opts.log and math.log10(y) or y
    return math.floor((hi - y) / (hi - lo) * (c.rows * c.dy - 1) + 0.5)
  end
  for i, s in ipairs(list) do draw_series(c, s, i, to_x, to_y) end
  local out = {}
  if opts.title then out[1] = term.paint("head", term.cut(term.plain(opts.title), width)) end
  local head = legend(list, width)
  if head ~= "" then out[#out + 1] = head end
  for row = 0, c.rows - 1 do
    local label = labels[row]
    local bar = label and (fine and "┤" or "+") or (fine and "│" or "|")
    out[#out + 1] = (" "):rep(margin - #(label or "")) .. (label or "") .. " " .. bar .. c:text(row)
  end
  out[#out + 1] = (" "):rep(margin + 1) .. (fine and "└" .. ("─"):rep(c.columns) or "+" .. ("-"):rep(c.columns))
  out[#out + 1] = (" "):rep(margin + 2) .. x_line(c, left, right)
  return table.concat(out, "\n") .. "\n" .. skipped_text(list, usable)
end

--- plot(series[, opts]); globals.lua documents it.
function chart.draw(what, second, third)
  local list, opts = read(what, second, third)
  core.sys.draw(compose(list, check.options("plot", spec, opts or {})))
end

return chart
