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
    local down, up = nn.Conv2d(2, 5, 4, {stride = 3, padding = 2}),
      nn.ConvTranspose2d(5, 2, 4, {stride = 3, padding = 2})
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

describe("layers of sequences", function()
  it("convolve as the layers of images do, with PyTorch's names and shapes", function()
    local layer = nn.Conv1d(4, 6, 3, {stride = 2, padding = 1, groups = 2})
    assert.same({6, 2, 3}, layer.weight.shape)
    local x = capl.randn(2, 4, 9)
    local y = layer(x)
    assert.same({2, 6, 5}, y.shape)
    local image = capl.op.conv2d(x:view(2, 4, 1, 9), layer.weight:view(6, 2, 1, 3), layer.bias,
      {stride = {1, 2}, padding = {0, 1}, groups = 2})
    assert.is_true((y - image:view(2, 6, 5)):abs():amax():item() < 1e-6)
    y:sum():backward()
    assert.same({6, 2, 3}, layer.weight.grad.shape)
    assert.same({1, 5, 7}, nn.Conv1d(4, 5, 3, {padding = "same"})(capl.zeros(1, 4, 7)).shape)
    assert.equal("Conv1d(4 -> 6, 3, stride 2, padding 1, groups 2)", tostring(layer))
    local text = error_text(function() return layer(capl.zeros(2, 3, 9)) end)
    assert.truthy(text:find("weight expects 4 input channels, x has 3", 1, true), text)
  end)

  it("pool and normalize", function()
    local x = capl.tensor{{{1, 5, 2, 4, 3}}}
    assert.same({{{5, 4}}}, nn.MaxPool1d(2)(x):tolist())
    assert.same({{{5, 4, 3}}}, nn.MaxPool1d(2, {ceil_mode = true})(x):tolist())
    assert.same({{{3, 3}}}, nn.AvgPool1d(2, 2)(x):tolist())
    local y = nn.BatchNorm1d(3)(capl.randn(4, 3, 8))
    assert.same({4, 3, 8}, y.shape)
    assert.is_true(math.abs(y:mean():item()) < 1e-5)
    assert.same({3, 2}, nn.MaxPool1d(2)(capl.zeros(3, 4)).shape) -- without a batch
    assert.same({6, 6, 6}, nn.Conv2d(3, 6, 3)(capl.zeros(3, 8, 8)).shape)
    assert.same({3, 4, 4}, nn.AvgPool2d(2)(capl.zeros(3, 8, 8)).shape)
    assert.truthy(error_text(function()
      return nn.MaxPool1d(2)(capl.zeros(2, 3, 4, 4)) end):find("x must be (N,C,L)", 1, true))
  end)
end)

describe("layers that change sizes", function()
  it("keep a side of an image in adaptive pools", function()
    local x = capl.randn(2, 3, 5, 9)
    assert.same({2, 3, 1, 9}, nn.AdaptiveAvgPool2d{1, "keep"}(x).shape)
    assert.same({2, 3, 5, 4}, nn.AdaptiveMaxPool2d{"keep", 4}(x).shape)
    assert.same({2, 3, 2, 9}, nn.AdaptiveAvgPool2d{2, nil}(x).shape)
    assert.same({2, 3, 2, 2}, nn.AdaptiveAvgPool2d(2)(x).shape)
    assert.equal("AdaptiveAvgPool2d(1xkeep)", tostring(nn.AdaptiveAvgPool2d{1, "keep"}))
    assert.truthy(error_text(function() return nn.AdaptiveAvgPool2d{0, 1} end):find("got 0", 1, true))
  end)

  it("unflatten and pad", function()
    assert.same({2, 3, 4, 5}, nn.Unflatten(2, {3, -1})(capl.zeros(2, 12, 5)).shape)
    assert.truthy(error_text(function()
      return nn.Unflatten(2, {5, -1})(capl.zeros(2, 12)) end):find("dim 2 of x has size 12", 1, true))
    assert.same({{{{0, 1, 2}, {0, 3, 4}, {0, 0, 0}}}},
      nn.ZeroPad2d{1, 0, 0, 1}(capl.tensor{{{{1, 2}, {3, 4}}}}):tolist())
  end)

  it("hold modules by name", function()
    local dict = nn.ModuleDict{small = nn.Linear(2, 3), large = nn.Linear(2, 30)}
    assert.same({2, 3}, dict.small(capl.zeros(2, 2)).shape)
    local order = {}
    for name in nn.ModuleDict{{"b", nn.ReLU()}, {"a", nn.ReLU()}}:named_children() do order[#order + 1] = name end
    assert.same({"b", "a"}, order)
    assert.equal(2 * 3 + 3 + 2 * 30 + 30, dict:parameter_count())
    assert.truthy(error_text(function()
      return nn.ModuleDict{train = nn.ReLU()} end):find("'train' is a method of modules", 1, true))
  end)
end)
