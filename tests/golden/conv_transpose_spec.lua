-- Transposed convolution against PyTorch.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "golden.support"

local golden = support.load("conv_transpose.json")

local function title(case)
  local parts = {}
  for key, value in pairs(case.attributes) do
    parts[#parts + 1] = key .. " " .. (type(value) == "table" and table.concat(value, ",") or tostring(value))
  end
  table.sort(parts)
  return table.concat(parts, ", ")
end

-- The inputs by name; those that have a gradient in the file want one.
local function inputs_of(case)
  local out = {}
  for _, entry in ipairs(case.inputs) do
    local x = support.make(entry)
    out[entry.name] = case.outputs["d" .. entry.name] and x:requires_grad_() or x
  end
  return out
end

describe("transposed convolution", function()
  teardown(function() capl.device("cpu") end)
  for _, device in ipairs{"cpu", "ref"} do
    for _, case in ipairs(golden.ops) do
      it(("is PyTorch's with %s on %s"):format(title(case), device), function()
        capl.device(device)
        local t = inputs_of(case)
        local y = capl.op.conv_transpose2d(t.x, t.weight, t.bias, case.attributes)
        assert.same(case.outputs.y.shape, y.shape)
        ;(y * t.dy):sum():backward()
        for name, tensor in pairs{y = y, dx = t.x.grad, dweight = t.weight.grad, dbias = t.bias.grad} do
          local off = support.distance(tensor, case.outputs[name])
          assert.is_true(off < 2e-5, ("%s is off by %.2g of its largest value"):format(name, off))
        end
      end)
    end
  end
end)
