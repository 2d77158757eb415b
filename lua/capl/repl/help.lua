-- help.lua: `?name` at the prompt: the docstring of a library function, or the page of an op.
--
-- Docstrings are the `---` comments above a definition in the library's own text.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local help = {}

local usage = [[
?name     explains a function, a layer or an op: ?nn.Conv2d, ?conv2d
TAB       completes names
_         the last value; a final ; keeps a line from printing
Ctrl-C    stops what runs; Ctrl-D leaves]]

--- The comment block that ends right above line `at` of lines.
local function block_above(lines, at)
  local first = at
  while first > 1 and lines[first - 1]:match("^%s*%-%-") do first = first - 1 end
  if first == at or not lines[first]:match("^%s*%-%-%-") then return nil end
  local out = {}
  for i = first, at - 1 do out[#out + 1] = (lines[i]:gsub("^%s*%-%-%-? ?", "")) end
  return table.concat(out, "\n")
end

local function split(text)
  local lines = {}
  for line in (text .. "\n"):gmatch("(.-)\n") do lines[#lines + 1] = line end
  return lines
end

--- Docstring of name, whose last part is last, in one library file.
local function in_text(text, name, last)
  local lines = split(text)
  for i, line in ipairs(lines) do
    local defined = line:match("^%s*local function ([%w_]+)") or line:match("^%s*function [%w_]*[.:]?([%w_]+)%s*%(")
      or line:match("^%s*[%w_]+%.([%w_]+)%s*=") or line:match("^%s*local ([%w_]+)%s*=")
    if defined == last then
      local doc = block_above(lines, i)
      local is_class = line:match("^%s*local [%w_]+%s*=") -- its definition tells nothing, the name does
      if doc then return (is_class and name or line:match("^%s*(.-)%s*$")) .. "\n" .. doc end
    end
  end
end

--- Docstring of the function without a name that a module returns: what it is for.
local function of_maker(text)
  local lines = split(text)
  for i, line in ipairs(lines) do
    local doc = line:match("^%s*return function%s*%(") and block_above(lines, i)
    if doc then return doc end
  end
end

--- A docstring that only says which file says more: what that says of its new(), or of the function that it makes.
local function with_more(doc, name)
  local file = doc:match("See lua/capl/([%w_/]+)%.lua%.?$")
  if not file then return doc end
  local text = core.source((file:gsub("/", ".")))
  local made = of_maker(text)
  return made and name .. "\n" .. made or in_text(text, name, "new") or doc
end

local function in_library(name)
  local last = name:match("([%w_]+)$")
  local folder = name:match("^([%w_]+)[.:]")
  local best
  for _, module in ipairs(core.modules()) do
    local doc = in_text(core.source(module), name, last)
    if doc and (not best or (folder and module:find(folder, 1, true))) then best = doc end
  end
  return best
end

--- What a line that gives several names at once gives to one of them: "data.a, data.b = x.c, y.d", "data.b" -> "d"
local function given(line, name)
  local left, right = line:match("^([%w_.]+,[%w_., ]+)%s=%s(.+)$")
  if not left then return nil end
  local values = {}
  for value in right:gmatch("[%w_.]+") do values[#values + 1] = value end
  local k = 0
  for part in left:gmatch("[%w_.]+") do
    k = k + 1
    if part == name then return values[k] and values[k]:match("([%w_]+)$") end
  end
end

--- Docstring of a function that is called otherwise in the file that such a line names.
local function renamed(name)
  for _, module in ipairs(core.modules()) do
    local lines = split(core.source(module))
    for i, line in ipairs(lines) do
      local last = given(line, name)
      local file = last and (block_above(lines, i) or ""):match("See lua/capl/([%w_/]+)%.lua")
      local doc = file and in_text(core.source((file:gsub("/", "."))), name, last)
      if doc then return (doc:gsub("^function [%w_.:]+", name)) end
    end
  end
end

-- Docstring that begins with the name itself: "--- train.Log{…}: writes figures …".
local function by_its_name(name)
  local start = "^%s*%-%-%- " .. name:gsub("%p", "%%%0") .. "[^%w_.]"
  for _, module in ipairs(core.modules()) do
    local lines = split(core.source(module))
    for i, line in ipairs(lines) do
      if line:match(start) then
        local after = i
        while lines[after] and lines[after]:match("^%s*%-%-") do after = after + 1 end
        return block_above(lines, after)
      end
    end
  end
end

local lists = {train = "train", capl = "init"} -- modules that are little more than such a list

-- Docstring of what a module's list of names takes from another file: "EMA = require "train.ema"", "f = {"run.progress", "new"}".
local function taken_from(name)
  local folder, last = name:match("^([%w_]+)%.([%w_]+)$")
  for _, module in ipairs(core.modules()) do
    if lists[folder] == module then
      local entry = "%f[%w_]" .. last .. "%s*=%s*"
      local text = core.source(module)
      local file, rest = text:match(entry .. 'require[%s(]+"([%w_.]+)"([^\n]*)')
      local field = rest and rest:match("%.([%w_]+)") or "new"
      if not file then file, field = text:match(entry .. '{"([%w_.]+)", "([%w_]+)"}') end
      if file then return in_text(core.source(file), name, field) or in_text(core.source(file), name, last) end
    end
  end
end

-- "local function new(opts)" is no line to type.
local function as_called(doc, name)
  local last = name:match("([%w_]+)$")
  return doc and (doc:gsub("^local function new", name):gsub("^local function " .. last, name):gsub("^function [%w_]+%." .. last, name))
end

--- Page of a name; how the prompt works for none.
function help.page(name)
  if name == "" then return usage end
  local doc = renamed(name) or by_its_name(name) or as_called(taken_from(name) or in_library(name), name)
  if doc then return with_more(doc, name) end
  local last = name:match("([%w_]+)$")
  if core.op[last] then return require("cli.ops").page(last) end
  return "nothing is known about '" .. name .. "'"
end

return help
