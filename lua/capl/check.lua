-- check.lua: argument checks of the Lua library; every message names the function, the argument and what was given.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local option_hints = require "option_hints"

local check = {}

-- Switches of other engines that capl has no off for.
local always_on = {
  channels_last = "images are N,H,W,C in memory", memory_format = "images are N,H,W,C in memory",
  persistent_workers = "loader threads live as long as their loader",
  pin_memory = "batches are copied from fixed memory", set_to_none = "zero_grad releases the gradients",
  non_blocking = "copies never wait",
}

local function names_of(spec)
  local names = {}
  for i, entry in ipairs(spec) do names[i] = entry[1] end
  return names
end

--- Raises a value error of function op.
function check.fail(op, message, hint)
  core.error{code = "value", op = op, message = message, hint = hint, path = false}
end

--- Raises for a name that is none of names (a list), with the nearest one.
function check.unknown(op, what, name, names)
  if always_on[name] then
    check.fail(op, ("%s '%s' is always on"):format(what, name), always_on[name] .. ": leave the key out")
  end
  local home = what == "option" and option_hints.of(op, name)
  if home then check.fail(op, ("unknown option '%s'; %s"):format(name, home)) end
  local nearest = type(name) == "string" and core.nearest(name, names)
  if nearest then check.fail(op, ("unknown %s '%s'; did you mean '%s'?"):format(what, name, nearest)) end
  check.fail(op, ("unknown %s '%s'; known: %s"):format(what, tostring(name), table.concat(names, ", ")))
end

--- value, which has to be one of names (a list).
-- errs value: it is none of them, with the nearest one
function check.one_of(op, what, value, names)
  for _, name in ipairs(names) do
    if name == value then return value end
  end
  check.unknown(op, what, value, names)
end

local function accepts(entry, value)
  local kind = core.typename(value)
  for i = 2, #entry do
    local wanted = entry[i]
    if wanted == kind or (wanted == "function" and core.is_callable(value)) then return true end
    if wanted == "whole" and kind == "number" and value % 1 == 0 then return true end
  end
  return false
end

-- 4294967295, not 4.29497e+09
local function shown(x) return (x % 1 == 0 and math.abs(x) <= 2 ^ 53 and "%.0f" or "%g"):format(x) end

-- What a number may be, in words; infinite and NaN it never is where there is a range.
local function range_text(entry)
  local low = entry.from and "from " .. shown(entry.from) or "above " .. shown(entry.above)
  if entry.to then return ("%s %s %s"):format(low, entry.from and "to" or "and at most", shown(entry.to)) end
  if entry.below then return ("%s and below %s"):format(low, shown(entry.below)) end
  return entry.from and low .. " on" or low
end

-- "whole number from 1 on or string"
local function expected(entry)
  local kinds = {}
  for i = 2, #entry do
    local kind = entry[i] == "whole" and "whole number" or entry[i]
    local ranged = (entry.from or entry.above) and kind:find("number$")
    kinds[i - 1] = ranged and kind .. " " .. range_text(entry) or kind
  end
  return table.concat(kinds, " or ")
end

-- A number is shown itself where one was wanted, anything else by its type.
local function show(entry, value)
  return type(value) == "number" and expected(entry):find("number") and shown(value) or core.typename(value)
end

local function in_range(entry, value)
  if not (entry.from or entry.above) then return true end
  return value > -math.huge and value < math.huge and not (entry.from and value < entry.from) and
    not (entry.above and value <= entry.above) and not (entry.to and value > entry.to) and
    not (entry.below and value >= entry.below)
end

