-- tokens.lua: a recipe's text as words of Lua, without running it: what `capl recipe info` reads of a recipe.
--
-- Comments are skipped, so that a claim in a comment is none. Text that is no Lua gives what can be made of it.
-- SPDX-License-Identifier: Apache-2.0
local tokens = {}

local escapes = {n = "\n", t = "\t", r = "\r", a = "\a", b = "\b", f = "\f", v = "\v"}

local function unescaped(text)
  return (text:gsub("\\(%d%d?%d?)", function(digits)
    return string.char(tonumber(digits) % 256) end):gsub("\\(.)", function(c)
    return escapes[c] or c
  end))
end

-- The end of a string that begins at `at` with a quote, and its value; nil when its line ends before.
local function quoted(text, at)
  local mark, from = text:sub(at, at), at + 1
  while true do
    local stop = text:find('[\\\n' .. mark .. ']', from)
    local c = stop and text:sub(stop, stop)
    if not stop or c == "\n" then return nil end
    if c == mark then return stop, unescaped(text:sub(at + 1, stop - 1)) end
    from = stop + 2
  end
end

-- The end of [[…]] or [==[…]==] at `at`, and its text; nil when there is none.
local function long(text, at)
  local level = text:match("^%[(=*)%[", at)
  if not level then return nil end
  local from = at + #level + 2
  local first, last = text:find("]" .. level .. "]", from, true)
  if not first then return #text, text:sub(from) end
  return last, text:sub(from, first - 1):gsub("^\r?\n", "")
end

local function after_comment(text, at)
  local last = long(text, at + 2)
  return (last or (text:find("\n", at, true) or #text + 1) - 1) + 1
end

-- The token at `at` -> kind, value, the place behind it.
local function token_at(text, at)
  local name = text:match("^[%a_][%w_]*", at)
  if name then return "name", name, at + #name end
  local number = text:match("^0[xX]%x+", at) or text:match("^%d+%.?%d*[eE][+-]?%d+", at) or text:match("^%d+%.?%d*", at)
    or text:match("^%.%d+", at)
  if number then return "number", tonumber(number), at + #number end
  local c = text:sub(at, at)
  local stop, value
  if c == '"' or c == "'" then stop, value = quoted(text, at) elseif c == "[" then stop, value = long(text, at) end
  if stop then return "string", value, stop + 1 end
  return "sign", c, at + 1
end

--- All words of a text.
-- out  list of {kind = "name", "number", "string" or "sign", value}
function tokens.read(text)
  local list, at = {}, text:match("^#[^\n]*()") or 1
  while true do
    at = text:find("%S", at)
    if not at then return list end
    if text:sub(at, at + 1) == "--" then
      at = after_comment(text, at)
    else
      local kind, value
      kind, value, at = token_at(text, at)
      list[#list + 1] = {kind = kind, value = value}
    end
  end
end

-- ---- values ----

local constants = {["true"] = true, ["false"] = false}

local literal

-- The key of a field, if it has one -> key, place of its value
local function key_at(list, i)
  local t, after = list[i], list[i + 1]
  if t and t.kind == "name" and after and after.value == "=" and after.kind == "sign" then return t.value, i + 2 end
  local close, equals = list[i + 2], list[i + 3]
  if t and t.kind == "sign" and t.value == "[" and close and close.value == "]" and equals and equals.value == "=" then
    return after.value, i + 4
  end
  return nil, i
end

local function table_at(list, i, depth)
  local out, n = {}, 0
  i = i + 1
  while list[i] and not (list[i].kind == "sign" and list[i].value == "}") do
    local key, at = key_at(list, i)
    local fine, value, behind = literal(list, at, depth + 1)
    if not fine then return false end
    if key == nil then n, key = n + 1, n + 1 end
    out[key] = value
    local sign = list[behind]
    if not sign or sign.kind ~= "sign" or not sign.value:find("[,;}]") then return false end
    i = sign.value == "}" and behind or behind + 1
  end
  return list[i] ~= nil, out, i + 1
end

-- Whether a value that needs no computing stands at i, the value, and the place behind it.
function literal(list, i, depth)
  local t = list[i]
  if not t or depth > 8 then return false end
  if t.kind == "string" or t.kind == "number" then return true, t.value, i + 1 end
  if t.kind == "name" and constants[t.value] ~= nil then return true, constants[t.value], i + 1 end
  if t.kind == "sign" and t.value == "-" and list[i + 1] and list[i + 1].kind == "number" then
    return true, -list[i + 1].value, i + 2
  end
  if t.kind == "sign" and t.value == "{" then return table_at(list, i, depth) end
  return false
end

local function is_sign(t, value) return t and t.kind == "sign" and t.value == value end

-- Places of `capl.NAME`
local function calls(list, name)
  local out = {}
  for i = 1, #list - 2 do
    local own = list[i].kind == "name" and list[i].value == "capl" and not is_sign(list[i - 1], ".")
    if own and is_sign(list[i + 1], ".") and list[i + 2].kind == "name" and list[i + 2].value == name then
      out[#out + 1] = i + 3
    end
  end
  return out
end

--- Tables of all calls capl.NAME{…} or capl.NAME({…}); false for one whose values are computed.
function tokens.tables(list, name)
  local out = {}
  for k, i in ipairs(calls(list, name)) do
    if is_sign(list[i], "(") then i = i + 1 end
    local fine, value = literal(list, i, 0)
    out[k] = fine and type(value) == "table" and value or false
  end
  return out
end

--- Names that are required as plain texts: require "net", require("parts.head"); whether any is computed.
function tokens.required(list)
  local out, computed, seen = {}, false, {}
  for i, t in ipairs(list) do
    if t.kind == "name" and t.value == "require" and not is_sign(list[i - 1], ".")
      and not is_sign(list[i - 1], ":") then
      local at = is_sign(list[i + 1], "(") and i + 2 or i + 1
      local word = list[at]
      if word and word.kind == "string" then
        if not seen[word.value] then out[#out + 1] = word.value end
        seen[word.value] = true
      else
        computed = true
      end
    end
  end
  return out, computed
end

--- The default of a setting in the first capl.params{…} when it is a plain value; whether there is such a setting.
function tokens.setting(list, name)
  local i = calls(list, "params")[1]
  if not i then return nil, false end
  if is_sign(list[i], "(") then i = i + 1 end
  local depth = 0
  for k = i, #list do
    local t = list[k]
    if is_sign(t, "{") or is_sign(t, "(") then depth = depth + 1 end
    if is_sign(t, "}") or is_sign(t, ")") then depth = depth - 1 end
    if depth == 0 then return nil, false end
    if depth == 1 and t.kind == "name" and t.value == name and is_sign(list[k + 1], "=") then
      local fine, value = literal(list, k + 2, 0)
      return fine and value or nil, true
    end
  end
  return nil, false
end

return tokens
