-- blocks.lua: the docstrings of a library file: its `---` comments, where they stand, and which names they are about.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local blocks = {}

local kept = {} -- module -> {lines = its text, list = its blocks}

local function split(text)
  local lines = {}
  for line in (text .. "\n"):gmatch("(.-)\n") do lines[#lines + 1] = line end
  return lines
end

local function add_words(names, text, pattern)
  for word in text:gmatch(pattern) do names[word] = true end
end

-- "for _, name in ipairs{"mse", "nll"} do" makes what it names, also over several lines.
local function add_loop(names, lines, at)
  for i = at, math.min(at + 4, #lines) do
    add_words(names, lines[i], '"([%w_]+)"')
    add_words(names, lines[i], "([%w_]+) = \"")
    if lines[i]:match("%f[%w]do%s*$") then return end
  end
end

-- Names that the code behind a comment defines.
local function names_of(lines, at)
  local line, names = lines[at] or "", {}
  local name = line:match("^%s*local function ([%w_]+)") or line:match("^%s*function ([%w_]+)%s*%(")
    or line:match("^%s*function [%w_.]+[.:]([%w_]+)%s*%(") or line:match('^[%w_]+%("([%w_]+)"')
    or line:match("^%s*([%w_]+)%s*=%s*[^=]")
  if name then names[name] = true end
  local left = line:match("^%s*([%w_., ]+)%s=%s") or line:match("^%s*local ([%w_, ]+)%s=%s")
  if left then add_words(names, left:gsub("^local ", ""), "%f[%w_]([%w_]+)%f[^%w_.]") end
  if line:match("^%s*for .* in ") then add_loop(names, lines, at) end
  local nextline = lines[at + 1] or "" -- a continued list
  left = left and nextline:match("^([%w_., ]+,[%w_., ]+)%s=%s")
  if left then add_words(names, left, "%f[%w_]([%w_]+)%f[^%w_.]") end
  return names
end

-- What the first words are about: "x:mm(y), x:bmm(y): matmul …" -> mm, bmm.
local function head_of(text)
  local line, names = text:match("[^\n]*"), {}
  local head = line:match("^(.-):%s") or line:match("^(.-)%s%->") or line
  add_words(names, head:gsub("%b()", ""):gsub("%b[]", ""):gsub("%b{}", ""), "[%a_][%w_]*")
  return names
end

-- The block whose last line is at, or nil.
local function read_block(module, lines, first)
  local last, out = first, {}
  while lines[last] and lines[last]:match("^%s*%-%-") do
    out[#out + 1] = (lines[last]:gsub("^%s*%-%-%-? ?", ""))
    last = last + 1
  end
  local text = table.concat(out, "\n")
  return {module = module, first = first, last = last - 1, text = text, head = head_of(text)}
end

--- The docstrings of a module: {lines, list of {module, first, last (lines), text, names, head}}; read once.
function blocks.of(module)
  if kept[module] then return kept[module] end
  local source = core.source(module)
  local lines, list = split(source or ""), {}
  local i = 1
  while i <= #lines do
    if lines[i]:match("^%s*%-%-%-%s") or lines[i]:match("^%s*%-%-%-$") then
      local block = read_block(module, lines, i)
      list[#list + 1] = block
      i = block.last
    end
    i = i + 1
  end
  for _, block in ipairs(list) do block.names = names_of(lines, block.last + 1) end
  kept[module] = {lines = lines, list = list}
  return kept[module]
end

--- The docstring of a name in a module: the one above its definition, else one whose first words name it.
-- in   only: "names" or "head": only the one or the other
function blocks.named(module, name, only)
  local list = blocks.of(module).list
  for _, kind in ipairs(only and {only} or {"names", "head"}) do
    for _, block in ipairs(list) do
      if block[kind][name] then return block end
    end
  end
end

-- A function may stand in a loop, or below others that share one docstring.
local function is_passed(line)
  return line:match("^%s*for ") or line:match("^%s*return function") or line:match("^%s*function [%w_.:]+%b() .* end$")
    or line:match("^%s*local function [%w_]+%b() .* end$")
end

--- The docstring right above a line.
function blocks.above(module, line, name)
  local file = blocks.of(module)
  local at = line - 1
  for _ = 1, 8 do
    for _, block in ipairs(file.list) do
      if block.last == at and (at == line - 1 or not name or block.head[name] or block.names[name]) then
        return block
      end
    end
    if not is_passed(file.lines[at] or "") then return nil end
    at = at - 1
  end
end

--- The docstring of a function of the library, by where it is defined.
function blocks.of_function(fn, name)
  local module, line = core.defined(fn)
  return module and blocks.above(module, line, name), module, line
end

return blocks
