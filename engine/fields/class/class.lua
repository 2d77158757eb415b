-- class.lua: one class of several for each image, by the name of its folder or by a list.
-- SPDX-License-Identifier: Apache-2.0
local named = require "fields.named"
local symbols = require "fields.symbols"

local class = {name = "class", meter = "classification", metric = "accuracy", is_share = true, answers = "classes",
  is_ranked = true, confused = {"class", "images", "classes"}, rows = named.by_class}

class.options = {}

function class.labels(x) return x.class_names ~= nil and not x.several end

function class.default() return {output = "class"} end

function class.facts(_, loader) return {classes = loader.class_names} end

function class.spell(x, ids) return x.class_names[ids[1] + 1] or "" end

function class.reads(d) return ("one of %d classes: %s"):format(#d.classes, symbols.shown(d.classes, ", ")) end

local function top(out, o)
  local list = {}
  for i = 1, math.min(o.top or 1, #out.top) do list[i] = out.top[i] end
  return list
end

function class.columns(out, o)
  local list = {}
  for _, one in ipairs(top(out, o)) do
    list[#list + 1] = one.name
    list[#list + 1] = ("%.4f"):format(one.probability)
  end
  return list
end

function class.json(out, o)
  local list = {}
  for i, one in ipairs(top(out, o)) do list[i] = {class = one.name, confidence = one.probability} end
  return {class = out.text, confidence = out.confidence, top = o.top and list or nil}
end

function class.source(d, o) return {label = o.label or "folder", classes = d.classes} end

function class.expects(d)
  return ("the model knows %d classes: %s"):format(#d.classes, symbols.shown(d.classes, ", "))
end

function class.whole() return "accuracy", 1 end

function class.counted(d) return {classes = d.classes} end

-- How many classes are more probable than one; those beyond the reading's list are all behind it.
local function before(out, name)
  for i, one in ipairs(out.top) do
    if one.name == name then return i - 1 end
  end
  return #out.top
end

function class.count(meter, out, truth, id)
  meter:count(out.top[1].class, meter:class_of(truth), out.confidence, id, before(out, truth))
  return out.text == truth
end

return class
