-- Learning rates and clipped gradients, against PyTorch's schedulers and clip_grad_norm_, clip_grad_value_.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "golden.support"

local golden = support.load("schedules.json")
local schedule = capl.optim.schedule

local function close(wanted, have) return math.abs(wanted - have) <= 1e-8 * math.max(1, math.abs(wanted)) end

describe("schedules", function()
  for i, case in ipairs(golden.schedules) do
    it(("give PyTorch's rates: %s, case %d"):format(case.name, i), function()
      local o = {lr = case.options.max_lr == nil and 0.1 or nil}
      for key, value in pairs(case.options) do o[key] = value end
      local s = schedule[case.name](o)
      for step, lr in ipairs(case.rates) do
        assert.is_true(close(lr, s:lr(step - 1)),
          ("step %d: PyTorch %.9g, capl %.9g"):format(step - 1, lr, s:lr(step - 1)))
      end
    end)
  end

  for i, case in ipairs(golden.plateaus) do
    it(("follow figures as PyTorch's ReduceLROnPlateau does: case %d"):format(i), function()
      local o = {lr = 0.1}
      for key, value in pairs(case.options) do o[key == "mode" and "better" or key] = value end
      local s = schedule.plateau(o)
      for place, figure in ipairs(golden.figures) do
        s:report(figure == "nan" and 0 / 0 or figure)
        assert.is_true(close(case.rates[place], s:lr(0)),
          ("figure %d: PyTorch %.9g, capl %.9g"):format(place, case.rates[place], s:lr(0)))
      end
    end)
  end
end)

describe("clipping", function()
  for _, case in ipairs(golden.clips) do
    it(("gives PyTorch's gradients: %s to %g"):format(case.name, case.limit), function()
      local parameters, terms = {}, nil
      for i, values in ipairs(golden.gradients) do
        local p = capl.zeros{#values}:requires_grad_()
        local term = (p * capl.tensor(values)):sum()
        parameters[i], terms = p, terms and terms + term or term
      end
      terms:backward()
      local norm = capl.train[case.name](parameters, case.limit)
      if case.norm >= 0 then assert.is_true(math.abs(case.norm - norm:item()) < 1e-5) end
      for i, p in ipairs(parameters) do
        for k, x in ipairs(p.grad:tolist()) do assert.is_true(math.abs(case.gradients[i][k] - x) < 1e-6) end
      end
    end)
  end
end)
