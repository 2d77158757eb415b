-- Loss scales, skipped steps and weights under forced overflows, against PyTorch's GradScaler.
--
-- Scales and skips are equal. Weights and norms are compared as loosely as f16 sees them: a weight that is 1e-8 away
-- may round to the next f16, 5e-4 away, and its gradient follows.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "golden.support"

local golden = support.load("grad_scaler.json")

-- Options under capl's names.
local function options(run, loss_scale)
  local out = {clip_norm = run.clip_norm, loss_scale = loss_scale}
  for key, value in pairs(run.options) do out[key] = value end
  return out
end

-- The loss of a step as grad_scaler.py computes it: the product in f16, the sum in f32.
local function loss_of(x, push, device)
  local batch = (capl.tensor({1, -0.5, 0.25}, {device = device}) * 2 ^ push):to("f16")
  local y = (x:to("f16") * batch):float()
  return (y * y):sum()
end

local function check_run(run, device, each_step)
  local x = capl.tensor({0.5, -0.25, 1}, {device = device, requires_grad = true})
  local opt = each_step.optimizer(run, x)
  local skipped = 0
  for step, push in ipairs(golden.push) do
    each_step.step(opt, loss_of(x, push, device))
    skipped = skipped + run.skipped[step]
    assert.equal(skipped, opt.skipped, "skipped until step " .. step)
    assert.equal(run.scales[step + 1] or run.last_scale, opt.loss_scale, "scale after step " .. step)
    if run.skipped[step] == 0 and each_step.has_norm then
      assert.is_true(math.abs(opt.grad_norm - run.norms[step]) <= 2e-3 * run.norms[step] + 1e-5,
        "norm of step " .. step)
    end
  end
  assert.equal(#golden.push, opt.steps)
  for i, value in ipairs(x:tolist()) do
    assert.is_true(math.abs(value - run.x[i]) <= 5e-4,
      ("%s: weight %d is %.9g, PyTorch has %.9g"):format(run.optimizer, i, value, run.x[i]))
  end
end

local ways = {
  {name = "an optimiser alone", has_norm = true,
    optimizer = function(run, x) return capl.optim[run.optimizer]({x}, options(run, run.scaler)) end,
    step = function(opt, loss) opt:backward_step(loss) end},
  {name = "backward and step apart", has_norm = true,
    optimizer = function(run, x) return capl.optim[run.optimizer]({x}, options(run, run.scaler)) end,
    step = function(opt, loss)
      opt:zero_grad()
      opt:backward(loss)
      opt:step()
    end},
  {name = "joined optimisers, one scale for all",
    optimizer = function(run, x)
      local other = capl.ones(1, {device = x.device, requires_grad = true})
      return capl.optim.join({capl.optim[run.optimizer]({x}, options(run)), capl.optim.SGD({other}, {lr = 1})},
        {loss_scale = run.scaler})
    end,
    step = function(opt, loss) opt:backward_step(loss) end},
}

-- The device of the backends under test; ref has all of f16, cpu falls back to it.
for device in (os.getenv("CAPL_TEST_BACKENDS") or "cpu ref"):gmatch("[%w:]+") do
  describe("loss scaling on " .. device, function()
    for _, way in ipairs(ways) do
      for i, run in ipairs(golden.runs) do
        it(("%s: %s, run %d"):format(way.name, run.optimizer, i), function() check_run(run, device, way) end)
      end
    end
  end)
end
