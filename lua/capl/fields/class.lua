-- class.lua: one class of several for each image, by the name of its folder or by a list.
-- SPDX-License-Identifier: Apache-2.0
local symbols = require "fields.symbols"

local class = {name = "class", meter = "classification", metric = "accuracy", is_share = true, answers = "classes"}

function class.labels(x) return x.class_names ~= nil end

function class.options() return {output = "class"} end

function class.facts(_, loader) return {output = "class", classes = loader.class_names} end

function class.spell(x, ids) return x.class_names[ids[1] + 1] or "" end

function class.reads(meta)
  return ("one of %d classes: %s"):format(#meta.classes, symbols.shown(meta.classes, ", "))
end

local function top(reading, o)
  local out = {}
  for i = 1, math.min(o.top or 1, #reading.top) do out[i] = reading.top[i] end
  return out
end

function class.columns(reading, o)
  local out = {}
  for _, one in ipairs(top(reading, o)) do
    out[#out + 1] = one.name
    out[#out + 1] = ("%.4f"):format(one.probability)
  end
  return out
end

function class.json(reading, o)
  local list = {}
  for i, one in ipairs(top(reading, o)) do list[i] = {class = one.name, confidence = one.probability} end
  return {class = reading.text, confidence = reading.confidence, top = o.top and list or nil}
end

function class.source(info, o) return {label = o.label or "folder", classes = info.names} end

function class.expects(info)
  return ("the model knows %d classes: %s"):format(#info.names, symbols.shown(info.names, ", "))
end

function class.counted(info) return {classes = info.names} end

-- How many classes are more probable than one; those beyond the reading's list are all behind it.
local function before(reading, name)
  for i, one in ipairs(reading.top) do
    if one.name == name then return i - 1 end
  end
  return #reading.top
end

function class.count(meter, reading, truth, id)
  meter:count(reading.top[1].class, meter:class_of(truth), reading.confidence, id, before(reading, truth))
end

return class
