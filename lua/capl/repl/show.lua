-- show.lua: a value as the prompt prints it: strings quoted inside tables, tables sorted, aligned and cut, cycles
-- named.
--
-- Looks without running code of others: no __index, no __pairs; only __tostring, whose text is made harmless. A text is
-- built twice at most for each table: on one line, and when that does not fit, on lines of its own.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local classes = require "module_class"
local term = require "repl.term"

local show = {}

local MAX_DEPTH, MAX_ITEMS, PIPE_ITEMS, KEY_MOST = 6, 200, 1000, 24

local keywords = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true " ..
  "until while"):gmatch("%a+") do
  keywords[word] = true
end

local inline -- value, room, state -> text, columns; nil when it needs more

-- ---- single values ----

local function quoted(text, room)
  local cut
  if #text > 4 * room + 16 then text, cut = text:sub(1, 4 * room), #text end
  local out = ("%q"):format(text):gsub("\\\n", "\\n"):gsub("\r", "\\r"):gsub("%z", "\\0"):gsub("\t", "\\t")
  out = term.plain(out)
  if cut then out = term.cut(out, room > 24 and room - 16 or 8) .. ('" (%d bytes)'):format(cut) end
  return out
end

local function number_text(value)
  if value ~= value then return "nan" end
  if value == math.huge or value == -math.huge then return value > 0 and "inf" or "-inf" end
  if value % 1 == 0 and value >= -2^53 and value <= 2^53 then return ("%d"):format(value) end
  return ("%.14g"):format(value)
end

local function has_own_text(value)
  local meta = core.sys.metatable(value)
  return type(meta) == "table" and rawget(meta, "__tostring") ~= nil
end

-- What __tostring says, made harmless; an error in it is printed, not raised. Ctrl-C goes through.
local function own_text(value)
  local fine, text = pcall(tostring, value)
  if fine and type(text) == "string" then return term.plain(text) end
  return "<" .. core.typename(value) .. " whose __tostring fails>"
end

local function shape_text(x)
  return "(" .. table.concat(x.shape, ",") .. ")"
end

local function tensor_word(x)
  if x:is_released() then return "tensor (released)" end
  return ("tensor %s %s %s"):format(shape_text(x), x.dtype, x.device)
end

local function module_word(m)
  local children = m:children()
  if #children == 0 then return own_text(m) end
  return ("%s(%d layers, %s parameters)"):format(m.__name or "Module", #children,
    require("digit_groups")(m:parameter_count()))
end

-- role, text of a value that is no open table; nil for such a table
local function word_of(value, room)
  local kind = type(value)
  if kind == "string" then return "string", quoted(value, room) end
  if kind == "number" then return "number", number_text(value) end
  if kind == "boolean" or kind == "nil" then return "word", tostring(value) end
  if core.is_tensor(value) then return "kind", tensor_word(value) end
  if kind == "table" and classes.is_module(value) then return "kind", (module_word(value):gsub("\n.*", term.dots())) end
  if kind == "table" and not has_own_text(value) then return nil end
  if kind == "function" then return "kind", "function" end
  return "kind", (own_text(value):gsub("\n.*", term.dots()))
end

-- ---- tables ----

