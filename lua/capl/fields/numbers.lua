-- numbers.lua: numbers in their units: what the model gives, times std, plus mean.
-- A recipe asks for it, with names and scaling of its numbers.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local symbols = require "fields.symbols"

local numbers = {name = "numbers", meter = "regression", metric = "rmse"}

local MOST = 64

local function check_list(op, given, key)
  local list = given[key]
  if list == nil then return end
  local fits = type(list) == "table" and #list == #given.names
  for _, value in ipairs(fits and list or {}) do
    fits = fits and type(value) == "number" and value == value and math.abs(value) < math.huge
      and (key ~= "std" or value > 0)
  end
  if not fits then
    check.fail(op, ("%s is a list of %d numbers%s, one for each name"):format(key, #given.names,
      key == "std" and " above 0" or ""))
  end
end

function numbers.check(op, given)
  if given.names == nil and given.mean == nil and given.std == nil then return end -- no model file that can be read
  if type(given.names) ~= "table" or #given.names < 1 or #given.names > MOST then
    check.fail(op, ('output = "numbers" needs the names of 1 to %d numbers that the model gives'):format(MOST))
  end
  check_list(op, given, "mean")
  check_list(op, given, "std")
end

function numbers.facts(given)
  if not given.names then return {} end
  return {output = "numbers", numbers = given.names, mean = given.mean, std = given.std}
end

function numbers.reads(meta) return symbols.shown(meta.numbers, ", ") end

function numbers.columns(reading)
  local out = {}
  for i, value in ipairs(reading.values) do out[i] = ("%.6g"):format(value) end
  return out
end

function numbers.json(reading, _, info)
  local out = {}
  for i, name in ipairs(info.names) do out[name] = reading.values[i] end
  return {numbers = out}
end

return numbers
