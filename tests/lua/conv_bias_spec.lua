-- conv_bias_spec.lua: the bias of a convolution gets no gradient where only a training batch norm reads its output.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local nn = capl.nn

describe("the bias of a convolution", function()
  local conv, norm, x

  -- Sum of the squares of y: a loss whose gradient differs from element to element.
  local function bias_gradient(fn)
    conv:zero_grad() norm:zero_grad()
    local y = fn(x)
    local loss = (y * y * y + y * y * capl.randn(unpack(y.shape))):mean()
    loss:backward()
    return conv.bias.grad:tolist()
  end

  local function largest(values)
    local most = 0
    for _, v in ipairs(values) do most = math.max(most, math.abs(v)) end
    return most
  end

  before_each(function()
    capl.manual_seed(3)
    conv, norm = nn.Conv2d(3, 8, 3, {padding = 1}), nn.BatchNorm2d(8)
    x = capl.randn(4, 3, 8, 8)
  end)

  it("has a gradient of exactly 0 before a training norm, also with relu and pooling", function()
    local relu, pool = nn.ReLU(), nn.MaxPool2d(2)
    for _, fn in ipairs {
      function(t) return norm(conv(t)) end, nn.Sequential {conv, norm, relu}, nn.Sequential {conv, norm, relu, pool},
    } do
      assert.are.equal(0, largest(bias_gradient(fn)))
      assert.is_true(largest(conv.weight.grad:view(-1):tolist()) > 0)
    end
  end)

  it("has one before a norm that uses its running statistics", function()
    norm:eval()
    assert.is_true(largest(bias_gradient(function(t) return norm(conv(t)) end)) > 1e-3)
  end)

  it("has one where something else reads the output too", function()
    assert.is_true(largest(bias_gradient(function(t)
      local y = conv(t)
      return norm(y) + y
    end)) > 1e-3)
  end)

  it("has one where a layer lies between", function()
    local relu = nn.ReLU()
    assert.is_true(largest(bias_gradient(function(t) return norm(relu(conv(t))) end)) > 1e-3)
  end)
end)
