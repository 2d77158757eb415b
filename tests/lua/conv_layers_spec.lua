-- Layers around convolutions: transposed convolution, sizes, messages.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn = capl.nn
local error_text = support.error_text

describe("nn.ConvTranspose2d", function()
  it("takes its arguments in PyTorch's order and has PyTorch's shapes and names", function()
    local layer = nn.ConvTranspose2d(6, 4, 3, 2, 1, 1, 2, true, 1)
    assert.same({6, 2, 3, 3}, layer.weight.shape)
    assert.same({4}, layer.bias.shape)
    assert.same({2, 4, 10, 14}, layer(capl.zeros(2, 6, 5, 7)).shape)
    assert.equal("ConvTranspose2d(6 -> 4, 3x3, stride 2x2, padding 1x1, output padding 1x1, groups 2)", tostring(layer))
    assert.is_nil(nn.ConvTranspose2d(6, 4, 3, {bias = false}).bias)
  end)

  it("starts with weights as far from 0 as PyTorch's", function()
    local bound = 1 / math.sqrt(2 * 9)
    local largest = nn.ConvTranspose2d(60, 4, 3, {groups = 2}).weight:abs():amax():item()
    assert.is_true(largest <= bound and largest > 0.95 * bound, largest)
  end)

  it("reaches every size that its stride allows, when asked for one", function()
    local layer, x = nn.ConvTranspose2d(2, 3, 3, {stride = {2, 3}, padding = 1}), capl.randn(1, 2, 4, 4)
    assert.same({1, 3, 7, 10}, layer(x).shape)
    assert.same({1, 3, 8, 12}, layer(x, {8, 12}).shape)
    assert.same({1, 3, 7, 12}, layer(x, {7, 12}).shape)
    local text = error_text(function() return layer(x, {9, 12}) end)
    assert.truthy(text:find("output_size is 9x12; an input of 4x4 gives 7x10 to 8x12", 1, true), text)
  end)

  it("names the layer to make instead when the channels differ", function()
    local text = error_text(function() return nn.ConvTranspose2d(3, 8, 2)(capl.zeros(1, 4, 5, 5)) end)
    assert.truthy(text:find("weight expects 3 input channels, x has 4", 1, true), text)
    assert.truthy(text:find("nn.ConvTranspose2d(4, 8, …)", 1, true), text)
  end)

  it("undoes the shrinking of nn.Conv2d with the same options", function()
    local down, up = nn.Conv2d(2, 5, 4, {stride = 3, padding = 2}), nn.ConvTranspose2d(5, 2, 4, {stride = 3, padding = 2})
    for h = 9, 12 do assert.equal(h, up(down(capl.zeros(1, 2, h, 9)), {h, 9}):size(3)) end
  end)

  it("learns in a Sequential under autocast, its bias too", function()
    local net = nn.Sequential{nn.ConvTranspose2d(3, 8, 2, {stride = 2}), nn.ReLU(), nn.ConvTranspose2d(8, 1, 3)}
    capl.autocast("bf16", function() net(capl.randn(2, 3, 4, 5)):float():sum():backward() end)
    for name, p in net:named_parameters() do
      assert.is_true(p.grad:abs():sum():item() > 0, name)
      assert.equal("f32", p.grad.dtype)
    end
  end)
end)
