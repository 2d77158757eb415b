--- onnx_ops.lua -- the cases of tests/op as ONNX files, each with its input and the outputs of the backend cpu.
-- usage: luajit onnx_ops.lua DIR: writes DIR/N.onnx and DIR/N.safetensors (0/in/input, 0/out/y1 …); prints a line for
-- each case: N, op, name; or "-", op, why it cannot be written.
-- SPDX-License-Identifier: Apache-2.0
local tests = arg[0]:match("^(.*)/e2e/[^/]*$")
package.path = tests .. "/op/?.lua;" .. package.path

local capl = require("capl")
local harness = require("harness")

local function upvalue(fn, name)
  for i = 1, 60 do
    local found, value = debug.getupvalue(fn, i)
    if found == name then return value end
  end
end
local core = assert(upvalue(capl.io.save, "core"))

local UNDEFINED = {["cast beyond integers"] = true} -- which ONNX leaves to whoever runs it
local NOT_CASES = {harness = true, gen = true, op_spec = true, run = true}

local function families()
  local names, list = {}, assert(io.popen(("ls '%s/op'"):format(tests)))
  for file in list:lines() do
    local name = file:match("^([%w_]+)%.lua$")
    if name and not NOT_CASES[name] then names[#names + 1] = name end
  end
  list:close()
  return names
end

-- The input that the file takes; the others are constants in it.
local function first_of(case, inputs)
  for i, input in ipairs(case.inputs) do
    if inputs[i] and input.kind == "float" and inputs[i].ndim > 0 then return inputs[i] end
  end
  return inputs[1] and inputs[1].ndim > 0 and inputs[1]
end

local function has_numbers(tensors)
  for _, t in ipairs(tensors) do
    if t and t:numel() == 0 then return false end
  end
  return true
end

-- Its input, its first output (the others are for gradients) and its graph; nil: it has no numbers or no output.
local function traced(case)
  local inputs, call = harness.forward(case, "cpu", "f32")
  local x = first_of(case, inputs)
  if not x or not has_numbers(inputs) then return nil end
  core.trace_begin()
  local ok, outputs = pcall(call)
  if not ok or not outputs[1] then
    core.trace_cancel()
    return nil
  end
  return x, outputs[1], core.trace_end(x, outputs[1], {})
end

local function export(path, case)
  local x, y, graph = traced(case)
  if not x then return nil end
  core.onnx_graph(graph, path .. ".onnx")
  core.safetensors_save(path .. ".safetensors", {["0/in/input"] = x, ["0/out/output"] = y})
  return true
end

local folder, number = assert(arg[1]), 0
for _, family in ipairs(families()) do
  for index, given in ipairs(dofile(tests .. "/op/" .. family .. ".lua")) do
    local case = harness.prepare(given, family, index)
    local dtypes = table.concat(case.dtypes or {"f32"}, " ")
    local in_f32 = dtypes:find("f32") or dtypes:find("whole")
    local defined = not UNDEFINED[case.op .. " " .. (given.name or "")]
    if not case.fails and in_f32 and defined and not case.op:match("_grad") then
      local ok, done = pcall(export, folder .. "/" .. number, case)
      if not ok then
        print("-", case.op, type(done) == "table" and done.message or tostring(done))
      elseif done then
        print(number, case.op, case.name)
        number = number + 1
      end
    end
  end
end
