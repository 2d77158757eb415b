-- index.lua: what is known of a public name: docs.of(name), docs.names(), docs.near(name).
--
-- Docstrings are the `---` comments above a definition in the library's own text; functions know where they are
-- defined, so only the file of the name that is asked for is read.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local blocks = require "docs.blocks"
local check = require "check"
local members = require "docs.members"
local options = require "docs.options"
local parts = require "docs.parts"
local places = require "docs.places"

local own = require("readonly").own

local docs = {}

-- ---- the docstring of a value ----

-- A docstring that only says which file says more: what that says of its new(), of the name, or of the function it
-- makes.
local function with_more(block, name)
  local file = block.text:match("See lua/capl/([%w_/]+)%.lua")
  if not file then return block end
  local module = file:gsub("/", ".")
  local more = blocks.named(module, name, "names") or blocks.named(module, "new", "names")
  for _, other in ipairs(not more and blocks.of(module).list or {}) do
    if blocks.of(module).lines[other.last + 1]:match("^%s*return function") then more = other end
  end
  return more or blocks.named(module, name, "head") or block
end

local function in_modules(modules, name)
  for _, module in ipairs(modules) do
    local block = blocks.named(module, name)
    if block then return block end
  end
end

local function of_class(value, name)
  if own(value, "runs") then return blocks.of_function(value.runs) end -- a loss as a module
  local module = members.home(value)
  if not module then return nil end
  local called = own(value, "__name") or name
  return blocks.named(module, called, "names") or blocks.named(module, name, "names")
    or blocks.named(module, "new", "names")
    or blocks.named(module, name), module
end

-- The docstring of a member of a library, the module it is defined in, and the line if it is known.
local of_value
function of_value(place, name, value)
  local block, module, line
  if type(value) == "function" then block, module, line = blocks.of_function(value, name) end
  if type(value) == "table" then block, module = of_class(value, name) end
  if block and block.text:match("See lua/capl/") then block, module, line = with_more(block, name), nil, nil end
  if not block and module and module ~= place.module then block = blocks.named(module, name) end
  block = block or in_modules({place.module, unpack(place.also or {})}, name)
  -- nn.init.zeros_
  if not block and place.field and name:match("_$") then return of_value(place, name:sub(1, -2), value) end
  block = block and with_more(block, name)
  return block, module or (block and block.module), line
end

local function of_method(place, name)
  for _, module in ipairs(place.modules) do
    local lines = blocks.of(module).lines
    for i, line in ipairs(lines) do
      local found = line:match("^%s*function [%w_]+[.:]" .. name .. "%s*%(")
      local block = found and blocks.above(module, i, name)
      if block then return block, module, i end
    end
  end
  local block = in_modules(place.modules, name)
  if not block and place.methods and type(place.methods[name]) == "function" then
    return blocks.of_function(place.methods[name], name)
  end
  return block, block and block.module
end

-- ---- records ----