-- Keys that are no part of the list 1..n, names first, then numbers, then the rest.
local function other_keys(t, n)
  local keys, rank = {}, {string = 1, number = 2}
  for key in next, t do
    local in_list = type(key) == "number" and key >= 1 and key <= n and key % 1 == 0
    if not in_list then keys[#keys + 1] = key end
  end
  local text = {}
  for _, key in ipairs(keys) do text[key] = type(key) == "string" and key or tostring(key) end
  table.sort(keys, function(a, b)
    local ra, rb = rank[type(a)] or 3, rank[type(b)] or 3
    if ra ~= rb then return ra < rb end
    if ra == 2 then return a < b end
    return text[a] < text[b]
  end)
  return keys
end

-- How many entries from 1 on a table has, by rawget: # may be anything in a table with holes.
local function list_length(t)
  local n = 0
  while rawget(t, n + 1) ~= nil do n = n + 1 end
  return n
end

local function key_text(key)
  if type(key) == "string" and key:match("^[%a_][%w_]*$") and not keywords[key] then return key end
  local role, text = word_of(key, 60)
  return "[" .. (role and text or "{" .. term.dots() .. "}") .. "]"
end

local function inline_table(t, room, state)
  if state.open[t] then return term.paint("error", "<cycle>"), 7 end
  if state.depth >= MAX_DEPTH then
    if rawequal(next(t), nil) then return "{}", 2 end
    return "{" .. term.dots() .. "}", 3
  end
  state.open[t], state.depth = true, state.depth + 1
  local n = list_length(t)
  local parts, used = {}, 2
  local function add(prefix, value)
    local text, columns = inline(value, room - used - term.width(prefix), state)
    if not text then return false end
    used = used + columns + term.width(prefix) + (#parts > 0 and 2 or 0)
    parts[#parts + 1] = (prefix ~= "" and term.paint("name", prefix:sub(1, -4)) .. " = " or "") .. text
    return used <= room
  end
  local fits = n * 3 <= room + 2
  for i = 1, fits and n or 0 do
    fits = add("", rawget(t, i))
    if not fits then break end
  end
  if fits then
    for _, key in ipairs(other_keys(t, n)) do
      fits = add(key_text(key) .. " = ", rawget(t, key))
      if not fits then break end
    end
  end
  state.open[t], state.depth = nil, state.depth - 1
  if fits then return "{" .. table.concat(parts, ", ") .. "}", used end
end

function inline(value, room, state)
  if room < 1 then return nil end
  local role, text = word_of(value, room)
  if not role then return inline_table(value, room, state) end
  local columns = term.width(text)
  if columns > room then return nil end
  return term.paint(role, text), columns
end

local write -- value, indent, state, lines, head: adds lines to the list

-- Numbers and short texts of a long list in columns, as `ls` has its names.
local function write_columns(t, n, indent, state, lines)
  local room = state.columns - 2 * indent - 2
  local texts, widest = {}, 0
  for i = 1, math.min(n, state.items) do
    local value = rawget(t, i)
    if type(value) == "table" then return false end
    local text, columns = inline(value, math.min(room, 24), state)
    if not text then return false end
    texts[i] = {text, columns, type(value) == "number"}
    widest = math.max(widest, columns)
  end
  local across = math.max(1, math.floor(room / (widest + 2)))
  for first = 1, #texts, across do
    local parts = {}
    for i = first, math.min(first + across - 1, #texts) do
      local gap = (" "):rep(widest - texts[i][2])
      parts[#parts + 1] = texts[i][3] and gap .. texts[i][1] .. "," or texts[i][1] .. "," .. gap
    end
    lines[#lines + 1] = ("  "):rep(indent + 1) .. table.concat(parts, " "):gsub("%s+$", "")
  end
  if n > #texts then
    lines[#lines + 1] = ("  "):rep(indent + 1) .. term.paint("dim", ("%s %d more"):format(term.dots(), n - #texts))
  end
  return true
end

local function write_fields(t, n, indent, state, lines)
  local keys, names, widest = other_keys(t, n), {}, 0
  local shown = math.min(#keys, state.items)
  for i = 1, shown do
    names[i] = key_text(keys[i])
    if term.width(names[i]) <= KEY_MOST then widest = math.max(widest, term.width(names[i])) end
  end
  for i = 1, shown do
    local gap = (" "):rep(widest - term.width(names[i]))
    write(rawget(t, keys[i]), indent + 1, state, lines, term.paint("name", names[i]) .. gap .. " = ", widest + 3)
  end
  if #keys > shown then
    lines[#lines + 1] = ("  "):rep(indent + 1) .. term.paint("dim", ("%s %d more"):format(term.dots(), #keys - shown))
  end
end

local function write_table(t, indent, state, lines, head)
  state.open[t], state.depth = true, state.depth + 1
  local n = list_length(t)
  lines[#lines + 1] = ("  "):rep(indent) .. head .. "{"
  if not (n > 8 and write_columns(t, n, indent, state, lines)) then
    for i = 1, math.min(n, state.items) do write(rawget(t, i), indent + 1, state, lines, "", 0) end
    if n > state.items then
      lines[#lines + 1] = ("  "):rep(indent + 1)
        .. term.paint("dim", ("%s %d more"):format(term.dots(), n - state.items))
    end
  end
  write_fields(t, n, indent, state, lines)
  lines[#lines + 1] = ("  "):rep(indent) .. "}" .. (indent > 0 and "," or "")
  state.open[t], state.depth = nil, state.depth - 1
end

function write(value, indent, state, lines, head, head_columns)
  local comma = indent > 0 and "," or ""
  local room = state.columns - 2 * indent - head_columns - #comma
  local text = inline(value, room, state)
  if not text and type(value) == "table" and word_of(value, room) == nil and state.depth < MAX_DEPTH
    and not state.open[value] then
    return write_table(value, indent, state, lines, head)
  end
  if not text then
    local role, long = word_of(value, room)
    text = term.paint(role or "dim", term.cut(long or "{" .. term.dots() .. "}", math.max(room, 8)))
  end
  lines[#lines + 1] = ("  "):rep(indent) .. head .. text .. comma
end

-- Lines in the middle go when there are more than the terminal has.
local function fit_height(lines, rows)
  if not rows or #lines <= math.max(rows - 2, 8) then return lines end
  local keep = math.max(rows - 4, 6)
  local out = {}
  for i = 1, keep do out[i] = lines[i] end
  out[keep + 1] = term.paint("dim",
    ("%s %d lines more; print(x) and x[k] show them"):format(term.dots(), #lines - keep - 1))
  out[keep + 2] = lines[#lines]
  return out
end

local function table_text(t)
  local rows, columns = term.size()
  local state = {columns = math.max(columns, 20), items = rows and MAX_ITEMS or PIPE_ITEMS, open = {}, depth = 0}
  local lines = {}
  write(t, 0, state, lines, "", 0)
  return table.concat(fit_height(lines, rows), "\n")
end

-- ---- anything ----

-- What is shown for a value: for the settings of a recipe, which read as an empty table, their values.
local function opened(value)
  local meta = type(value) == "table" and core.sys.metatable(value)
  local settings = type(meta) == "table" and rawget(meta, "__settings")
  return type(settings) == "table" and settings or value
end

--- Text of any value, with colours where the terminal has them.
function show.value(value)
  value = opened(value)
  local kind = type(value)
  if kind == "string" then return term.plain(value) end
  if core.is_tensor(value) then return require("repl.show_tensor").text(value) end
  if kind == "function" then return require("repl.names").function_text(value) end
  if kind == "table" and classes.is_module(value) then return require("repl.show_module").text(value) end
  if kind == "table" and require("repl.names").is_library(value) then
    return require("repl.names").library_text(value)
  end
  if kind == "table" and not has_own_text(value) then return table_text(value) end
  local role, text = word_of(value, 1000)
  if role == "kind" then text = own_text(value) end
  return term.paint(role, text)
end

--- One line about any value, of at most so many columns: for who(). A list of variables runs nothing of theirs, so a
-- text of their own is not asked for.
function show.brief(value, columns)
  value = opened(value)
  local is_object = type(value) == "table" and has_own_text(value) and not classes.is_module(value)
  if is_object then return term.paint("dim", "print it to see its own text") end
  local text = inline(value, columns, {columns = columns, open = {}, depth = 0})
  if text then return text end
  local role, long = word_of(value, columns)
  if role then return term.paint(role, term.cut(long, columns)) end
  local n, all = list_length(value), 0
  for _ in next, value do all = all + 1 end
  return term.paint("dim", ("{%s %d %s}"):format(term.dots(), all, all == n and "entries" or "fields"))
end

show.number_text = number_text

return show