-- Raises unless each number of a list is in the range of its entry, and there are entry.count.
local function check_list(op, entry, list)
  for i = 1, math.max(entry.count, #list) do
    if type(list[i]) ~= "number" or i > entry.count then
      check.fail(op, ("%s must be a list of %d numbers %s"):format(entry[1], entry.count, range_text(entry)))
    end
    check.value(op, {("%s[%d]"):format(entry[1], i), "number", from = entry.from, above = entry.above, to = entry.to,
      below = entry.below}, list[i])
  end
end

--- value, which has to be of the type and in the range of its entry.
-- in   entry: {name, type, …} with a range, as of check.arguments
function check.value(op, entry, value)
  if not accepts(entry, value) or (type(value) == "number" and not in_range(entry, value)) then
    check.fail(op, ("%s must be a %s, got %s"):format(entry[1], expected(entry), show(entry, value)))
  end
  if entry.count and type(value) == "table" then check_list(op, entry, value) end
  return value
end

--- The one of words (a list) that value is, or with as_text whose text it is.
function check.word(op, name, value, words, as_text)
  local texts = {}
  for i, word in ipairs(words) do
    if word == value or (as_text and tostring(word) == value) then return word end
    texts[i] = tostring(word)
  end
  local near = type(value) == "string" and core.nearest(value, texts)
  check.fail(op, ("%s must be one of %s, got '%s'%s"):format(name, table.concat(texts, ", "), tostring(value),
    near and ("; did you mean '%s'?"):format(near) or ""))
end

-- Whether the last of count arguments holds options: a plain table that is not itself the value of an argument.
local function holds_options(spec, count, last)
  if type(last) ~= "table" or getmetatable(last) ~= nil then return false end
  if last[1] == nil then return true end
  return count == 1 and not accepts(spec[1] or {}, last)
end

local function entry_of(spec, name)
  for _, entry in ipairs(spec) do
    if entry[1] == name then return entry end
  end
end

local asked -- what check.list_of waits for: a function that takes a list, and ends the call that reads by it

--- The list of arguments that fn reads when it is called, without running further; nil where it reads none.
function check.list_of(fn)
  local found
  local before = asked
  asked = function(spec) found = spec error("the list is known", 0) end
  pcall(fn)
  asked = before
  return found
end

--- Reads arguments given by position and in a last table of options into one table by name.
-- in   spec: list of {name, type, …, default = v, required = true}, in positional order; spec.positional = how many
--      may come by position (all unless said). Types are core.typename's, and "whole". The range of a number: from or
--      above, to or below; of a list of numbers, with count = how many, that of each.
-- errs value: unknown name, wrong type, out of its range, a required one missing, too many
function check.arguments(op, spec, ...)
  if asked then asked(spec) end
  local given, count = {}, select("#", ...)
  local last = count > 0 and (select(count, ...)) or nil
  if count > 0 and holds_options(spec, count, last) then
    count = count - 1
    for key, value in pairs(last) do
      if type(key) == "number" then key = spec[key] and spec[key][1] or key end
      if not entry_of(spec, key) then check.unknown(op, "option", key, names_of(spec)) end
      given[key] = value
    end
  end
  if count > (spec.positional or #spec) then
    check.fail(op, ("at most %d arguments, got %d"):format(spec.positional or #spec, count))
  end
  for i = 1, count do
    local value = (select(i, ...))
    local name = spec[i][1]
    if value ~= nil and given[name] ~= nil then check.fail(op, name .. " is given twice, by position and by name") end
    if value ~= nil then given[name] = value end
  end
  for _, entry in ipairs(spec) do
    local name, value = entry[1], given[entry[1]]
    if value == nil then
      if entry.required and entry.default == nil then check.fail(op, name .. " is missing") end
      given[name] = entry.default
    else
      check.value(op, entry, value)
    end
  end
  return given
end

--- An options table read like check.arguments' last one; nil for none.
function check.options(op, spec, options)
  if options == nil then return check.arguments(op, spec) end
  if type(options) ~= "table" then check.fail(op, ("options are a table, got %s"):format(core.typename(options))) end
  for key in pairs(options) do
    if type(key) == "number" then check.unknown(op, "option", key, names_of(spec)) end
  end
  return check.arguments(op, spec, options)
end

--- Raises where something is given to a function that takes no arguments.
function check.nothing(op, given)
  if given == nil then return end
  local key = type(given) == "table" and next(given)
  if always_on[key] then check.unknown(op, "option", key, {}) end
  check.fail(op, "takes no arguments, got a " .. core.typename(given))
end

--- An options table whose keys are all among names (a list); an empty one for none. Its values are checked elsewhere.
function check.keys(op, options, names)
  if options == nil then return {} end
  if type(options) ~= "table" then check.fail(op, ("options are a table, got %s"):format(core.typename(options))) end
  for key in pairs(options) do check.one_of(op, "option", key, names) end
  return options
end

--- Checks an option that is "auto" or a number of steps from 1 on.
function check.steps(op, name, value)
  if value == "auto" or (type(value) == "number" and value >= 1) then return end
  check.fail(op, ("%s must be \"auto\" or a number of steps from 1 on, got %s"):format(name, tostring(value)))
end

--- Raises "bad argument #n to 'fname' (expected …, got …)".
function check.bad(n, fname, message)
  core.error{code = "value", message = ("bad argument #%d to '%s' (%s)"):format(n, fname, message), path = false}
end

--- value, if it is of the wanted type ("whole", "tensor", "table" …).
function check.arg(n, fname, kind, value)
  local entry = {fname, kind}
  if accepts(entry, value) then return value end
  check.bad(n, fname, ("%s expected, got %s"):format(expected(entry), show(entry, value)))
end

--- list, which has neither named entries nor holes: what is named or behind a hole would be dropped.
-- in   hint: where options stand instead
function check.list(op, list, hint)
  local n = 0
  for key in pairs(list) do
    if type(key) ~= "number" then
      check.fail(op, ("'%s' is a key among the entries of a list"):format(tostring(key)), hint)
    end
    n = n + 1
  end
  for i = 1, n do
    if list[i] == nil then check.fail(op, ("entry %d of the list is nil, and others follow"):format(i)) end
  end
  return list
end

--- A dim from 1..ndim or -ndim..-1 as 1..ndim.
function check.dim(n, fname, value, ndim)
  check.arg(n, fname, "whole", value)
  if value == 0 or value > ndim or value < -ndim then
    check.bad(n, fname, ("dim %d is outside 1..%d"):format(value, ndim))
  end
  return value > 0 and value or ndim + 1 + value
end

--- A pair of whole numbers {a, b} from a number (both alike) or a list of two.
function check.pair(op, name, value, least)
  local pair = type(value) == "number" and {value, value} or value
  if #pair ~= 2 or type(pair[1]) ~= "number" or type(pair[2]) ~= "number" then
    check.fail(op, ("%s must be a number or a list of two"):format(name))
  end
  for _, v in ipairs(pair) do
    if v % 1 ~= 0 or v < least then
      check.fail(op, ("%s must be a whole number from %d on, got %g"):format(name, least, v))
    end
  end
  return {pair[1], pair[2]}
end

return check
