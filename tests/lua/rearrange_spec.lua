-- Tensors: parts, indices, padding, running sums; resampling and embeddings as layers.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn = capl.nn
local error_text, close = support.error_text, support.close

local function lists(parts)
  local out = {}
  for i, part in ipairs(parts) do out[i] = part:tolist() end
  return out
end

-- What fn's error says must contain text.
local function fails_with(text, fn)
  local said = error_text(fn)
  assert.is_truthy(said:find(text, 1, true), said)
end

local function index(values) return capl.tensor(values, {dtype = "i32"}) end

describe("parts", function()
  it("are views of equal length, of given lengths, or single slices", function()
    local x = capl.arange(5):float()
    assert.same({{0, 1}, {2, 3}, {4}}, lists(x:split(2)))
    assert.same({{0}, {1, 2, 3, 4}}, lists(x:split{1, 4}))
    assert.same({{0, 1, 2}, {3, 4}}, lists(x:chunk(2)))
    assert.same({{0, 1}, {2, 3}, {4}}, lists(x:chunk(4))) -- as PyTorch: pieces of ceil(5 / 4)
    assert.same({{1, 3}, {2, 4}}, lists(capl.tensor{{1, 2}, {3, 4}}:unbind(2)))
    assert.same({0}, capl.zeros(0):split(3)[1].shape)
    local y = capl.ones(4):requires_grad_()
    y:split(3)[2]:sum():backward()
    assert.same({0, 0, 0, 1}, y.grad:tolist())
  end)

  it("refuse lengths that do not fit", function()
    assert.equal("LINE: bad argument #1 to 'split' (the lengths add up to 3, dim 1 has 5)",
      error_text(function() local y = capl.zeros(5):split{1, 2} return y end))
    assert.equal("LINE: bad argument #1 to 'chunk' (a number from 1 on expected, got 0)",
      error_text(function() local y = capl.zeros(5):chunk(0) return y end))
  end)
end)

describe("elements by index", function()
  local x = capl.tensor{{1, 2, 3}, {4, 5, 6}}

  it("are taken by values that count from 0, as argmax gives them", function()
    assert.same({{3, 1}, {6, 4}}, x:index_select(2, {2, 0}):tolist())
    assert.same({{3}, {6}}, x:gather(2, x:argmax(2, true)):tolist())
    assert.same({{1, 5, 3}}, x:gather(1, {{0, 1, 0}}):tolist())
  end)

  it("are written and added", function()
    assert.same({{9, 2, 3}, {4, 9, 6}}, x:scatter(2, index{{0}, {1}}, 9):tolist())
    assert.same({{1, 7, 3}, {8, 5, 6}}, x:scatter(2, {{1}, {0}}, capl.tensor{{7}, {8}}):tolist())
    assert.same({{1, 2, 13}, {4, 5, 6}}, x:scatter_add(2, {{2, 2}}, capl.tensor{{4, 6}}):tolist())
    assert.same({{1, 2, 3}, {4, 5, 6}}, x:tolist())
  end)

  it("say where an index is out of range", function()
    local text = error_text(function() local y = x:index_select(1, {1, 2}) return y end)
    assert.is_truthy(text:find("index[2] is 2, it must be in 0..1 (values count from 0)", 1, true), text)
    assert.is_truthy(text:find("subtract 1", 1, true), text)
  end)

  it("are named by numbers alone", function()
    fails_with("bad argument #2 to 'index_select' (a tensor or a list of numbers expected, got a string in it)",
      function() return (x:index_select(1, {"a"})) end)
    fails_with("index must be i32 or i64, it is f32", function() return (x:gather(2, x)) end)
  end)

  it("become rows of zeros with a one", function()
    assert.same({{0, 0, 1}, {1, 0, 0}, {0, 0, 0}}, index{2, 0, -1}:one_hot(3):tolist())
    assert.equal("i64", index{2}:one_hot(3).dtype)
    fails_with("class numbers are whole", function() return (x:one_hot(3)) end)
  end)

  it("are chosen by masks", function()
    assert.same({{1, 2, 3}, {0, 0, 0}}, x:masked_fill(x:gt(3), 0):tolist())
    assert.same({{-1, -1, -1}, {4, 5, 6}}, x:where(x:gt(3), -1):tolist())
  end)
end)

