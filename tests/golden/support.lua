-- support.lua: reads the golden files, and makes the tensors that both sides compute (README.md).
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local support = {}

-- The files hold plain JSON without escapes: turned into a Lua table by rewriting its brackets.
function support.load(name)
  local path = (os.getenv("CAPL_SOURCE_DIR") or ".") .. "/tests/golden/" .. name
  local file = assert(io.open(path))
  local text = file:read("*a")
  file:close()
  text = text:gsub("%[", "{"):gsub("%]", "}"):gsub('"([^"]*)"%s*:', '["%1"] =')
  return assert(loadstring("local null, NaN, Infinity = false, 0 / 0, 1 / 0 return " .. text, "=" .. name))()
end

support.seed = 42 -- of the file now tested; each states its own

--- Tensor number t of a shape: u in [0,1).
function support.uniform(shape, t)
  return capl.rand(shape, {seed = support.seed, stream = {t, 0, 0xC0FFEE}})
end

local kinds = {
  unit = function(u) return u end,
  signed = function(u) return u * 2 - 1 end,
  positive = function(u) return u + 0.5 end,
  bit = function(u) return u:ge(0.5):float() end,
  wide = function(u) return (u * 2 - 1) * 6 end,
  sign = function(u) return u:ge(0.5):float() * 2 - 1 end,
}

--- The tensor that an entry {shape, tensor, kind} describes.
function support.make(entry)
  local u = support.uniform(entry.shape, entry.tensor)
  local n = entry.kind:match("^classes (%d+)")
  if n then return (u * tonumber(n)):to("i32") end
  return kinds[entry.kind](u)
end

local function flat(tensor) return tensor:float():reshape(-1):tolist() end

--- Largest distance of a tensor from its golden description, as a share of the largest value there.
function support.distance(tensor, golden)
  local values, scale, worst = flat(tensor), 1e-3, 0
  for _, v in ipairs(golden.values) do scale = math.max(scale, math.abs(v)) end
  for i, v in ipairs(golden.values) do
    local at = golden.at and golden.at[i] + 1 or i
    worst = math.max(worst, math.abs(values[at] - v) / scale)
  end
  if golden.norm then
    local sum = 0
    for _, v in ipairs(values) do sum = sum + v * v end
    worst = math.max(worst, math.abs(math.sqrt(sum) / golden.norm - 1))
  end
  return worst
end

--- "gather dim=1": a case by its op and PyTorch's attributes.
function support.title(case)
  local parts = {}
  for key, value in pairs(case.attributes) do
    local list = type(value) == "table" and type(value[1]) ~= "table"
    parts[#parts + 1] = key .. "=" .. (list and table.concat(value, ",") or tostring(value):gsub("table.*", "{…}"))
  end
  table.sort(parts)
  return case.op .. " " .. table.concat(parts, " ")
end

--- Inputs of a case by name; those whose gradients are known want one.
function support.inputs(case)
  local inputs = {}
  for _, entry in ipairs(case.inputs) do
    local x = support.make(entry)
    inputs[entry.name] = case.outputs["d" .. entry.name] and x:requires_grad_() or x
  end
  return inputs
end

--- How far y and the gradients of the inputs, y's being dy, are from what PyTorch gave: {name = share of the largest
-- value}. call: function(inputs by name, PyTorch's attributes) -> y
function support.distances(case, call)
  local inputs, off = support.inputs(case), {}
  local y = call(inputs, case.attributes)
  local loss = (y * inputs.dy):sum()
  loss:backward()
  for name, wanted in pairs(case.outputs) do
    off[name] = support.distance(name == "y" and y or inputs[name:sub(2)].grad, wanted)
  end
  return off
end

return support
