-- info_model.lua: `capl info MODEL`: what a model file is, without running it.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local fields = require "fields"
local value = require "report.value"

local function read(path)
  local text, why = core.sys.read(path)
  if not text then core.error{code = "io", message = why} end
  return core.json_decode(text)
end

local function parameters(path)
  local count = 0
  for _, tensor in pairs(core.model_weights(path)) do count = count + tensor:numel() end
  return count
end

-- {conv2d = 7, …}
local function ops_of(graph)
  local out = {}
  for _, node in ipairs(value.table(graph, "nodes")) do out[node.op] = (out[node.op] or 0) + 1 end
  return out
end

--- All there is to say. errs io, format: what cannot be read is named
local function describe(path)
  core.model_open(path, {device = "cpu", precision = "fp32"}):free() -- a damaged one is refused as ever
  local meta, pairs_kept = read(path .. "/meta.json"), 0
  while core.sys.kind(("%s/golden/%02d.png"):format(path, pairs_kept)) == "file" do pairs_kept = pairs_kept + 1 end
  return {model = path, meta = meta, numbers = parameters(path), ops = ops_of(read(path .. "/graph.json")),
    golden = pairs_kept}
end

local function list_of(ops)
  local names = value.keys(ops)
  for i, name in ipairs(names) do names[i] = ops[name] > 1 and ("%s %d"):format(name, ops[name]) or name end
  return table.concat(names, ", ")
end

local function of_what(metrics)
  return ("on %s images of %s"):format(tostring(metrics.n or "?"), metrics.role or "its evaluation")
end

-- "exact 98.10 % [97.02, 98.79] on 1000 images of val", "mae 3.2 on …"
local function summary(metrics, kind)
  local name = kind and kind.metric
  local metric, low, high = value.number(metrics, name), value.number(metrics, "low"), value.number(metrics, "high")
  if not metric then return "none" end
  if not kind.is_share then return ("%s %.4g %s"):format(name, metric, of_what(metrics)) end
  local between = low and high and (" [%.2f, %.2f]"):format(100 * low, 100 * high) or ""
  return ("%s %.2f %%%s %s"):format(name, 100 * metric, between, of_what(metrics))
end

local function images(m)
  local widths = m.widths and table.concat(m.widths, ", ") or tostring(m.width)
  return ("%s x %s px, %s"):format(widths, tostring(m.height), m.channels == 1 and "gray" or "colours")
end

local function normalize(m)
  return type(m.normalize) == "table" and core.json_encode(m.normalize) or tostring(m.normalize)
end

-- What goes in: an only image, or the inputs by name.
local function input_lines(m)
  if not m.inputs then return {{"images", images(m)}, {"normalize", normalize(m)}} end
  local lines = {}
  for i, given in ipairs(m.inputs) do
    local kind = fields.kind(given.kind)
    local what = kind and kind.reads(given) or tostring(given.kind)
    if kind and kind.is_levels then what = images(given) .. ", normalize " .. normalize(given) end
    lines[i] = {"input", given.name .. ": " .. what}
  end
  return lines
end

local function output_lines(m)
  local lines = {}
  for _, d in ipairs(fields.outputs_of(m)) do
    local name = d.name == "" and "" or d.name .. ": "
    local what = d.kind and d.kind.reads(d) or tostring(m.output)
    lines[#lines + 1] = {d.name == "" and "reads" or "output", name .. what}
    local decoding = d.kind and d.kind.decoding and d.kind.decoding(d)
    if decoding then lines[#lines + 1] = {"decoding", name .. decoding} end
  end
  return lines
end

local function lines_of(d)
  local m, lines = d.meta, {}
  local function add(list)
    for _, line in ipairs(list) do lines[#lines + 1] = line end
  end
  add(output_lines(m))
  add(input_lines(m))
  add{
    {"numbers", ("%d in its weights, running statistics included"):format(d.numbers)},
    {"sha256", m.weights_sha256 or "none: saved by an older capl; only capl verify detects changed weights"},
    {"ops", list_of(d.ops)},
    {"metrics", summary(value.table(m, "metrics"), fields.outputs_of(m)[1].kind)},
    {"golden", ("%d images with their outputs; capl verify compares them"):format(d.golden)},
    {"recipe", ("%s, %s, by capl %s"):format(tostring(m.recipe), tostring(m.created), tostring(m.capl))},
  }
  return lines
end

local function print_model(path, as_json)
  local d = describe(path)
  if as_json then return core.sys.out(core.json_encode(d, true) .. "\n") end
  core.sys.out(path .. "\n")
  for _, line in ipairs(lines_of(d)) do core.sys.out(("  %-10s %s\n"):format(line[1], line[2])) end
end

return {print = print_model}
