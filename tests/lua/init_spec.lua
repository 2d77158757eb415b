-- nn.init: distributions, orthogonal matrices, names, bad input.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local init = capl.nn.init
local error_text = support.error_text

describe("nn.init", function()
  it("trunc_normal keeps to its bounds and has the spread of what is left", function()
    capl.manual_seed(3)
    local x = init.trunc_normal_(capl.zeros(50, 40), {mean = 1, std = 2, a = -1, b = 2})
    assert.is_true(x:amin():item() >= -1 and x:amax():item() <= 2)
    assert.is_true(math.abs(x:mean():item() - 0.58) < 0.08, tostring(x:mean():item()))
    assert.is_true(x:std():item() > 0.7 and x:std():item() < 0.9)
  end)

  it("orthogonal makes rows, or columns, of length gain at right angles", function()
    for _, shape in ipairs{{5, 8}, {8, 5}, {4, 3, 3, 2}} do
      local w = init.orthogonal_(capl.zeros(shape), 2):reshape(shape[1], -1)
      local square = shape[1] > w:size(2) and w:t():matmul(w) or w:matmul(w:t())
      local n = square:size(1)
      local off = (square - init.eye(capl.zeros(n, n)) * 4):abs():amax():item()
      assert.is_true(off < 1e-5, off)
    end
  end)

  it("writes into parameters, outside the graph", function()
    local layer = capl.nn.Linear(4, 4)
    init.orthogonal(layer.weight)
    init.trunc_normal(layer.bias, {std = 0.02})
    assert.is_true(layer.weight.requires_grad)
    layer(capl.ones(1, 4)):sum():backward()
    assert.same({1, 1, 1, 1}, layer.bias.grad:tolist())
  end)

  it("knows the factors of nonlinearities", function()
    assert.equal(math.sqrt(2), init.calculate_gain("relu"))
    assert.is_true(math.abs(init.calculate_gain("leaky_relu", 0.2) - math.sqrt(2 / 1.04)) < 1e-12)
  end)

  it("says what is wrong", function()
    assert.truthy(error_text(function() init.trunc_normal(capl.zeros(3), {a = 1, b = 1}) end):find("a must be below b",
      1, true))
    assert.truthy(error_text(function() init.trunc_normal(capl.zeros(3), {a = 90, b = 91}) end):find("next to nothing",
      1, true))
    assert.truthy(error_text(function() init.trunc_normal(capl.zeros(3), {std = 0}) end):find("std must be above 0", 1,
      true))
    assert.truthy(error_text(function() init.orthogonal(capl.zeros(3)) end):find("at least 2 dims", 1, true))
    assert.truthy(error_text(function() init.eye(capl.zeros(2, 2, 2)) end):find("2 dims expected, got 3", 1, true))
  end)
end)
