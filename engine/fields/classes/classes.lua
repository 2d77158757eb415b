-- classes.lua: several classes at once: those whose probability is at least threshold.
-- SPDX-License-Identifier: Apache-2.0
local named = require "fields.named"
local symbols = require "fields.symbols"

local classes = {name = "classes", answers = "sets of classes"}

classes.options = {{"names", "table"}, {"threshold", "number"}}

local MOST = 65536

function classes.check(op, given)
  named.check(op, given, "classes", "classes that an image may have", MOST)
  named.check_share(op, given, "threshold")
end

function classes.facts(given) return {classes = given.names, threshold = given.threshold} end

function classes.reads(d)
  return ("any of %d classes from %g on: %s"):format(#d.classes, d.threshold or 0.5, symbols.shown(d.classes, ", "))
end

function classes.columns(out)
  local list = {}
  for _, one in ipairs(out.top) do
    list[#list + 1] = one.name
    list[#list + 1] = ("%.4f"):format(one.probability)
  end
  return list
end

function classes.json(out)
  local list = {}
  for i, one in ipairs(out.top) do list[i] = {class = one.name, confidence = one.probability} end
  return {classes = list, confidence = out.confidence}
end

return classes