describe("other orders", function()
  it("turn, shift and repeat", function()
    local x = capl.tensor{{1, 2, 3}, {4, 5, 6}}
    assert.same({{6, 5, 4}, {3, 2, 1}}, x:flip(1, 2):tolist())
    assert.same({{3, 1, 2}, {6, 4, 5}}, x:roll(1, 2):tolist())
    assert.same({{2, 3, 1}, {5, 6, 4}}, x:roll(-1, 2):tolist())
    assert.same({{1, 2, 3, 1, 2, 3}, {4, 5, 6, 4, 5, 6}}, x:tile(1, 2):tolist())
    assert.same({1, 4, 3}, x:tile(1, 2, 1).shape)
    assert.same({0, 3}, x:tile(0, 1).shape)
    assert.same({2, 0}, x:tile(1, 0).shape)
    assert.same({0, 6}, capl.zeros(0, 3):tile(2, 2).shape)
    assert.same({1, 1, 2, 2}, capl.tensor{1, 2}:repeat_interleave(2):tolist())
    assert.same({{1, 1, 2, 2, 3, 3}, {4, 4, 5, 5, 6, 6}}, x:repeat_interleave(2, 2):tolist())
    assert.same({0, 3}, x:repeat_interleave(0).shape)
    local y = capl.tensor({1, 2}, {requires_grad = true})
    local loss = (y:flip(1) * capl.tensor{10, 20}):sum()
    loss:backward()
    assert.same({20, 10}, y.grad:tolist())
  end)

  it("repeat with gradients, as often as one likes", function()
    local y = capl.tensor({{1, 2}}, {requires_grad = true})
    local loss = (y:tile(2, 2) * capl.tensor{{1, 2, 3, 4}, {5, 6, 7, 8}}):sum()
    loss:backward()
    assert.same({{16, 20}}, y.grad:tolist())
    assert.same({20000}, capl.tensor{1, 2}:tile(10000).shape)
    assert.same({9000}, (capl.arange(9001):topk(9000)).shape)
  end)

  it("are filled once where a dim is broadcast", function()
    local x = capl.zeros(2, 1)
    x:expand(2, 2 ^ 40):fill_(3)
    assert.same({{3}, {3}}, x:tolist())
  end)
end)

describe("padding", function()
  local x = capl.tensor{{1, 2, 3}}

  it("puts elements around, the last dim first", function()
    assert.same({{0, 1, 2, 3, 0, 0}}, x:pad{1, 2}:tolist())
    assert.same({{7, 7, 7}, {1, 2, 3}}, x:pad({0, 0, 1, 0}, {value = 7}):tolist())
    assert.same({{2, 3}}, x:pad{-1, 0}:tolist())
    assert.same({{3, 2, 1, 2, 3, 2}}, x:pad({2, 1}, {mode = "reflect"}):tolist())
    assert.same({{1, 1, 1, 2, 3, 3}}, x:pad({2, 1}, {mode = "replicate"}):tolist())
    assert.same({{2, 3, 1, 2, 3, 1}}, x:pad({2, 1}, {mode = "circular"}):tolist())
  end)

  it("refuses what no mode can show", function()
    fails_with("has no more than 2 to show", function() return (x:pad({3, 0}, {mode = "reflect"})) end)
    fails_with("pairs {before, after} for at most 2 dims", function() return (x:pad{1}) end)
    fails_with("mode", function() return (x:pad({1, 1}, {mode = "mirror"})) end)
  end)
end)

describe("running sums and the largest", function()
  it("add up along a dim, with gradients", function()
    assert.same({{1, 3, 6, 10, 15}}, capl.tensor{{1, 2, 3, 4, 5}}:cumsum(2):tolist())
    local x = capl.ones(4):requires_grad_()
    x:cumsum():sum():backward()
    assert.same({4, 3, 2, 1}, x.grad:tolist())
  end)

  it("are found in order, with their places from 0", function()
    local x = capl.tensor({{3, 9, 5, 9}}, {requires_grad = true})
    local values, places = x:topk(3)
    assert.same({{9, 9, 5}}, values:tolist())
    assert.same({{1, 3, 2}}, places:tolist())
    values:sum():backward()
    assert.same({{0, 1, 1, 1}}, x.grad:tolist())
    assert.same({{3, 5}}, (x:topk(2, 2, {largest = false})):tolist())
    fails_with("1 to 4 of dim 2 can be chosen, got 5", function() return (x:topk(5)) end)
  end)

  it("measure and cut matrices", function()
    assert.equal(5, capl.tensor{3, -4}:norm():item())
    assert.equal(7, capl.tensor{3, -4}:norm(1):item())
    assert.equal(4, capl.tensor{3, -4}:norm(math.huge):item())
    assert.equal(50000, capl.tensor({30000, -40000}, {dtype = "f16"}):norm():item())
    local x = capl.ones(2, 3)
    assert.same({{1, 1, 1}, {0, 1, 1}}, x:triu():tolist())
    assert.same({{1, 1, 0}, {1, 1, 1}}, x:tril(1):tolist())
    assert.same({-1, 0, 1}, capl.linspace(-1, 1, 3):tolist())
  end)
end)

