-- Single ops, optimisers and schedules against PyTorch.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "golden.support"

local golden = support.load("ops.json")
local op, nn, optim = capl.op, capl.nn, capl.optim

local function pool_attributes(a)
  return {kernel = a.kernel_size, stride = a.stride, padding = a.padding, ceil_mode = a.ceil_mode,
    count_include_pad = a.count_include_pad}
end

-- How each golden op is called here: function(inputs by name, PyTorch's attributes) -> y, further outputs by name
local calls = {
  conv2d = function(t, a) return op.conv2d(t.x, t.weight, t.bias, a) end,
  batch_norm = function(t, a)
    local y = op.batch_norm(t.x, t.weight, t.bias, t.running_mean, t.running_var,
      {eps = a.eps, momentum = a.momentum, training = a.training})
    return y, a.training and {running_mean = t.running_mean, running_var = t.running_var}
  end,
  max_pool2d = function(t, a) return (op.max_pool2d(t.x, pool_attributes(a))) end,
  avg_pool2d = function(t, a) return op.avg_pool2d(t.x, pool_attributes(a)) end,
  adaptive_avg_pool2d = function(t, a) return op.adaptive_avg_pool2d(t.x, {output = a.output_size}) end,
  adaptive_max_pool2d = function(t, a) return (op.adaptive_max_pool2d(t.x, {output = a.output_size})) end,
  log_softmax = function(t, a) return (t.x * 4):log_softmax(a.dim + 1) end,
  cross_entropy = function(t, a) return nn.cross_entropy(t.x, t.labels, a) end,
  bce_with_logits = function(t, a) return nn.bce_with_logits(t.x, t.target, a) end,
  multilabel_soft_margin = function(t, a) return nn.multilabel_soft_margin(t.x, t.target, a) end,
  mse = function(t, a) return nn.mse(t.x, t.target, a) end,
}

local title = support.title

describe("golden op", function()
  it("has a call here for each case, and cases for each call", function()
    local seen = {}
    for _, case in ipairs(golden.ops) do
      assert.is_function(calls[case.op], case.op)
      seen[case.op] = true
    end
    for name in pairs(calls) do assert.is_true(seen[name], name) end
  end)

  for _, device in ipairs{"cpu", "ref"} do
    for _, case in ipairs(golden.ops) do
      it(title(case) .. " on " .. device, function()
        capl.device(device)
        local inputs = support.inputs(case)
        local y, extra = calls[case.op](inputs, case.attributes)
        local checked = 0
        local function check(name, tensor)
          checked = checked + 1
          local off = support.distance(tensor, case.outputs[name])
          assert.is_true(off < 2e-5, ("%s is off by %.2g of its largest value"):format(name, off))
        end
        check("y", y)
        for name, tensor in pairs(extra or {}) do check(name, tensor) end
        local loss = inputs.dy and (y * inputs.dy):sum() or y
        loss:backward()
        for name, x in pairs(inputs) do
          if case.outputs["d" .. name] then check("d" .. name, x.grad) end
        end
        local wanted = 0
        for _ in pairs(case.outputs) do wanted = wanted + 1 end
        assert.equal(wanted, checked)
      end)
    end
  end
  teardown(function() capl.device("cpu") end)
end)

describe("golden optimiser", function()
  for i, case in ipairs(golden.optimizers) do
    it(("%d %s"):format(i, case.optimizer), function()
      local by_name = {}
      for _, entry in ipairs(case.inputs) do by_name[entry.name] = support.make(entry) end
      local x = nn.Parameter(by_name.x)
      local opt = optim[case.optimizer]({x}, case.options)
      for step, wanted in ipairs(case.x_after_step) do
        (x * by_name["grad" .. step - 1]):sum():backward()
        opt:step()
        opt:zero_grad()
        local off = support.distance(x, {values = wanted})
        assert.is_true(off < 1e-5, ("after step %d off by %.2g"):format(step, off))
      end
    end)
  end
end)

describe("golden schedule", function()
  local makers = {
    StepLR = function(c) return optim.schedule.step{lr = c.lr, step_size = c.options.step_size, gamma = c.options.gamma}
    end, CosineAnnealingLR = function(c)
      return optim.schedule.cosine{lr = c.lr, T_max = c.options.T_max, eta_min = c.options.eta_min}
    end,
    OneCycleLR = function(c) return optim.schedule.one_cycle(c.options) end,
    warmup_cosine = function(c)
      local o = c.options
      return optim.schedule.warmup_cosine{lr = c.lr, warmup = o.warmup, total = o.total, eta_min = o.eta_min}
    end,
  }
  for _, case in ipairs(golden.schedules) do
    it(case.schedule, function()
      local schedule = makers[case.schedule](case)
      for i, rate in ipairs(case.rates) do
        local got = schedule:lr(i - 1)
        assert.is_true(math.abs(got - rate) <= 1e-7 * math.abs(rate) + 1e-15,
          ("step %d: %.9g, PyTorch %.9g"):format(i - 1, got, rate))
      end
    end)
  end
end)
