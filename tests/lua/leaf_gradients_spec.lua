-- leaf_gradients_spec.lua: gradients that leaves get at the end of a backward pass (engine/tape/deferred.c): those of
-- 16-bit products, which are made f32, and zeros of biases before batch norms. Run on the fake CUDA runtime, too
-- (tests/cuda).
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local nn = capl.nn

local function bf16(fn) return capl.autocast("bf16", fn) end

-- The largest difference of two tensors.
local function apart(a, b) return (a - b):abs():max():item() end

describe("the gradient of a leaf", function()
  local x, conv, norm

  before_each(function()
    capl.manual_seed(4)
    x, conv, norm = capl.randn(2, 8, 6, 6), nn.Conv2d(8, 8, 3, {padding = 1}), nn.BatchNorm2d(8)
  end)

  -- A loss with weights of its own for every element.
  local function loss_of(y)
    capl.manual_seed(9)
    return (y:float() * capl.randn(unpack(y.shape))):mean()
  end

  local function gradients(fn)
    conv:zero_grad() norm:zero_grad()
    bf16(function() return loss_of(fn()) end):backward()
    return conv.weight.grad:clone(), conv.bias.grad:clone()
  end

  it("is f32 and that of f32 products but for rounding", function()
    local weight, bias = gradients(function() return norm(conv(x)) end)
    assert.equal("f32", conv.weight.grad.dtype)
    assert.equal("f32", bias.dtype)
    assert.equal(0, bias:abs():max():item())
    conv:zero_grad()
    loss_of(norm(conv(x))):backward()
    local size = weight:abs():max():item()
    assert.is_true(size > 1e-3 and apart(weight, conv.weight.grad) < 0.05 * size)
  end)

  it("grows by what a second pass brings", function()
    local weight = gradients(function() return norm(conv(x)) end)
    bf16(function() return loss_of(norm(conv(x))) end):backward()
    assert.equal(0, apart(conv.weight.grad, weight * 2))
    assert.equal(0, conv.bias.grad:abs():max():item())
  end)

  it("is the sum of all uses in a pass", function()
    local once, zeros = gradients(function() return norm(conv(x)) end)
    local other, bias = gradients(function() return conv(x) * 0.5 end)
    conv:zero_grad()
    bf16(function() return loss_of(norm(conv(x))) + loss_of(conv(x) * 0.5) end):backward()
    assert.is_true(apart(conv.weight.grad, once + other) < 1e-6)
    assert.is_true(apart(conv.bias.grad, zeros + bias) < 1e-6 and bias:abs():max():item() > 0)
  end)

  it("comes to more leaves than are kept waiting", function()
    local layers = {}
    for _ = 1, 40 do
      layers[#layers + 1] = nn.Conv2d(8, 8, 3, {padding = 1})
      layers[#layers + 1] = nn.BatchNorm2d(8)
    end
    local model = nn.Sequential(layers)
    bf16(function() return loss_of(model(x)) end):backward()
    for i = 1, #layers, 2 do
      local weight, bias = layers[i].weight.grad, layers[i].bias.grad
      assert.is_true(weight:abs():max():item() > 0, "weight " .. i)
      assert.equal(0, bias:abs():max():item(), "bias " .. i)
    end
  end)

  it("is right in a part that is run again", function()
    local weight = gradients(function() return norm(conv(x)) end)
    conv:zero_grad() norm:zero_grad()
    local input = x:clone():requires_grad_()
    bf16(function() return loss_of(capl.checkpoint(function(t) return norm(conv(t)) end, input)) end):backward()
    assert.equal(0, apart(conv.weight.grad, weight))
  end)
end)