describe("resampling", function()
  it("makes images larger by size or by scale", function()
    local x = capl.arange(0, 4, 1, {dtype = "f32"}):view(1, 1, 2, 2)
    assert.same({{{{0, 0, 1, 1}, {0, 0, 1, 1}, {2, 2, 3, 3}, {2, 2, 3, 3}}}},
      nn.interpolate(x, {scale_factor = 2}):tolist())
    assert.same({1, 1, 3, 5}, nn.Upsample{size = {3, 5}, mode = "bilinear"}(x).shape)
    assert.equal("Upsample(3x5, bilinear)", tostring(nn.Upsample{size = {3, 5}, mode = "bilinear"}))
    -- 3 px * 1.5 = 4 px: the scale as given, or 4/3
    local line = capl.tensor{{{{0, 3, 6}}}}
    close({{{{0, 1.5, 3.5, 5.5}}}}, nn.interpolate(line, {scale_factor = {1, 1.5}, mode = "bilinear"}):tolist(), 1e-5)
    local recomputed = nn.interpolate(line, {scale_factor = {1, 1.5}, mode = "bilinear", recompute_scale_factor = true})
    close({{{{0, 1.875, 4.125, 6}}}}, recomputed:tolist(), 1e-5)
  end)

  it("refuses what contradicts itself", function()
    local x = capl.zeros(1, 1, 2, 2)
    fails_with("neither size nor scale_factor is given", function() return (nn.interpolate(x, {})) end)
    fails_with("both given", function() return (nn.interpolate(x, {size = 4, scale_factor = 2})) end)
    fails_with("bicubic", function() return (nn.interpolate(x, {size = 4, mode = "cubic"})) end)
    fails_with("a number above 0", function() return (nn.interpolate(x, {scale_factor = -1})) end)
  end)

  it("reads images through the grid of an affine map", function()
    local x = capl.rand{1, 2, 3, 4}
    local same = nn.affine_grid(capl.tensor{{{1, 0, 0}, {0, 1, 0}}}, {1, 2, 3, 4})
    close(x:tolist(), nn.grid_sample(x, same):tolist(), 1e-5)
    local turned = nn.affine_grid(capl.tensor{{{-1, 0, 0}, {0, 1, 0}}}, {1, 2, 3, 4}, {align_corners = true})
    close(x:flip(4):tolist(), nn.grid_sample(x, turned, {align_corners = true}):tolist(), 1e-5)
    fails_with("theta must be (N,2,3)", function() return (nn.affine_grid(capl.zeros(2, 3), {1, 1, 2, 2})) end)
  end)
end)

describe("embedding", function()
  it("gives each class number a vector, the padding one none", function()
    capl.manual_seed(3)
    local layer = nn.Embedding(5, 2, {padding_idx = 0})
    assert.equal("Embedding(5 x 2, padding 0)", tostring(layer))
    assert.same({0, 0}, layer.weight:tolist()[1])
    local y = layer(index{{0, 3}, {3, 1}})
    assert.same({2, 2, 2}, y.shape)
    assert.same(layer.weight:tolist()[4], y:tolist()[1][2])
    y:sum():backward()
    assert.same({{0, 0}, {1, 1}, {0, 0}, {2, 2}, {0, 0}}, layer.weight.grad:tolist())
    assert.equal("weight", (next(layer:state_dict())))
    assert.same(y:tolist(), nn.embedding(index{{0, 3}, {3, 1}}, layer.weight):tolist())
  end)

  it("names an index that has no row", function()
    local layer = nn.Embedding(5, 2)
    fails_with("index[2] is 5, it must be in 0..4", function() return (layer(index{1, 5})) end)
    fails_with("padding_idx 5 is outside 0..4", function() return (nn.Embedding(5, 2, {padding_idx = 5})) end)
  end)
end)
