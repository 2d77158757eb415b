-- who.lua: who(): the variables that somebody has set, with their kinds, shapes and bytes.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local classes = require "module_class"
local scope = require "repl.scope"
local session = require "repl.session"
local show = require "repl.show"
local term = require "repl.term"

local who = {}

local bytes_of = {f64 = 8, i64 = 8, f32 = 4, i32 = 4, bf16 = 2, f16 = 2, u8 = 1, bool = 1}

local function add_tensor(x, seen)
  if seen[x] or x:is_released() then return 0 end
  seen[x] = true
  return x:numel() * bytes_of[x.dtype]
end

-- Bytes of the tensors in a value, each once.
local function weight(value, seen, depth)
  if core.is_tensor(value) then return add_tensor(value, seen) end
  if type(value) ~= "table" or seen[value] or depth > 8 then return 0 end
  seen[value] = true
  local sum = 0
  for _, member in next, value do sum = sum + weight(member, seen, depth + 1) end
  return sum
end

local function kind_of(value)
  if core.is_tensor(value) then return "tensor" end
  if type(value) == "table" and classes.is_module(value) then return value.__name or "module" end
  return type(value)
end

local function bytes_text(n)
  if n == 0 then return "" end
  for _, unit in ipairs{"B", "kB", "MB", "GB"} do
    if n < 1000 or unit == "GB" then return (n < 10 and unit ~= "B" and "%.1f %s" or "%.0f %s"):format(n, unit) end
    n = n / 1000
  end
end

local function collect()
  local list = {}
  local seen = {}
  local function add(name, value)
    if seen[name] or value == nil or rawequal(scope.own[name], value) then return end
    seen[name] = true
    list[#list + 1] = {name = term.plain(name), value = value, kind = kind_of(value), bytes = weight(value, {}, 0)}
  end
  scope.each(add)
  for _, name in ipairs(session.own_names()) do add(name, rawget(core.sys.environment(), name)) end
  table.sort(list, function(a, b)
    if a.bytes ~= b.bytes then return a.bytes > b.bytes end
    return a.name < b.name
  end)
  return list
end

local function brief(value, room)
  if type(value) ~= "function" then return show.brief(value, room) end
  return term.cut(require("repl.names").function_text(value), room)
end

--- Prints the variables.
function who.print()
  local list = collect()
  if #list == 0 then return core.sys.out("nothing is set yet; x = 1 makes a variable\n") end
  local _, columns = term.size()
  local name_width, kind_width = 4, 4
  for _, v in ipairs(list) do
    name_width, kind_width = math.max(name_width, term.width(v.name)), math.max(kind_width, term.width(v.kind))
  end
  name_width, kind_width = math.min(name_width, 30), math.min(kind_width, 20)
  local lines = {}
  local function cell(text, width)
    text = term.cut(text, width)
    return text .. (" "):rep(width - term.width(text))
  end
  for i, v in ipairs(list) do
    local room = math.max(columns - name_width - kind_width - 13, 10)
    local size = bytes_text(v.bytes)
    lines[i] = term.paint("name", cell(v.name, name_width)) .. "  " .. term.paint("kind", cell(v.kind, kind_width)) ..
      (" "):rep(9 - #size) .. size .. "  " .. brief(v.value, room)
  end
  if list[1].bytes > 0 then
    local memory = core.memory()
    lines[#lines + 1] = term.paint("dim",
      ("tensors take %s on %s, at most %s so far"):format(bytes_text(memory.live), core.device(),
      bytes_text(memory.peak)))
  end
  core.sys.draw(table.concat(lines, "\n") .. "\n")
end

return who
