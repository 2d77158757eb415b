-- named.lua: what kinds of outputs share: checks of the names and numbers that capl.model takes, printed numbers.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local named = {}

--- The table of the report that evaluations of classes have.
named.by_class = {key = "classes", title = "By class", columns = {{"class", "class"}, {"samples", "n"},
  {"pixels", "pixels"}, {"IoU", "iou", "share"}, {"F", "f", "share"}, {"AP", "ap", "share"}, {"F1", "f1", "share"},
  {"recall", "recall", "share"}, {"precision", "precision", "share"}}}

--- given.names is a list of 1 to most different names. kind: as messages call the output; what: what is named
-- errs value
function named.check(op, given, kind, what, most, hint)
  local names, seen = given.names, {}
  if type(names) ~= "table" or #names < 1 or #names > most then
    check.fail(op, ('output = "%s" needs the names of 1 to %d %s'):format(kind, most, what), hint)
  end
  for _, name in ipairs(names) do
    if type(name) ~= "string" or name == "" then check.fail(op, "names is a list of texts, not of " .. tostring(name)) end
    if seen[name] then check.fail(op, ("names has %s twice"):format(name)) end
    seen[name] = true
  end
end

local function check_list(op, given, key, n)
  local list = given[key]
  if list == nil then return end
  local fits = type(list) == "table" and #list == n
  for _, value in ipairs(fits and list or {}) do
    fits = fits and type(value) == "number" and value == value and math.abs(value) < math.huge
      and (key ~= "std" or value > 0)
  end
  if not fits then
    check.fail(op, ("%s is a list of %d numbers%s, one for each name"):format(key, n,
      key == "std" and " above 0" or ""))
  end
end

--- given.mean and given.std, where they are there, have a number for each of n names (n: those of given.names).
-- errs value
function named.check_scale(op, given, n)
  check_list(op, given, "mean", n or #given.names)
  check_list(op, given, "std", n or #given.names)
end

--- given[key], where it is there, is a number from 0 to 1.
-- errs value
function named.check_share(op, given, key)
  local value = given[key]
  if value == nil or value >= 0 and value <= 1 then return end
  check.fail(op, ("%s is a share from 0 to 1, got %g"):format(key, value))
end

--- The names in a label: "hat| coat" -> {"hat", "coat"}. separator: of the source; nil: the label is one. {} of nil
function named.split(label, separator)
  local out = {}
  if not separator or not label or label == "" then return {not separator and label or nil} end
  for name in (label .. separator):gmatch("(.-)%" .. separator) do out[#out + 1] = name:match("^ *(.-) *$") end
  return out
end

--- Numbers as a network takes them, (…,D), in their units again: what an ONNX file takes. d.mean, d.std: as in
-- meta.json
function named.in_units(d, x)
  local D = x:size(x.ndim)
  local function row(list, value)
    local out = {}
    for i = 1, D do out[i] = list and list[i] or value end
    return core.tensor(out)
  end
  return core.op.add(core.op.mul(x, row(d.std, 1)), row(d.mean, 0))
end

--- Numbers as texts, for what capl predict prints.
function named.formatted(values, format)
  local out = {}
  for i, value in ipairs(values) do out[i] = format:format(value) end
  return out
end

return named
