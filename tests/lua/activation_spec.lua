-- Activations as layers and as methods of tensors: values, options, parameters, names in a state_dict, bad input.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn = capl.nn
local error_text, close = support.error_text, support.close

local function at(layer, ...)
  return layer(capl.tensor({...})):tolist()
end

describe("activations", function()
  it("have the values of their definitions", function()
    local expected = {
      [nn.SiLU()] = {-2 / (1 + math.exp(2)), 0, 1 / (1 + math.exp(-1)), 4 / (1 + math.exp(-4))},
      [nn.GELU()] = {-0.0455002639, 0, 0.8413447461, 3.9998733149},
      [nn.GELU{approximate = "tanh"}] = {-0.0454023059, 0, 0.8411919906, 3.9999297540},
      [nn.Softplus()] = {math.log(1 + math.exp(-2)), math.log(2), math.log(1 + math.exp(1)), math.log(1 + math.exp(4))},
      [nn.Softplus{beta = 2, threshold = 3}] = {math.log(1 + math.exp(-4)) / 2, math.log(2) / 2,
      math.log(1 + math.exp(2)) / 2, 4}, [nn.LeakyReLU(0.5)] = {-1, 0, 1, 4},
      [nn.ELU(2)] = {2 * (math.exp(-2) - 1), 0, 1, 4},
      [nn.Hardswish()] = {-1 / 3, 0, 2 / 3, 4},
      [nn.Hardsigmoid()] = {1 / 6, 0.5, 4 / 6, 1},
      [nn.LogSigmoid()] = {-2 - math.log(1 + math.exp(-2)), -math.log(2), -math.log(1 + math.exp(-1)),
      -math.log(1 + math.exp(-4))}, [nn.ReLU6()] = {0, 0, 1, 4},
      [nn.Hardtanh(-1, 3)] = {-1, 0, 1, 3},
      [nn.Mish()] = {-0.2525014648, 0, 0.8650983883, 3.9974129200},
      [nn.SELU()] = {-1.5201664686, 0, 1.0507009874, 4.2028039494},
      [nn.PReLU()] = {-0.5, 0, 1, 4},
      [nn.Sigmoid()] = {1 / (1 + math.exp(2)), 0.5, 1 / (1 + math.exp(-1)), 1 / (1 + math.exp(-4))},
      [nn.Tanh()] = {-0.9640275801, 0, 0.7615941560, 0.9993292997},
    }
    for layer, want in pairs(expected) do
      assert.is_true(close(want, at(layer, -2, 0, 1, 4), 1e-6), tostring(layer))
    end
  end)

  it("are methods of tensors too", function()
    local x = capl.tensor{-2, 0, 1, 4}
    assert.is_true(close(nn.GELU{approximate = "tanh"}(x):tolist(), x:gelu("tanh"):tolist(), 0))
    assert.is_true(close(nn.LeakyReLU(0.3)(x):tolist(), x:leaky_relu(0.3):tolist(), 0))
    assert.is_true(close(nn.ELU(0.3)(x):tolist(), x:elu(0.3):tolist(), 0))
    assert.is_true(close(nn.Softplus(2, 3)(x):tolist(), x:softplus(2, 3):tolist(), 0))
    assert.same({-1, 0, 1, 1}, x:clamp(-1, 1):tolist())
    assert.same({0, 0, 1, 4}, x:clamp(0):tolist())
    assert.same({-1, 0, 1, 1}, x:to("i32"):clamp(-1, 1):tolist())
  end)

  it("say their options when printed", function()
    assert.equal("Softplus(beta 2, threshold 20)", tostring(nn.Softplus(2)))
    assert.equal("GELU(approximate tanh)", tostring(nn.GELU{approximate = "tanh"}))
    assert.equal("SiLU()", tostring(nn.SiLU()))
  end)

  it("refuse options that they do not have", function()
    assert.truthy(error_text(function() nn.SiLU{inplace = true} end):find("inplace"))
    assert.truthy(error_text(function() nn.Hardtanh(1, -1) end):find("min_val must be below max_val, got 1 and -1", 1,
      true))
    assert.truthy(error_text(function() nn.GELU{approximate = "erf"}(capl.ones(1)) end):find("none"))
  end)
end)

describe("PReLU", function()
  it("learns its slope, one or one per channel", function()
    local layer = nn.PReLU(3, {init = 0.5})
    assert.same({3}, layer:state_dict().weight.shape)
    local x = capl.tensor({{{-1, 2}, {-3, 4}, {5, -6}}}):requires_grad_()
    local y = layer(x)
    assert.same({{{-0.5, 2}, {-1.5, 4}, {5, -3}}}, y:tolist())
    y:sum():backward()
    assert.same({-1, -3, -6}, layer.weight.grad:tolist())
    assert.same({{{0.5, 1}, {0.5, 1}, {1, 0.5}}}, x.grad:tolist())
  end)

  it("has the slope of the weight at 0", function()
    local layer, x = nn.PReLU(), capl.zeros(1):requires_grad_()
    layer(x):sum():backward()
    assert.same({0.25}, x.grad:tolist())
  end)

  it("names both numbers when the channels differ", function()
    assert.truthy(error_text(function() nn.PReLU(3)(capl.zeros(2, 4)) end):find("it has 3 parameters, x has 4 channels",
      1, true))
    assert.truthy(error_text(function() nn.PReLU(0) end):find("num_parameters must be a whole number from 1 on, got 0",
      1, true))
  end)
end)