local function see_of(text)
  local out = {}
  for page in text:gmatch("docs/[%w_-]+%.md") do out[#out + 1] = page end
  return out
end

local function file_of(module)
  return module and "lua/capl/" .. module:gsub("%.", "/") .. (core.source(module .. ".init") and "/init" or "")
    .. ".lua"
end

-- The list that a class reads its arguments by: optimizers keep it, constructors show it when they are called.
local function spec_of(record, value)
  if type(value) ~= "table" then return nil end
  return own(value, "spec") or record.kind == "class" and check.list_of(value) or nil
end

local function options_of(record, module, value)
  local read = record.parts
  local words = table.concat(parts.with(read, "opts"), " ")
  if words == "" then words = table.concat(parts.with(read, "in"), " ") end
  local spec = spec_of(record, value)
  if spec then return options.of_spec(spec, words) end
  return options.of(record.name, record.kind ~= "class" and module or nil, words)
end

-- The name of a loss function in nn, the shorter one of two.
local function name_of_loss(fn)
  local names = {}
  for name, value in next, members.contents(require "nn") do
    if value == fn then names[#names + 1] = name end
  end
  table.sort(names, function(a, b) return #a < #b end)
  return "nn." .. tostring(names[1])
end

local function read_record(record, place, block, module, line, value)
  local read = parts.read(block.text)
  local lines = blocks.of(block.module).lines
  local code = line and blocks.of(module).lines[line] or lines[block.last + 1]
  record.parts, record.block, record.line = read, block.module .. " " .. block.first, block.first
  local runs = type(value) == "table" and own(value, "runs")
  if runs then
    read.text = ("The loss %s as a module: %s{…}(…), with the same options.\n"):format(name_of_loss(runs), record.name)
      .. read.text
  end
  record.signature = runs and record.name .. "{…}" or place.name == "optim" and type(value) == "table"
    and record.name .. "(params, {…})"
    or parts.signature(record.name, read, code, record.kind == "method" and (place.says or place.name) or nil)
  record.text = parts.words(read, record.name)
  record.summary = parts.summary(record.text)
  record.options = options_of(record, module, value)
  if record.kind == "class" and record.signature == record.name then
    record.signature = record.name .. options.call(record.options)
  end
  record.examples = parts.with(read, "eg")
  record.example = record.examples[1]
  record.see = see_of(block.text)
  record.file = file_of(block.module)
  return record
end

local function member_record(place, name)
  local is_object = place.modules ~= nil
  local record = {name = members.written(place, name), place = place.name}
  if is_object then
    record.kind = record.name:find(":", 1, true) and "method" or "property"
    local block, module, line = of_method(place, name)
    return block and read_record(record, place, block, module, line) or record
  end
  local value = members.value(place, name)
  record.kind = members.kind(value)
  local block, module, line = of_value(place, name, value)
  return block and read_record(record, place, block, module, line, value) or record
end

-- What stands on top of a file, without its first word and the licence.
local function top_of(module)
  local out = {}
  for _, line in ipairs(blocks.of(module).lines) do
    if not line:match("^%-%-") or line:match("SPDX") then break end
    out[#out + 1] = (line:gsub("^%-%- ?", ""))
  end
  return (table.concat(out, "\n"):gsub("^[%w_.]+: ", ""))
end

local function place_record(place)
  local module = place.modules and place.modules[1] or place.module
  local text = place.field and place.about or top_of(module)
  if place.modules then text = place.about end
  return {name = place.name, kind = place.modules and "object" or "library", signature = place.name,
    about = place.about, text = text, summary = place.about, options = {}, examples = {}, see = {},
    file = file_of(module), members = members.of(place)}
end

-- The page of an op, from its descriptor.
local function op_record(name)
  return {name = "capl.op." .. name, kind = "op", signature = "capl.op." .. name, text = require("cli.ops").page(name),
    options = {}, examples = {}, see = {}, file = "engine/ops"}
end

-- ---- names ----

local all -- list of {name, place, key}, made once

local function list_all()
  if all then return all end
  all = {}
  for _, list in ipairs{places.libraries, places.objects} do
    for _, place in ipairs(list) do
      for _, key in ipairs(members.of(place)) do
        if not places.library(place.name == "capl" and key or place.name .. "." .. key)
          and not places.library("capl." .. key) then
          all[#all + 1] = {name = members.written(place, key), place = place, key = key}
        end
      end
    end
  end
  return all
end

--- Sorted list of every public name: "nn.Conv2d", "capl.zeros", "tensor:sum", "capl.op.conv2d".
function docs.names()
  local out = {}
  for i, entry in ipairs(list_all()) do out[i] = entry.name end
  for _, op in ipairs(core.ops()) do out[#out + 1] = "capl.op." .. op.name end
  table.sort(out)
  return out
end

--- List of {name, about} of the libraries and of the objects whose methods have pages.
function docs.topics()
  local out = {}
  for _, list in ipairs{places.libraries, places.objects} do
    for _, place in ipairs(list) do out[#out + 1] = {name = place.name, about = place.about} end
  end
  return out
end

local function has_member(place, key)
  if place.modules == nil then return members.value(place, key) ~= nil end
  for _, name in ipairs(members.of(place)) do
    if name == key then return true end
  end
  return false
end

-- The place of "nn" in "nn.Conv2d"; the object that a method is called on, where a colon says so.
local function place_of(owner, is_method)
  if is_method then return places.find(places.aliases[owner] or owner) end
  return places.find(owner) or places.find("capl." .. owner) or places.find(places.aliases[owner] or "")
end

local function by_path(name)
  local owner, sign, key = name:match("^([%w_.]+)([.:])([%w_]+)$")
  if not owner then return nil end
  if owner == "capl.op" or owner == "op" then return rawget(core.op, key) and op_record(key) end
  local place = place_of(owner, sign == ":")
  if place and has_member(place, key) then return member_record(place, key) end
end

-- A name without its library.
local function by_last(name)
  if name:find("[.:]") then return nil end
  for _, place in ipairs(places.libraries) do
    if not place.field and place.name ~= "capl.io" and has_member(place, name) then
      return member_record(place, name)
    end
  end
  if rawget(core.op, name) then return op_record(name) end
  for _, entry in ipairs(list_all()) do
    if entry.key == name then return member_record(entry.place, entry.key) end
  end
end

-- A library, or an object by its name or that of a variable: ?nn, ?loader, ?opt.
local function by_place(name)
  local place = places.find(name) or places.find("capl." .. name) or places.find(places.aliases[name] or "")
  return place and place_record(place)
end

local kept = {}

--- What is known of a name: {name, kind, signature, text, summary, options = {{name, types, default, required, text},
-- …}, example, examples, see, file, parts, members}; nil when there is none of that name.
function docs.of(name)
  if kept[name] then return kept[name] end
  local plain = name:gsub("^%s+", ""):gsub("%s+$", ""):gsub("%(%)$", ""):gsub("^capl%.(%l+%f[.%z])", function(first)
    return places.library(first) and first or nil
  end)
  local record = by_place(plain) or by_path(plain) or by_last(plain)
  if record and record.text then kept[name] = record end
  return record
end

--- Names that are written like one that does not exist: the nearest, or nil.
function docs.near(name)
  local names, by_key = {}, {}
  local last = name:match("([%w_]+)$") or name
  for _, entry in ipairs(list_all()) do
    names[#names + 1] = entry.key
    by_key[entry.key] = by_key[entry.key] or entry.name
  end
  for _, op in ipairs(core.ops()) do
    names[#names + 1] = op.name
    by_key[op.name] = by_key[op.name] or "capl.op." .. op.name
  end
  local nearest = core.nearest(last, names)
  return nearest and by_key[nearest]
end

--- Names that contain a word, for help("conv").
function docs.search(word)
  local out = {}
  word = word:lower()
  for _, name in ipairs(docs.names()) do
    if name:lower():find(word, 1, true) then out[#out + 1] = name end
  end
  return out
end

--- Name of a value: of a function or class of the libraries, "tensor", "module" …; nil for others.
function docs.name_of(value)
  if core.is_tensor(value) then return "tensor" end
  for _, entry in ipairs(list_all()) do
    local place = entry.place
    local held = place.methods and place.methods[entry.key] or (not place.modules and members.value(place, entry.key))
      or nil
    if held ~= nil and held == value and type(value) ~= "string" and type(value) ~= "boolean" then return entry.name end
  end
  for name, op in next, members.contents(core.op) do
    if op == value then return "capl.op." .. name end
  end
  local seen = core.sys.environment() -- libraries as recipes see them
  for _, place in ipairs(places.libraries) do
    if members.table_of(place) == value or (value ~= nil and own(seen, place.name) == value) then return place.name end
  end
  if type(value) == "table" and value.__module then
    return docs.of("nn." .. value.__name) and "nn." .. value.__name or "module"
  end
end

return docs
