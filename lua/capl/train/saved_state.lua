-- saved_state.lua: what the values of a saved state have to be. The hash of a checkpoint says that it is whole, not who
-- has written it.
--
-- An object with state() and set_state(tree) says by state_shape() what it takes. A shape is
--   a word of the table below, with "?" behind it where there may be nothing
--   a tensor: a tensor of the same sizes
--   {name = shape, …}, with ["*"] = shape of all other entries and ["?"] = true where there may be nothing
--   function(value) -> why it cannot be that, nil when it can
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local saved_state = {}

local MOST = 2 ^ 53 -- from there on whole numbers are not exact

local function is_number(x) return type(x) == "number" end
local function is_amount(x) return is_number(x) and x >= 0 and x < math.huge end
local function is_text(x) return type(x) == "string" end

local function is_plain(x)
  if type(x) ~= "table" then return is_number(x) or is_text(x) or type(x) == "boolean" end
  for _, entry in pairs(x) do
    if not is_plain(entry) then return false end
  end
  return true
end

local words = {
  number = {"a number", is_number},
  amount = {"a number from 0 on", is_amount},
  count = {"a whole number from 0 on", function(x) return is_amount(x) and x % 1 == 0 and x <= MOST end},
  share = {"a number from 0 to 1", function(x) return is_amount(x) and x <= 1 end},
  text = {"a text", is_text},
  name = {"a file's name", function(x) return is_text(x) and x:find("^[^/%z]+$") and not x:find("^%.%.?$") end},
  boolean = {"true or false", function(x) return type(x) == "boolean" end},
  plain = {"made of numbers, texts and booleans", is_plain},
  metrics = {"a table of metrics", function(x) return type(x) == "table" and is_plain(x) end},
  none = {"left out", function(x) return x == nil end},
}

local function shown(value)
  if is_number(value) then return ("%.17g"):format(value) end
  if type(value) == "boolean" then return tostring(value) end
  return is_text(value) and ("'%s'"):format(value:sub(1, 40)) or core.typename(value)
end

local function wrong(where, wanted, value) return ("%s must be %s, got %s"):format(where, wanted, shown(value)) end

local function by_word(value, shape, where)
  local name, may_lack = shape:match("^(%a+)(%??)$")
  if value == nil and may_lack == "?" then return nil end
  local wanted, fits = unpack(words[name])
  if not fits(value) then return wrong(where, wanted, value) end
end

local function sizes(tensor) return "(" .. table.concat(tensor.shape, ",") .. ")" end

local function by_tensor(value, like, where)
  if not core.is_tensor(value) then return wrong(where, "a tensor", value) end
  if sizes(value) ~= sizes(like) then return ("%s must be %s, got %s"):format(where, sizes(like), sizes(value)) end
end

local function join(where, name) return where == "" and tostring(name) or where .. "." .. tostring(name) end

local find

local function by_table(value, shape, where)
  if value == nil and shape["?"] then return nil end
  if type(value) ~= "table" then return wrong(where, "a table", value) end
  for name, inner in pairs(shape) do
    local why = name ~= "*" and name ~= "?" and find(value[name], inner, join(where, name))
    if why then return why end
  end
  for name, entry in pairs(shape["*"] and value or {}) do
    local why = shape[name] == nil and find(entry, shape["*"], join(where, name))
    if why then return why end
  end
end

function find(value, shape, where)
  if is_text(shape) then return by_word(value, shape, where) end
  if core.is_tensor(shape) then return by_tensor(value, shape, where) end
  if type(shape) == "table" then return by_table(value, shape, where) end
  local why = shape(value)
  return why and ("%s: %s"):format(where, why)
end

--- Raises unless a value of a tree has its shape. file: where it comes from; where: its place in there
-- errs format: with the file, the place, what was wanted and what is there
function saved_state.check(file, value, shape, where)
  local why = find(value, shape, where)
  if not why then return end
  core.error{code = "format", path = false,
    message = ("%s holds other state than that of this run: %s"):format(file, why),
    hint = "the file was changed, or another program has written it; --resume=FILE takes an earlier checkpoint"}
end

return saved_state
