-- statements.lua: one call as a line of Lua: at random, as a method of what is there, or an example with a part changed.
-- SPDX-License-Identifier: Apache-2.0
local fuzz = ...

local random, names, values = fuzz.random, fuzz.names, fuzz.values
local pick, chance, upto, weighted = random.pick, random.chance, random.upto, random.weighted

local statements = {}

-- ---- examples with a part changed -----------------------------------------------------------------

local function split(code)
  local parts, at = {}, 1
  while at <= #code do
    local token = code:match('^"[^"]*"', at) or code:match("^%d[%w.]*", at) or code:match("^[%a_][%w_]*", at) or code:match("^%s+", at)
      or code:sub(at, at)
    parts[#parts + 1] = token
    at = at + #token
  end
  return parts
end

-- Places of parts that may be exchanged: numbers, texts, and what opens a list of arguments.
local function places(parts)
  local out = {}
  for i, part in ipairs(parts) do
    if part:match('^[%d"]') then out[#out + 1] = i end
    if part == "(" or part == "{" then out[#out + 1] = i end
  end
  return out
end

local function change_one(parts)
  local at = places(parts)
  if #at == 0 then return end
  local i = pick(at)
  local part = parts[i]
  if part == "(" or part == "{" then
    local closes = parts[i + 1] == ")" or parts[i + 1] == "}"
    parts[i] = part .. values.any(1) .. (closes and "" or ", ")
  elseif part:match("^%d") then
    parts[i] = chance(0.8) and values.number() or values.any(1)
  else
    parts[i] = chance(0.8) and values.text() or values.any(1)
  end
end

--- An example of a docstring with up to three parts changed; now and then none.
function statements.changed(code)
  local parts = split(code)
  for _ = 1, upto(4) - 1 do change_one(parts) end
  return table.concat(parts)
end

-- ---- calls ----------------------------------------------------------------------------------------

local function target() return values.slot() .. " = " end

local function direct()
  local path = pick(fuzz.paths)
  return target() .. path .. values.arguments(names.options_of(fuzz.docs, path:match("[%w_]+$")))
end

-- A slot that holds something with members, if there is one.
local function object_slot()
  for _ = 1, 12 do
    local slot = values.slot()
    local value = rawget(fuzz.env, slot)
    local kind = type(value)
    if kind == "userdata" or (kind == "table" and fuzz.meta(value)) then return slot, value end
  end
end

local function method()
  local slot, value = object_slot()
  if not slot then return direct() end
  local members = names.members(value)
  if #members == 0 then return target() .. slot .. values.arguments({}) end
  local name = pick(members)
  local arguments = values.arguments(names.options_of(fuzz.docs, name))
  if chance(0.06) then return ("%s%s.%s%s"):format(target(), slot, name, arguments) end
  if chance(0.05) then return target() .. slot .. arguments end
  return ("%s%s:%s%s"):format(target(), slot, name, arguments)
end

local binary = {"+", "-", "*", "/", "%", "^", "..", "==", "<", "<="}
local function operator()
  local a = object_slot() or values.slot()
  return weighted{
    8, ("%s%s %s %s"):format(target(), a, pick(binary), values.any(0)),
    4, ("%s%s %s %s"):format(target(), values.any(0), pick(binary), a),
    2, target() .. "#" .. a, 2, target() .. "-" .. a, 3, ("%s%s[%s]"):format(target(), a, values.any(1)),
    2, ("%s[%s] = %s"):format(a, values.any(1), values.any(1)), 3, ("%stostring(%s)"):format(target(), a),
    2, ("for k, w in pairs(%s) do %s k, w end"):format(a, "local _, _ ="),
    2, ("for k in %s:epoch(1) do local _ = k break end"):format(a),
  }
end

local function example() return target() .. statements.changed(pick(fuzz.docs.examples)) end

--- The text of one statement.
function statements.one()
  local kind = weighted{24, "example", 20, "direct", 26, "method", 7, "operator", 10, "scene", 20, "op"}
  if kind == "example" then return example() end
  if kind == "direct" then return direct() end
  if kind == "method" then return method() end
  if kind == "operator" then return operator() end
  if kind == "op" then return fuzz.op_calls.one() end
  return fuzz.scenes.one()
end

return statements
