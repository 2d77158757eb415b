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
  core.error{code = "value", message = ("there is no op '%s'%s"):format(name, near and "; did you mean '" .. near .. "'?" or ""),
    hint = "'capl ops' lists them"}
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

local function print_table()
  local backends = {"ref", "cpu"}
  local kernels = {}
  for _, backend in ipairs(backends) do kernels[backend] = core.sys.kernels(backend) or {} end
  local lines = {("%-26s %-7s %-6s %-6s %s"):format("op", "amp", "grad", "ref", "cpu")}
  for _, op in ipairs(core.ops()) do
    lines[#lines + 1] = ("%-26s %-7s %-6s %-6s %s"):format(op.name, op.amp, op.differentiable and "yes" or "-",
      cell(op, kernels.ref[op.name]), cell(op, kernels.cpu[op.name]))
  end
  lines[#lines + 1] = "\nref, cpu: dtypes that the backend has its own kernel for. Others, and shapes a kernel does not take,\n" ..
    "run on ref, or as simpler ops if the op is a fused one. 'capl ops NAME' explains an op."
  core.sys.out(table.concat(lines, "\n") .. "\n")
end

function ops.main(job)
  local name = job.args[1]
  if job.args[2] then core.error{code = "value", message = "capl ops takes one name, not '" .. job.args[2] .. "' too"} end
  if name then core.sys.out(ops.page(name) .. "\n") else print_table() end
end

ops.examples = {
  {"capl ops conv2d", "describes inputs, attributes and gradients of an op"},
}

return ops
