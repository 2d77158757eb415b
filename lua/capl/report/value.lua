-- value.lua: looks into tables that came out of files: what is missing or of another kind is nil, never an error.
-- SPDX-License-Identifier: Apache-2.0

local value = {}

--- What lies at a path of keys, nil when there is nothing.
function value.at(tree, ...)
  for i = 1, select("#", ...) do
    if type(tree) ~= "table" then return nil end
    tree = tree[select(i, ...)]
  end
  return tree
end

local function of_kind(kind, tree, ...)
  local found = value.at(tree, ...)
  return type(found) == kind and found or nil
end

--- A finite number; nil for anything else, so that nothing unknown is ever shown as a metric.
function value.number(tree, ...)
  local found = of_kind("number", tree, ...)
  return found and found == found and math.abs(found) < math.huge and found or nil
end

function value.text(tree, ...) return of_kind("string", tree, ...) end

--- A table; an empty one when there is none, so that loops over it need no question.
function value.table(tree, ...) return of_kind("table", tree, ...) or {} end

function value.has(tree, ...) return next(value.table(tree, ...)) ~= nil end

--- Keys that are texts, sorted.
function value.keys(tree)
  local out = {}
  for key in pairs(tree) do
    if type(key) == "string" then out[#out + 1] = key end
  end
  table.sort(out)
  return out
end

return value
