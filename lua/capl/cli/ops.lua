-- ops.lua: `capl ops`: which operation runs where and in which type; `capl ops NAME`: the page of one.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local ops = {}

local amp_words = {
  low = "16-bit under autocast", f32 = "f32 under autocast", keep = "as given", widest = "widest of its inputs",
}

local function find(name)
  local names = {}
  for i, op in ipairs(core.ops()) do
    if op.name == name then return op end
    names[i] = op.name
  end
  local near = core.nearest(name, names)
  core.error{code = "value", message = ("there is no op '%s'%s"):format(name, near
    and "; did you mean '" .. near .. "'?" or ""), hint = "'capl ops' lists them"}
end

local function range(attr)
  if attr.choices then return attr.choices end
  if attr.min then return ("%g..%g"):format(attr.min, attr.max) end
  return ""
end

--- Page of an op: signature, documentation, attributes, where it runs.
function ops.page(name)
  local op = find(name)
  local lines = {("%s(%s) -> %s"):format(op.name, op.ins, op.outs == "" and "nothing" or op.outs), op.doc, ""}
  for _, attr in ipairs(op.attrs) do
    lines[#lines + 1] = ("  %-18s %-6s %-10s %s"):format(
      attr.name, attr.kind, attr.required and "needed" or tostring(attr.default), range(attr))
  end
  lines[#lines + 1] = ("  %s; %s%s"):format(amp_words[op.amp], op.differentiable and "differentiable" or "no gradient",
    op.fused and "; fused: runs as simpler ops where a backend lacks it" or "")
  return table.concat(lines, "\n")
end

-- The dtypes a backend's own kernel computes in.
local function cell(op, kernel)
  if op.view then return "view" end
  return kernel or "-"
end

-- The backends that compute, with their kernels: {name, kernels} or {name, why there are none}
local function columns()
  local out = {}
  for _, backend in ipairs(core.backends()) do
    local kernels, why = core.kernels(backend.name)
    if kernels or why then out[#out + 1] = {name = backend.name, kernels = kernels, why = why} end
  end
  return out
end

local function row(first, list, value)
  local cells = {first}
  for _, column in ipairs(list) do cells[#cells + 1] = ("%-14s"):format(value(column)) end
  return (table.concat(cells, " "):gsub(" +$", ""))
end

local function print_table()
  local all = columns()
  local head = "%-33s %-7s %-5s"
  local lines = {row(head:format("op", "amp", "grad"), all, function(c) return c.name end)}
  for _, op in ipairs(core.ops()) do
    lines[#lines + 1] = row(head:format(op.name, op.amp, op.differentiable and "yes" or "-"), all,
      function(c) return c.kernels and cell(op, c.kernels[op.name]) or "?" end)
  end
  lines[#lines + 1] = "\nA column names the dtypes that the backend has its own kernel for. Others, and shapes a kernel does not take,\n" ..
    "run on ref where the device is a processor, or as simpler ops if the op is a fused one. 'capl ops NAME' " ..
    "explains an op."
  for _, c in ipairs(all) do
    if c.why then lines[#lines + 1] = ("%s: %s"):format(c.name, c.why) end
  end
  core.sys.out(table.concat(lines, "\n") .. "\n")
end

function ops.main(job)
  local name = job.args[1]
  if job.args[2] then
    core.error{code = "value", message = "capl ops takes one name, not '" .. job.args[2] .. "' too"}
  end
  if name then core.sys.out(ops.page(name) .. "\n") else print_table() end
end

ops.examples = {
  {"capl ops conv2d", "describes inputs, attributes and gradients of an op"},
}

return ops
