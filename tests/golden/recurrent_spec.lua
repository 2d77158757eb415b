-- LSTM and GRU layers against PyTorch.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "golden.support"

local nn = capl.nn
local golden = support.load("recurrent.json")

local function title(case)
  local parts = {}
  for key, value in pairs(case.options) do parts[#parts + 1] = key .. " " .. tostring(value) end
  table.sort(parts)
  if #case.lengths > 0 then parts[#parts + 1] = "lengths " .. table.concat(case.lengths, ",") end
  if case.stateful then parts[#parts + 1] = "states" end
  return case.kind .. " " .. table.concat(parts, ", ")
end

local function signed(shape, number) return support.make{shape = shape, tensor = number, kind = "signed"} end

-- The layer with its parameters; their order is PyTorch's.
local function layer_of(case)
  local model, k = nn[case.kind](case.sizes[3], case.sizes[4], case.options), 0
  for _, parameter in model:named_parameters() do
    capl.no_grad(function() parameter:copy_(signed(parameter.shape, case.first + 20 + k)) end)
    k = k + 1
  end
  return model
end

local function states_of(case, rows)
  local list = {}
  for k = 1, case.stateful and (case.kind == "LSTM" and 2 or 1) or 0 do
    list[k] = signed({rows, case.sizes[2], case.sizes[4]}, case.first + k):requires_grad_()
  end
  return list
end

-- Runs a case: name in the file -> tensor here.
local function run(case)
  local steps, batch, inputs = unpack(case.sizes)
  local model = layer_of(case)
  local x = signed(case.options.batch_first and {batch, steps, inputs} or {steps, batch, inputs},
    case.first):requires_grad_()
  local states = states_of(case, (case.options.num_layers or 1) * (case.options.bidirectional and 2 or 1))
  local given = case.stateful and (case.kind == "LSTM" and states or states[1]) or nil
  local y, last = model(x, given, {lengths = #case.lengths > 0 and case.lengths or nil})
  local outputs, loss = case.kind == "LSTM" and {y, last[1], last[2]} or {y, last}, nil
  for k, out in ipairs(outputs) do
    local part = (out * signed(out.shape, case.first + 9 + k)):sum()
    loss = loss and loss + part or part
  end
  loss:backward()
  local found = {y = y, dx = x.grad, h = outputs[2], c = outputs[3], dh = states[1] and states[1].grad, dc = states[2]
    and states[2].grad}
  for name, parameter in model:named_parameters() do found[name] = parameter.grad end
  return found
end

describe("recurrent layers", function()
  teardown(function() capl.device("cpu") end)
  for _, device in ipairs{"cpu", "ref"} do
    for _, case in ipairs(golden.cases) do
      it(("are PyTorch's: %s on %s"):format(title(case), device), function()
        capl.device(device)
        local found = run(case)
        for name, wanted in pairs(case.outputs) do
          assert.is_true(capl.is_tensor(found[name]), name)
          assert.same(wanted.shape, found[name].shape)
          local distance = support.distance(found[name], wanted)
          assert.is_true(distance < 2e-5, ("%s differs by %g"):format(name, distance))
        end
      end)
    end
  end
end)
