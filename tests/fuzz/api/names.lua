-- names.lua: what can be called: functions by their path, members of values, examples and option names of the docstrings.
-- SPDX-License-Identifier: Apache-2.0
local fuzz = ...

local core = fuzz.core
local names = {}

local roots = {"capl", "nn", "optim", "data", "augment", "plot", "train"}
local plain = {"load", "loadstring", "xpcall", "pcall", "getmetatable", "setmetatable", "rawset", "rawget", "rawequal", "next", "pairs",
  "ipairs", "select", "tonumber", "tostring", "type", "unpack", "error", "print", "collectgarbage", "table.foreach", "table.sort",
  "table.concat", "table.insert", "table.remove", "coroutine.create", "coroutine.resume", "coroutine.wrap", "coroutine.yield",
  "string.byte", "string.gmatch", "string.char", "string.sub"}
local METHODS = 10 -- metatables in a row

-- ---- members --------------------------------------------------------------------------------------

-- The sorted names of a value's fields, those of its class and of the classes above included.
local function add_keys(value, out, seen, depth)
  if depth > METHODS or type(value) ~= "table" or seen[value] then return end
  seen[value] = true
  for key in next, value do
    if type(key) == "string" and key:match("^[%a_][%w_]*$") then out[key] = true end
  end
  local meta = fuzz.meta(value)
  if meta then add_keys(rawget(meta, "__index"), out, seen, depth + 1) end
end

local function sorted(set)
  local list = {}
  for key in next, set do list[#list + 1] = key end
  table.sort(list)
  return list
end

--- Names of the members of a value: a tensor's methods and properties, a table's fields, an object's methods.
function names.members(value)
  local out, seen = {}, {}
  if core.is_tensor(value) then
    add_keys(core.tensor_methods, out, seen, 0)
    for _, key in ipairs{"shape", "dtype", "device", "ndim", "grad", "requires_grad", "is_leaf"} do out[key] = true end
  elseif type(value) == "userdata" then
    local meta = fuzz.meta(value)
    add_keys(meta and rawget(meta, "__index"), out, seen, 0)
  else
    add_keys(value, out, seen, 0)
  end
  return sorted(out)
end

-- ---- paths ----------------------------------------------------------------------------------------

local function is_class(value)
  local meta = type(value) == "table" and fuzz.meta(value)
  return meta and rawget(meta, "__call") ~= nil
end

local function lazy_names()
  local text = core.source("init"):match("local later = (%b{})") or ""
  local out = {}
  for name in text:gmatch("([%w_]+) = {") do out[#out + 1] = name end
  return out
end

local function walk(path, value, out, seen, depth)
  if (type(value) ~= "function" and type(value) ~= "table") or seen[value] or depth > 3 then return end
  if type(value) == "function" or is_class(value) then out[#out + 1] = path end
  seen[value] = true
  if type(value) ~= "table" then return end
  for _, key in ipairs(names.members(value)) do
    local ok, member = pcall(function() return value[key] end)
    if ok and member ~= nil and not key:match("^__") then walk(path .. "." .. key, member, out, seen, depth + 1) end
  end
end

--- Paths of all functions and classes of the recipe environment.
function names.paths(env)
  local out, seen = {}, {}
  for _, name in ipairs(lazy_names()) do pcall(function() return env.capl[name] end) end
  for _, root in ipairs(roots) do walk(root, env[root], out, seen, 0) end
  for _, name in ipairs(plain) do out[#out + 1] = name end
  return out
end

-- ---- docstrings -----------------------------------------------------------------------------------

local function add_unique(list, seen, entry)
  if seen[entry] then return end
  seen[entry] = true
  list[#list + 1] = entry
end

-- Words that look like the name of an option: "stride = 2", {"stride", "whole"}, [, {dtype, device}].
local function options_of(block, list, seen)
  for word in block:gmatch("([%a_][%w_]*) = ") do add_unique(list, seen, word) end
  for inside in block:gmatch("%b{}") do
    for word in inside:gmatch("%f[%w_]([%a_][%w_]*)%f[^%w_]") do add_unique(list, seen, word) end
  end
end

-- Docstrings and option lists of a file, with the names that they are about.
local function read_file(text, docs)
  for word in text:gmatch('{"([%a_][%w_]*)", "[%a]+"') do add_unique(docs.options, docs.seen, word) end
  for word in text:gmatch('"([%w_%-:.]+)"') do add_unique(docs.texts, docs.seen_texts, word) end
  local block = {}
  for line in (text .. "\n"):gmatch("(.-)\n") do
    if line:match("^%s*%-%-%-") or (#block > 0 and line:match("^%s*%-%-")) then
      block[#block + 1] = line
      local code = line:match("%-%- eg%s+(.-)%s+%-%->")
      if code and not code:match("^local ") then docs.examples[#docs.examples + 1] = code end
    elseif #block > 0 then
      local all = table.concat(block, "\n")
      options_of(all, docs.options, docs.seen)
      for name in (line .. all:match("[^\n]*")):gmatch("[%a_][%w_]*") do docs.of[name] = (docs.of[name] or "") .. all end
      block = {}
    end
  end
end

--- {examples, options (names), texts (words in quotes), of = {name = docstring}} of the whole library.
function names.docs()
  local docs = {examples = {}, options = {}, texts = {}, of = {}, seen = {}, seen_texts = {}}
  for _, module in ipairs(core.modules()) do
    if not module:match("^cli") then read_file(core.source(module), docs) end
  end
  return docs
end

--- Names of options that may belong to the function or method of this name.
function names.options_of(docs, name)
  local list = {}
  options_of(docs.of[name] or "", list, {})
  return list
end

return names
