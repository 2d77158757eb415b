-- classes.lua: several classes at once: those whose probability is at least threshold.
-- SPDX-License-Identifier: Apache-2.0
local named = require "fields.named"
local symbols = require "fields.symbols"

local classes = {name = "classes", meter = "multilabel", metric = "map", is_share = true, answers = "sets of classes"}

classes.options = {{"names", "table"}, {"threshold", "number"}}

local MOST = 65536

function classes.check(op, given)
  if given.names then named.check(op, given, "classes", "classes that an image may have", MOST) end -- else the source's
  named.check_share(op, given, "threshold")
end

function classes.labels(x) return x.class_names ~= nil and x.several ~= nil end

function classes.default() return {output = "classes"} end

function classes.facts(given, loader)
  local names = given.names or loader and loader.several and loader.class_names
  return names and {classes = names, threshold = given.threshold} or nil
end

function classes.spell(x, ids)
  local list = {}
  for _, id in ipairs(ids) do list[#list + 1] = x.class_names[id + 1] end
  return table.concat(list, ", ")
end

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

function classes.source(d, o) return {label = o.label or ".txt", classes = d.classes, several = o.several or true} end

function classes.expects(d)
  return ("the model knows %d classes: %s"):format(#d.classes, symbols.shown(d.classes, ", "))
end

function classes.measures(given) return {threshold = given.threshold} end

function classes.counted(d) return {classes = d.classes, threshold = d.threshold} end

function classes.count(meter, out, truth, id, several)
  local has, logits = {}, {}
  for _, name in ipairs(named.split(truth, several)) do has[name] = true end
  for k, p in ipairs(out.values) do logits[k] = math.log(p / (1 - p)) end
  return meter:count(logits, function(k) return has[meter:name(k - 1)] or false end, id)
end

return classes
