-- muon_spec.lua: Muon's directions are orthogonal, and joined optimizers step as one.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local optim = capl.optim

local error_text = support.error_text

local function leaf(...) return capl.randn({...}):requires_grad_() end

-- What a first step with lr = 1 and no decay takes off a weight whose gradient is grad.
local function first_step(weight, grad, opts)
  local before = weight:detach():clone()
  local o = {lr = 1, weight_decay = 0}
  for key, value in pairs(opts or {}) do o[key] = value end
  local opt = optim.Muon({weight}, o)
  opt:backward_step((weight * grad):sum())
  return before - weight:detach()
end

-- The method as it is written down: every iterate computed in full.
local function written_down(m)
  local x = m / ((m * m):sum():sqrt() + 1e-7)
  for _ = 1, 5 do
    local a = x:matmul(x:transpose(1, 2))
    x = x * 3.4445 + (a * -4.7750 + a:matmul(a) * 2.0315):matmul(x)
  end
  return x
end

local function largest(x) return x:abs():amax():item() end

describe("Muon", function()
  it("makes steps whose rows are nearly orthonormal", function()
    local step = first_step(leaf(8, 40), capl.randn({8, 40}))
    local gram = step:matmul(step:transpose(1, 2))
    assert.is_true(largest(gram - capl.eye(8)) < 0.6) -- the polynomial leaves singular values in 0.7..1.2
    assert.is_true(math.abs(gram[1][1]:item() - 1) < 0.6)
  end)

  it("agrees with the method as written down", function()
    local grad = capl.randn({12, 30})
    assert.is_true(largest(first_step(leaf(12, 30), grad) - written_down(grad)) < 1e-3)
  end)

  it("steps a clipped 1x1 convolution with more outputs than inputs without the slow reference", function()
    local weight = leaf(12, 4, 1, 1)
    local opt = optim.Muon({weight}, {lr = 1, clip_norm = 1})
    local before = capl.counters().ref_fallbacks
    opt:backward_step((weight * capl.randn({12, 4, 1, 1})):sum())
    assert.equal(before, capl.counters().ref_fallbacks)
  end)

  it("treats a convolution as the matrix of its outputs", function()
    local grad = capl.randn({6, 4, 3, 3})
    local step = first_step(leaf(6, 4, 3, 3), grad)
    assert.is_true(largest(step:reshape(6, 36) - written_down(grad:reshape(6, 36))) < 1e-3)
  end)

  it("scales the step of a tall matrix by the root of its sides' ratio", function()
    local grad = capl.randn({32, 8})
    local expected = written_down(grad:transpose(1, 2)):transpose(1, 2) * 2
    assert.is_true(largest(first_step(leaf(32, 8), grad) - expected) < 2e-3)
  end)

  it("gives each of several weights the step that it gets alone, in few products", function()
    local shapes = {{8, 40}, {8, 9}, {20, 8}, {8, 3, 3, 3}, {12, 30}}
    local weights, before, grads, loss = {}, {}, {}, 0
    for i, shape in ipairs(shapes) do
      weights[i], grads[i] = leaf(unpack(shape)), capl.randn(shape)
      before[i] = weights[i]:detach():clone()
      loss = loss + (weights[i] * grads[i]):sum()
    end
    local opt = optim.Muon(weights, {lr = 1, weight_decay = 0})
    opt.composed = true -- as on a GPU
    local products = capl.counters().fp32_kernels
    opt:backward_step(loss)
    assert.equal(2 * #shapes + 2 * 17, capl.counters().fp32_kernels - products) -- two sizes: 8 and 12
    for i, shape in ipairs(shapes) do
      local alone = first_step(leaf(unpack(shape)), grads[i])
      assert.is_true(largest(before[i] - weights[i]:detach() - alone) < 1e-4)
    end
  end)

  -- Three steps of wide, tall and square weights.
  local function steps_of(composed, opts, clip)
    capl.manual_seed(7)
    local weights = {leaf(8, 40), leaf(70, 40), leaf(33, 33), leaf(40, 8, 3, 3), leaf(1, 5), leaf(5, 1)}
    local opt = optim.Muon(weights, opts)
    opt:set_clip{norm = clip}
    opt.composed = composed
    for _ = 1, 3 do
      local loss = 0
      for i, w in ipairs(weights) do loss = loss + (w:sin() * i):sum() + (w * w):sum() end
      opt:backward_step(loss)
    end
    return weights, opt
  end

  for name, opts in pairs {
    ["with nesterov and decay"] = {lr = 0.1, weight_decay = 0.2}, plain = {lr = 0.1, nesterov = false, momentum = 0.8},
    ["of two iterations"] = {lr = 0.1, ns_steps = 2},
  } do
    for _, clip in ipairs {0, 0.5} do
      it(("makes the steps on a CPU that it is composed of elsewhere, %s, clip_norm %g"):format(name, clip), function()
        local one, before = steps_of(true, opts, clip), capl.counters().ref_fallbacks
        local products = capl.counters().fp32_kernels
        local two = steps_of(false, opts, clip)
        assert.equal(before, capl.counters().ref_fallbacks)
        if two[1].device == "cpu" then assert.equal(products, capl.counters().fp32_kernels) end
        for i, w in ipairs(one) do assert.is_true(largest(w:detach() - two[i]:detach()) < 2e-3, i) end
      end)
    end
  end

  it("steps a weight in another order of memory without the slow reference", function()
    local weight = capl.randn({6, 50}):transpose(1, 2):detach():requires_grad_()
    local before = capl.counters().ref_fallbacks
    first_step(weight, capl.randn({50, 6}))
    assert.equal(before, capl.counters().ref_fallbacks)
  end)

  it("changes nothing in a step whose gradients are not finite", function()
    local weight = leaf(4, 6)
    local before, opt = weight:detach():clone(), optim.Muon({weight}, {lr = 1, clip_norm = 1})
    opt:backward_step((weight * (0 / 0)):sum())
    assert.equal(1, opt.skipped)
    assert.equal(0, largest(weight:detach() - before))
    assert.equal(0, largest(opt.state[weight].momentum_buffer))
  end)

  it("forgets a zero gradient without a NaN", function()
    assert.equal(0, largest(first_step(leaf(4, 4), capl.zeros(4, 4))))
  end)

  it("keeps its state in a state_dict", function()
    local a, grad = leaf(4, 6), capl.randn({4, 6})
    local b = a:detach():clone():requires_grad_()
    local one, two = optim.Muon({a}, {lr = 0.1}), optim.Muon({b}, {lr = 0.1})
    one:backward_step((a * grad):sum())
    b:detach():copy_(a:detach())
    two:load_state_dict(one:state_dict())
    one:backward_step((a * a):sum())
    two:backward_step((b * b):sum())
    assert.equal(0, largest(a:detach() - b:detach()))
  end)

  it("refuses a parameter that is no matrix", function()
    assert.equal("LINE: optim.Muon: a parameter of shape (3) is no matrix\n"
      .. "  hint: give biases and norms to optim.AdamW and join both with optim.join{muon, adamw}",
      error_text(function() local o = optim.Muon({leaf(3)}) return o end))
  end)
end)

describe("joined optimizers", function()
  it("step as one, each with its own rule", function()
    local a, b = leaf(2, 2), leaf(2)
    local alone = b:detach():clone():requires_grad_()
    local joined = optim.join{optim.Muon({a}, {lr = 0.1}), optim.SGD({b}, {lr = 0.5})}
    joined:backward_step((a * a):sum() + (b * b):sum())
    optim.SGD({alone}, {lr = 0.5}):backward_step((alone * alone):sum())
    assert.equal(0, largest(b:detach() - alone:detach()))
    assert.equal(1, joined.steps)
    assert.equal(0.1, joined.lr)
    assert.is_nil(a.grad)
  end)

  it("set the rate of one of them", function()
    local joined = optim.join{optim.SGD({leaf(2)}, {lr = 1}), optim.SGD({leaf(2)}, {lr = 2})}
    joined:set_lr(3, 2)
    assert.same({1, 3}, {joined.optimizers[1].lr, joined.optimizers[2].lr})
  end)

  it("continue from their state", function()
    local a = leaf(2, 2)
    local joined = optim.join{optim.Adam({a}, {lr = 0.1})}
    joined:backward_step((a * a):sum())
    local other = optim.join{optim.Adam({a:detach():clone():requires_grad_()}, {lr = 0.1})}
    other:load_state_dict(joined:state_dict())
    assert.equal(1, other.steps)
    assert.is_truthy(error_text(function() other:load_state_dict({optimizers = {}}) end):find(
      "the state is of 0 optimizers, there are 1", 1, true))
  end)

  it("name what they cannot join", function()
    local p = leaf(2)
    assert.equal("LINE: optim.join: the list of optimizers is empty",
      error_text(function() local o = optim.join{} return o end))
    assert.equal("LINE: optim.join: entry 1 is a number, not an optimizer",
      error_text(function() local o = optim.join{1} return o end))
    assert.equal("LINE: optim.join: a parameter is in optimizers 1 and 2",
      error_text(function() local o = optim.join{optim.SGD({p}, {lr = 1}), optim.SGD({p}, {lr = 1})} return o end))
  end)
end)
