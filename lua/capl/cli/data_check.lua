-- data_check.lua: for `capl data check`: broken files, labels that do not fit, images that occur twice or in both sets.
-- SPDX-License-Identifier: Apache-2.0
local count = require "count"
local data_fields = require "cli.data_fields"
local named = require "fields.named"
local symbols = require "fields.symbols"
local term = require "repl.term"

local check = {}

--- Collects what is found, with up to `shown` examples of each kind.
local function report(shown)
  local r = {found = 0, lines = {}}
  --- kind = "cannot be read"; n; example(i) -> text of the i-th
  function r:add(kind, n, example)
    if n == 0 then return end
    self.found = self.found + n
    self.lines[#self.lines + 1] = ("  %s: %d"):format(kind, n)
    for i = 1, math.min(shown, n) do self.lines[#self.lines + 1] = "    " .. example(i) end
    if n > shown then self.lines[#self.lines + 1] = ("    and %d more (--show=%d shows all)"):format(n - shown, n) end
  end
  --- What is no fault, but may be one.
  function r:note(text) self.lines[#self.lines + 1] = "  note: " .. text end
  return r
end

local function unreadable(r, source, scan)
  local messages = {}
  for i = 0, source:count() - 1 do
    local _, format, why = scan:facts(i)
    if not format then messages[#messages + 1] = why end
  end
  r:add("cannot be read", #messages, function(i) return messages[i] end)
  return #messages
end

--- Images of kinds that are not read, which training would pass over in silence.
local function left_out(r, source)
  local n, first = source.box:left_out()
  if n == 0 then return end
  r.found = r.found + n
  r.lines[#r.lines + 1] = ("  of a kind that is not read: %d"):format(n)
  r.lines[#r.lines + 1] = ("    such as %s/%s; convert them to PNG"):format(source.dir, first)
end

--- Images of other sizes are no fault, but loaders refuse them until an option says what to do.
local function sizes(r, source, scan)
  local seen, first, other = {}, nil, nil
  local n = 0
  for i = 0, source:count() - 1 do
    local _, format, width, height = scan:facts(i)
    local size = format and ("%d x %d"):format(width, height)
    if size and not seen[size] then
      seen[size], n = true, n + 1
      first, other = first or size, first and (other or size)
    end
  end
  if n < 2 then return end
  r.lines[#r.lines + 1] = ("  of %d sizes, such as %s and %s px: data.folder reads them with resize = true, or a " ..
    "height and widths"):format(
    n, first, other)
end

--- Labels against the charset, where there is one; else only that there are any, unless none was asked for.
local function labels(r, source)
  if #source.bad > 0 then
    r:add("labels that do not fit", #source.bad, function(i) return source.bad[i].message end)
    return
  end
  local without = {}
  for i = 0, source:count() - 1 do
    if not source:text(i) then without[#without + 1] = source:name(i) end
  end
  if source.rule or #without < source:count() then r:add("no label", #without, function(i) return without[i] end) end
end

local function is_odd(text) return symbols.unusable(text) ~= nil end

--- Texts that no charset can hold.
local function odd_texts(r, source)
  local blanks, beyond = {}, {}
  for i = 0, source:count() - 1 do
    local text = source:text(i)
    local list = text and is_odd(text) and (text:find("[%s%c]") and blanks or beyond)
    if list then list[#list + 1] = term.plain(("%s (%s)"):format(source:name(i), text)) end
  end
  r:add("labels with a blank or a control character", #blanks, function(i) return blanks[i] end)
  r:add("labels with bytes that are no UTF-8, or characters that cannot be seen", #beyond, function(i)
    return beyond[i] end)
end

local RARE = 5 -- times that the characters occur on average, from which on one that occurs once is worth a look
local USUAL = 0.9 -- share of the labels that have one length, from which on another length is

--- What is no fault, but may be one: characters that occur once, lengths that few labels have. One line each.
local function rare_texts(r, source)
  local times_of, where, lengths, n, total, different = {}, {}, {}, 0, 0, 0
  for i = 0, source:count() - 1 do
    local text = source:text(i)
    for _, c in ipairs(symbols.of(text and not is_odd(text) and text or "")) do
      different, total = different + (times_of[c] and 0 or 1), total + 1
      times_of[c], where[c] = (times_of[c] or 0) + 1, where[c] or i
    end
    local length = text and symbols.length(text)
    if length then n, lengths[length] = n + 1, (lengths[length] or 0) + 1 end
  end
  local once, usual = {}, nil
  for c, times in pairs(times_of) do
    if times == 1 and total / different >= RARE then once[#once + 1] = ("%s in %s"):format(c, source:name(where[c])) end
  end
  for length, times in pairs(lengths) do usual = times >= USUAL * n and length or usual end
  table.sort(once)
  local shown = table.concat(once, ", ", 1, math.min(5, #once))
  if #once > 0 then r:note("characters that occur once: " .. shown) end
  if not usual or lengths[usual] == n then return end
  for i = 0, source:count() - 1 do
    local text = source:text(i)
    if text and symbols.length(text) ~= usual then
      r:note(("%d of %d labels have another length than most, which is %d, such as %s (%s)"):format(
        n - lengths[usual], n, usual, source:name(i), text))
      return
    end
  end
end

local FEW = 2 -- images of a class, below which no split leaves one for each part

--- Classes of so few images that training or validation lacks them.
local function rare_classes(r, source)
  local times_of, few, none = {}, {}, {}
  for i = 0, source:count() - 1 do
    local text = source:text(i)
    if source.several and text == "" then none[#none + 1] = source:name(i) end
    for _, name in ipairs(named.split(text, source.several)) do
      times_of[name] = (times_of[name] or 0) + 1
    end
  end
  if none[1] then
    r:note(("%s of no class, such as %s"):format(count.of(#none, "image"), none[1]))
  end
  for _, name in ipairs(source.class_names) do
    if (times_of[name] or 0) < FEW then
      few[#few + 1] = ("%s (%s)"):format(name, count.of(times_of[name] or 0, "image"))
    end
  end
  if few[1] then r:note("classes of few images: " .. symbols.shown(few, ", ")) end
end

local function has_name(list)
  local has = {}
  for _, name in ipairs(list) do has[name] = true end
  return has
end

--- Classes of val that the model would never have seen.
local function unknown_classes(r, train, val)
  if not train.class_names or not val.class_names then return end
  local has, unknown = has_name(train.class_names), {}
  for _, name in ipairs(val.class_names) do
    if not has[name] then unknown[#unknown + 1] = name end
  end
  r:add(("classes that %s does not have"):format(train.dir), #unknown, function(i) return unknown[i] end)
end

local function labelled(source, id, other)
  local text = source:text(id)
  if not text or text == other then return source:name(id) end
  return ("%s (%s)"):format(source:name(id), text)
end

--- "b.png = a.png", with the labels where they contradict each other
local function pair_of(pairs_found, source, first_source)
  return function(i)
    local id, first = pairs_found[2 * i - 1], pairs_found[2 * i]
    return ("%s = %s"):format(labelled(source, id, first_source:text(first)),
      labelled(first_source, first, source:text(id)))
  end
end

local function copies(r, source, scan)
  local bytes, pixels = scan:same(false), scan:same(true)
  r:add("same bytes as another", #bytes / 2, pair_of(bytes, source, source))
  r:add("same picture as another, in other bytes", #pixels / 2, pair_of(pixels, source, source))
end

local function check_one(source, scan, shown)
  local r = report(shown)
  if source.names then r.lines[1] = "  names are " .. source.names end
  local bad = unreadable(r, source, scan)
  left_out(r, source)
  labels(r, source)
  if source.class_names then
    rare_classes(r, source)
  else
    odd_texts(r, source)
    rare_texts(r, source)
  end
  data_fields.check(r, source, scan)
  copies(r, source, scan)
  sizes(r, source, scan)
  local head = ("%s: %s, %s"):format(source.dir, count.of(source:count(), "image"),
    r.found == 0 and "nothing found" or bad == 0 and "all can be read"
    or ("%d can be read"):format(source:count() - bad))
  return r.found, head, r.lines
end

local function check_both(train, train_scan, val, val_scan, shown)
  local r = report(shown)
  local bytes, pixels = train_scan:same(val_scan, false), train_scan:same(val_scan, true)
  r:add("in both, byte by byte", #bytes / 2, pair_of(bytes, val, train))
  r:add("in both, in other bytes", #pixels / 2, pair_of(pixels, val, train))
  local overlap = r.found > 0
  unknown_classes(r, train, val)
  return r.found, ("%s and %s: %s"):format(train.dir, val.dir, overlap and "overlap" or "no image is in both"),
    r.lines
end

local function append(lines, found, head, more)
  lines[#lines + 1] = head
  for _, text in ipairs(more) do lines[#lines + 1] = text end
  return found
end

--- The same of a time series: look(r) reports to r and returns the first line.
function check.one(look, shown)
  local r = report(shown)
  table.insert(r.lines, 1, look(r))
  return r.found, r.lines
end

--- Looks at one set or two. scan_of(source) -> its decoded scan
-- out  number of things found, lines to print
function check.run(train, val, scan_of, shown)
  local lines, found = {}, 0
  local train_scan = scan_of(train)
  found = found + append(lines, check_one(train, train_scan, shown))
  if val then
    local val_scan = scan_of(val)
    found = found + append(lines, check_one(val, val_scan, shown))
    found = found + append(lines, check_both(train, train_scan, val, val_scan, shown))
  end
  return found, lines
end

return check
