-- data_stat.lua: for `capl data stat`: count, sizes, formats, characters and balance of a set of images.
-- SPDX-License-Identifier: Apache-2.0
local count = require "count"
local data_fields = require "cli.data_fields"
local ranges = require "data.ranges"
local named = require "fields.named"
local symbols = require "fields.symbols"
local term = require "repl.term"

local stat = {}

-- ---- counting ----

--- A table of how often what occurs.
local function tally() return {count = {}, order = {}, total = 0} end

local function add(t, what)
  if not t.count[what] then t.order[#t.order + 1] = what end
  t.count[what] = (t.count[what] or 0) + 1
  t.total = t.total + 1
end

--- By count, then by name.
local function by_count(t)
  table.sort(t.order, function(a, b)
    if t.count[a] ~= t.count[b] then return t.count[a] > t.count[b] end
    return a < b
  end)
  return t.order
end

local TABLE_MAX = 100 -- characters or labels that are shown one by one

local channel_names = {"gray", "gray + alpha", "RGB", "4 channels"}

--- What the files are. -> tallies of formats, sizes, channels; bytes; list of what is wrong
local function count_files(source, scan)
  local found = {formats = tally(), sizes = tally(), channels = tally(), bytes = 0, bad = {}}
  for i = 0, source:count() - 1 do
    local size, format, width, height, channels = scan:facts(i)
    found.bytes = found.bytes + size
    if format then
      add(found.formats, format)
      add(found.sizes, ("%dx%d"):format(width, height))
      add(found.channels, channel_names[channels] or tostring(channels))
    else
      found.bad[#found.bad + 1] = width -- the message
    end
  end
  return found
end

local function count_labels(source)
  local found = {lengths = tally(), characters = tally(), texts = tally(), n = 0, empty = 0}
  for i = 0, source:count() - 1 do
    local text = source:text(i)
    if text then
      local list = symbols.of(text)
      for _, c in ipairs(list) do add(found.characters, c) end
      add(found.lengths, #list)
      for _, name in ipairs(named.split(text, source.several)) do add(found.texts, name) end
      if text == "" then found.empty = found.empty + 1 end
      found.n = found.n + 1
    end
  end
  return found
end

-- ---- as text ----

local function line(name, text) return ("  %-10s %s"):format(name, text) end

--- "160x60: 200, 80x30: 3, and 4 others"
local function list(t, shown)
  local parts, order = {}, by_count(t)
  for i = 1, math.min(shown, #order) do parts[i] = ("%s: %d"):format(order[i], t.count[order[i]]) end
  if #order > shown then parts[#parts + 1] = ("and %d others"):format(#order - shown) end
  return table.concat(parts, ", ")
end

--- "3 characters, not all of which a charset can hold: a b".
local function all_characters(order)
  local sorted = table.move(order, 1, #order, 1, {})
  table.sort(sorted)
  return ("%s, not all of which a charset can hold: %s"):format(count.of(#order, "character"), symbols.shown(sorted))
end

--- "each 24.0 times on average, from 7 (Q) to 40 (A)": the rarest and the commonest, where they differ.
local function spread(t)
  local order = by_count(t)
  local most, least = order[1], order[#order]
  if t.count[most] == t.count[least] then return (#order > 1 and "each " or "") .. count.of(t.count[most], "time") end
  return ("each %.1f times on average, from %d (%s) to %d (%s)"):format(t.total / #order, t.count[least], least,
    t.count[most], most)
end

--- Counts in columns, sorted by name.
local function columns(t, width)
  local order, widest = table.move(t.order, 1, #t.order, 1, {}), 0
  table.sort(order)
  local cells = {}
  for i, name in ipairs(order) do
    cells[i] = ("%s %d"):format(name, t.count[name])
    widest = math.max(widest, term.width(cells[i]))
  end
  local per_line = math.max(1, math.floor((width - 13) / (widest + 3)))
  local rows = math.ceil(#order / per_line)
  local digits = 0
  for _, name in ipairs(order) do digits = math.max(digits, #tostring(t.count[name])) end
  local lines = {}
  for row = 1, rows do
    local parts = {}
    for column = 0, per_line - 1 do
      local name = order[column * rows + row]
      if name then
        local times = tostring(t.count[name])
        parts[#parts + 1] = name .. (" "):rep(widest - digits - term.width(name)) .. (" "):rep(digits - #times) .. times
      end
    end
    lines[row] = (" "):rep(13) .. table.concat(parts, "   ")
  end
  return lines
end

local function balance(lines, t, what, several)
  lines[#lines + 1] = line("balance", ("%s, %s"):format(count.of(#t.order, what, several), spread(t)))
  if #t.order > TABLE_MAX then return end
  for _, text in ipairs(columns(t, 100)) do lines[#lines + 1] = text end
end

-- several: a label may be of several of them, or of none.
local function class_lines(lines, found, several)
  local each = several and (", %.2f of an image, %s of none"):format(found.texts.total / math.max(1, found.n),
    count.of(found.empty, "image")) or ""
  lines[#lines + 1] = line("labels", ("%d, %s%s"):format(found.n, count.of(#found.texts.order, "class", "classes"),
    each))
  balance(lines, found.texts, "class", "classes")
end

local function label_lines(lines, found, images)
  if found.n == 0 then
    lines[#lines + 1] = line("labels", "none")
    return
  end
  local without = images - found.n
  lines[#lines + 1] = line("labels", ("%d%s, %d different"):format(found.n,
    without > 0 and ", " .. count.of(without, "image") .. " without" or "", #found.texts.order))
  lines[#lines + 1] = line("lengths", list(found.lengths, 8))
  local order = found.characters.order
  if #order > 0 then lines[#lines + 1] = line("charset", ranges(order) or all_characters(order)) end
  local classes = #found.texts.order
  if classes <= 50 and classes * 2 <= found.n then balance(lines, found.texts, "label")
  elseif #found.characters.order > 0 then balance(lines, found.characters, "character") end
end

--- Lines to print about a source whose files scan has seen.
function stat.lines(source, scan)
  local found = count_files(source, scan)
  local lines = {("%s: %s, %s"):format(source.dir, count.of(source:count(), "image"), count.bytes(found.bytes))}
  if found.formats.total > 0 then
    lines[#lines + 1] = line("formats", list(found.formats, 4))
    lines[#lines + 1] = line("sizes", list(found.sizes, 5) .. " (px)")
    lines[#lines + 1] = line("channels", list(found.channels, 5))
  end
  if #found.bad > 0 then
    lines[#lines + 1] = line("unreadable", ("%d, such as %s"):format(#found.bad, found.bad[1]))
  end
  local left_out, example = source.box:left_out()
  if left_out > 0 then
    lines[#lines + 1] = line("not read",
      ("%d of other kinds, such as %s/%s; convert them to PNG"):format(left_out, source.dir, example))
  end
  if source.names then lines[#lines + 1] = line("names", source.names) end
  local labels = count_labels(source)
  if source.class_names then class_lines(lines, labels, source.several)
  else label_lines(lines, labels, source:count()) end
  for _, field in ipairs(data_fields.lines(source, scan)) do lines[#lines + 1] = line(field[1], field[2]) end
  return lines
end

return stat
