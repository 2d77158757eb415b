-- The CTC loss and the gradient of the scores against PyTorch.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "golden.support"

local golden = support.load("ctc.json")

local function title(a)
  return ("blank %d, %s, %s steps for %s characters"):format(a.blank, a.reduction, table.concat(a.input_lengths, " "),
    table.concat(a.target_lengths, " "))
end

describe("the CTC loss", function()
  teardown(function() capl.device("cpu") end)
  for _, device in ipairs {"cpu", "ref"} do
    for _, case in ipairs(golden.ops) do
      local a = case.attributes
      it(("is PyTorch's with %s on %s"):format(title(a), device), function()
        capl.device(device)
        local t = {}
        for _, entry in ipairs(case.inputs) do t[entry.name] = support.make(entry) end
        t.x:requires_grad_()
        local labels = t.targets + t.targets:ge(a.blank):to("i32")
        local y = capl.nn.ctc_loss((t.x * 4):log_softmax(-1), labels, a.input_lengths, a.target_lengths,
          {blank = a.blank, reduction = a.reduction})
        ;(t.dy and y * t.dy or y):sum():backward()
        for name, tensor in pairs {y = y, dx = t.x.grad} do
          local off = support.distance(tensor, case.outputs[name])
          assert.is_true(off < 1e-5, ("%s is off by %.2g of its largest value"):format(name, off))
        end
      end)
    end
  end
end)
