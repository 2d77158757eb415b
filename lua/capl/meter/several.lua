-- several.lua: a meter for models that return a table of named outputs: one for each, and every metric with its name
-- before it: "gap.mae", "angle.rmse".
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local OP = "train.evaluate"

local Several = {kind = "several"}
Several.__index = Several

local function names_of(parts)
  local out = {}
  for i, part in ipairs(parts) do out[i] = part.name end
  return table.concat(out, ", ")
end

-- Which way each metric is better, of all parts.
local function ways_of(parts)
  local out = {}
  for _, part in ipairs(parts) do
    for key, way in pairs(part.meter.ways or {}) do out[part.name .. "." .. key] = way end
    out[part.name .. "." .. part.meter.main] = part.meter.better
  end
  return out
end

--- A meter of several.
-- in   parts: list of {name, meter}, in the order in which they are shown; main: the metric that says which of two
--      models is better, "gap.mae"; nil or another: the main one of the first part
local function new(parts, main)
  local ways = ways_of(parts)
  local first = parts[1].name .. "." .. parts[1].meter.main
  main = main and main:match("^([^.]+)%.") and main or first
  return setmetatable({parts = parts, ways = ways, main = main, better = ways[main] or "max"}, Several)
end

-- ---- counting ----

local function output_of(self, output, name)
  if type(output) ~= "table" or core.is_tensor(output) then
    check.fail(OP, ("meter has %s, and the model gives %s"):format(names_of(self.parts), core.typename(output)),
      ("a model with several outputs returns a table of them: return {%s = …}"):format(name))
  end
  if output[name] ~= nil then return output[name] end
  local names = {}
  for key in pairs(output) do names[#names + 1] = tostring(key) end
  table.sort(names)
  check.unknown(OP, "output", name, names)
end

--- Counts a batch.
-- in   output: table of the model's outputs by name; batch
-- errs value: no table, an output that is missing, and what the meters raise
function Several:add(output, batch)
  for _, part in ipairs(self.parts) do part.meter:add(output_of(self, output, part.name), batch) end
end

--- The same meters with what each needs of the evaluation to show its samples: list of {name, meter}.
function Several:each()
  for _, part in ipairs(self.parts) do
    local meter = part.meter
    meter.role, meter.loader, meter.replaced = self.role, self.loader, 0
    meter.again = self.again and function(...)
      local batch, output = self.again(...)
      return batch, output[part.name]
    end
  end
  return self.parts
end

--- Meters of which some may be a recipe's own: join(meter, i) gives what has counted the samples of all ranks.
function Several:joined(join)
  local parts = {}
  for i, part in ipairs(self.parts) do parts[i] = {name = part.name, meter = join(part.meter, i)} end
  return new(parts, self.main)
end

-- ---- metrics ----

--- All metrics that are numbers by "NAME.METRIC", and n: samples.
function Several:result()
  local out = {role = self.role}
  for _, part in ipairs(self.parts) do
    for key, value in pairs(part.meter:result()) do
      if key == "n" then out.n = out.n or value
      elseif type(value) == "number" then out[part.name .. "." .. key] = value end
    end
  end
  self.n = out.n
  return out
end

local function line_of(meter)
  if meter.line then return meter:line() end
  return ("%s %.4g"):format(meter.main, meter:result()[meter.main])
end

--- "angle: R2 0.412, …, n 64; gap: MAE 1.94 px, …, n 64"
function Several:line()
  local out = {}
  for i, part in ipairs(self.parts) do out[i] = part.name .. ": " .. line_of(part.meter) end
  return table.concat(out, "; ")
end

--- List of {name, text}: the main metric, then the lines of each output.
function Several:lines()
  local r = self:result()
  local out = {{"", ("%s %.4g, n %d"):format(self.main, r[self.main] or 0 / 0, r.n or 0)}}
  for _, part in ipairs(self.parts) do
    local lines = part.meter.lines and part.meter:lines() or {{"", line_of(part.meter)}}
    for i, line in ipairs(lines) do out[#out + 1] = {i == 1 and part.name or part.name .. " " .. line[1], line[2]} end
  end
  return out
end

return {new = new}
