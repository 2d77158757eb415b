-- Losses: where numbers could turn into NaN, names and modules, what they say about bad input.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn = capl.nn
local error_text, close = support.error_text, support.close

local function says(fn, text)
  local message = error_text(fn)
  assert.truthy(message:find(text, 1, true), message)
end

local function ints(values) return capl.tensor(values, {dtype = "i32"}) end

local function grad_of(fn, values)
  local x = capl.tensor(values):requires_grad_()
  fn(x):backward()
  return x.grad:tolist()
end

describe("a loss", function()
  it("of a certain and right focal prediction is 0, of a wrong one finite", function()
    local x = capl.tensor{-500, 500, -500, 500}:requires_grad_()
    local value = nn.sigmoid_focal_loss(x, capl.tensor{0, 1, 1, 0}, {alpha = -1, gamma = 0.5, reduction = "sum"})
    value:backward()
    assert.equal(1000, value:item())
    assert.same({0, 0, -1, 1}, x.grad:tolist())
  end)

  it("of vectors of length 0 has cosine 0 and no NaN in the gradient", function()
    assert.equal(0, nn.cosine_similarity(capl.zeros(1, 3), capl.ones(1, 3)):item())
    assert.same({{0, 0}}, grad_of(function(x) return nn.cosine_similarity(x, capl.zeros(1, 2)):sum() end, {{0, 0}}))
    assert.same({{0, 0}}, grad_of(function(x)
      return nn.cosine_embedding_loss(x, capl.zeros(1, 2), capl.ones(1)) end, {{0, 0}}))
  end)

  it("of empty masks is a number, with and without smooth", function()
    local nothing = ints{{0, 0}, {0, 0}}:unsqueeze(1)
    for _, smooth in ipairs{0, 1} do
      local x = (capl.zeros(1, 2, 2, 2) - 50):requires_grad_()
      local value = nn.dice_loss(x, nothing, {smooth = smooth})
      value:backward()
      assert.is_true(value:item() >= 0 and value:item() <= 1)
      assert.equal(0, x.grad:ne(x.grad):int():sum():item())
      assert.is_true(nn.dice_loss(capl.zeros(1, 2, 2) - 500, capl.zeros(1, 2, 2), {smooth = smooth}):item() <= 1)
    end
  end)

  it("of probabilities 0 and 1 is finite", function()
    local p = capl.tensor{0, 1, 0, 1}:requires_grad_()
    local value = nn.binary_cross_entropy(p, capl.tensor{0, 1, 1, 0})
    value:backward()
    assert.equal(50, value:item())
    assert.same({0, 0}, {p.grad:tolist()[1], p.grad:tolist()[2]})
    assert.equal(0, nn.kl_div(capl.zeros(2, 2), capl.tensor{{0, 1}, {1, 0}}):item())
  end)

  it("of a far logit does not overflow", function()
    assert.equal(1000, nn.soft_margin_loss(capl.tensor{-1000}, capl.tensor{1}):item())
    assert.equal(1000, nn.bce_with_logits(capl.tensor{-1000}, capl.tensor{1}, {pos_weight = capl.ones(1)}):item())
  end)

  it("leaves ignored labels out of value, mean and gradient", function()
    local labels, weight = ints{1, -100, 0}, capl.tensor{1, 3}
    for _, name in ipairs{"cross_entropy", "nll_loss", "focal_loss"} do
      local x = capl.tensor{{0.5, 1}, {7, -7}, {0.25, -1}}:requires_grad_()
      local scores = name == "nll_loss" and x:log_softmax(2) or x
      local value = nn[name](scores, labels, {weight = weight})
      local kept = nn[name](capl.op.index_select(scores, ints{0, 2}, {dim = 1}), ints{1, 0}, {weight = weight})
      assert.is_true(math.abs(value:item() - kept:item()) < 1e-6, name)
      value:backward()
      assert.same({0, 0}, x.grad:tolist()[2], name)
    end
    local x = capl.randn(1, 3, 2, 2)
    local value = nn.dice_loss(x, ints{{{0, 1}, {2, 255}}}, {ignore_index = 255}):item()
    assert.is_true(value > 0 and value < 1)
  end)

  it("gives targets a gradient, or says that it has none", function()
    local x, t = capl.tensor{{0.5, -1}, {3, -2}}, capl.tensor{{0.25, 1}, {0.5, 0.75}}
    for _, attrs in ipairs{{}, {alpha = -1, gamma = 0.5}, {gamma = 0, reduction = "sum"}} do
      local function at(target) return nn.sigmoid_focal_loss(x, target, attrs) end
      local wanted = t:clone():detach():requires_grad_()
      local value = at(wanted)
      value:backward()
      assert.is_true(close(at(t):item(), value:item()))
      local step = capl.zeros(2, 2):add_(1e-3)
      local slope = (at(t + step):item() - at(t - step):item()) / 2e-3
      assert.is_true(math.abs(slope - wanted.grad:sum():item()) < 2e-3,
        ("%g, %g"):format(slope, wanted.grad:sum():item()))
    end
    local weight = capl.ones(2):requires_grad_()
    says(function() nn.cross_entropy(x:clone():requires_grad_(), ints{0, 1}, {weight = weight}):backward() end,
      "weight requires a gradient, which this loss does not have")
    says(function() capl.op.sigmoid_focal(x, t:clone():requires_grad_()):backward() end,
      "give it without its history: target:detach()")
  end)

  it("takes bytes as labels and masks", function()
    local logits, labels = capl.randn(2, 3, 4, 4), ints{0, 1}:reshape(2, 1, 1):expand(2, 4, 4)
    for _, name in ipairs{"cross_entropy", "focal_loss", "dice_loss"} do
      assert.is_true(close({nn[name](logits, labels):item()}, {nn[name](logits, labels:to("u8")):item()}, 1e-6), name)
    end
  end)

  it("has PyTorch's name, the short one, and a module", function()
    assert.equal(nn.smooth_l1, nn.smooth_l1_loss)
    assert.equal(nn.mse, nn.mse_loss)
    assert.equal(nn.nll, nn.nll_loss)
    assert.equal(0.5, nn.SmoothL1Loss()(capl.zeros(1), capl.ones(1)):item())
    assert.equal(4, nn.HuberLoss{delta = 2}(capl.zeros(1), capl.tensor{3}):item())
    assert.equal(2, nn.L1Loss{reduction = "sum"}(capl.zeros(2), capl.ones(2)):item())
    assert.equal(1, nn.TripletMarginLoss()(capl.zeros(1, 2), capl.zeros(1, 2), capl.zeros(1, 2)):item())
  end)
end)

describe("bad input of losses", function()
  it("names shapes that differ", function()
    says(function() nn.hinge_embedding_loss(capl.zeros(2, 3), capl.zeros(2)) end, "x is (2,3), target is (2)")
    says(function() nn.smooth_l1_loss(capl.zeros(2, 3), capl.zeros(3, 2)) end, "x is (2,3), target is (3,2)")
    says(function() nn.cross_entropy(capl.zeros(2, 3, 4), ints{0, 1}) end, "logits have 3 dims and labels 1")
    says(function() nn.cross_entropy(capl.zeros(2, 3, 4), ints{{0, 1}, {1, 0}}) end,
      "logits are (2,3,4) and labels (2,2)")
    says(function() nn.cross_entropy(capl.zeros(2, 3), capl.zeros(2, 4)) end, "logits is (2,3), target is (2,4)")
    says(function() nn.dice_loss(capl.zeros(2, 3, 4), capl.zeros(2)) end, "logits is (2,3,4), the mask is (2)")
    local labels = capl.zeros(2, 4, {dtype = "i32"})
    says(function() nn.dice_loss(capl.zeros(2, 3, 4), labels, {weight = capl.ones(2)}) end,
      "weight is (2), there are 3 classes")
    says(function() nn.multi_margin_loss(capl.zeros(2, 3, 4), ints{0, 1}) end, "they have 3 and 1 dims")
    says(function() nn.cosine_similarity(capl.zeros(2, 3), capl.zeros(2, 2)) end, "a is (2,3), b is (2,2)")
    says(function() nn.cosine_similarity(capl.zeros(2), capl.zeros(2)) end, "dim 2 is outside 1..1")
    local x = capl.zeros(2, 3)
    for _, var in ipairs{capl.ones(3), capl.ones(1), capl.tensor(1), capl.ones(3, 2), capl.ones(1, 2, 3)} do
      says(function() nn.gaussian_nll_loss(x, x, var) end,
        ("var is (%s), x is (2,3)"):format(table.concat(var.shape, ",")))
    end
  end)

  it("names probabilities and variances that are none", function()
    local half, inf = capl.full({2, 2}, 0.5), math.huge
    for _, device in ipairs{"cpu", "ref"} do
      for value, text in pairs{[1.5] = "1.5", [-0.25] = "-0.25", [inf] = "inf", [-inf] = "-inf"} do
        local x = capl.tensor({{0.5, 0}, {1, value}}, {device = device})
        local y = half:to(device)
        says(function() nn.binary_cross_entropy(x, y) end,
          "p[2][2] is " .. text .. ": it is a probability, from 0 to 1")
        says(function() nn.binary_cross_entropy(y, x) end, "target[2][2] is " .. text)
        says(function() nn.binary_cross_entropy(y, x:t()) end, "target[2][2] is " .. text)
        says(function() nn.binary_cross_entropy(x:double(), y:double()) end, "p[2][2] is " .. text)
        says(function() nn.binary_cross_entropy(x:bfloat16(), y) end, "p[2][2] is " .. text)
      end
    end
    says(function() nn.binary_cross_entropy(capl.tensor(2), capl.tensor(1)) end, "p is 2: it is a probability")
    says(function() nn.binary_cross_entropy(capl.full({2}, 0.5), capl.tensor({0, 255}, {dtype = "u8"})) end,
      "target[2] is 255")
    local far = capl.zeros(3000)
    far:narrow(1, 2500, 1):copy_(capl.tensor{2})
    says(function() nn.binary_cross_entropy(far, capl.zeros(3000)) end, "p[2500] is 2")
    says(function() nn.gaussian_nll_loss(half, half, -half) end, "var[1][1] is -0.5: it is a variance, from 0 on")
    local none = nn.binary_cross_entropy(capl.zeros(0, 3), capl.zeros(0, 3), {reduction = "sum"})
    assert.equal(0, none:item())
    local nan = nn.binary_cross_entropy(capl.tensor{0 / 0}, capl.zeros(1)):item()
    assert.is_true(nan ~= nan)
  end)

  it("names values that have no meaning", function()
    says(function() nn.l1_loss(capl.zeros(1), capl.zeros(1), {reduction = "average"}) end, "reduction")
    says(function() nn.kl_div(capl.zeros(1), capl.zeros(1), {reduction = "batch"}) end, "reduction")
    says(function() nn.huber_loss(capl.zeros(1), capl.zeros(1), {delta = 0}) end, "delta must be above 0, got 0")
    says(function() nn.multi_margin_loss(capl.zeros(1, 2), ints{0}, {p = 3}) end, "p is 1 or 2, got 3")
    says(function() nn.dice_loss(capl.zeros(1, 2), capl.zeros(1, 2), {smooth = -1}) end,
      "smooth must be a number from 0 on, got -1")
    says(function() nn.dice_loss(capl.zeros(1, 2), capl.zeros(1, 2), {weight = capl.ones(1)}) end,
      "weight is for classes")
    says(function() nn.nll_loss(capl.zeros(2, 3), capl.zeros(2)) end, "labels must be i32, i64 or u8, they are f32")
    says(function() nn.nll_loss(capl.zeros(2, 3), ints{0, 3}) end, "3")
    says(function() nn.focal_loss(capl.zeros(2, 3), ints{0, 3}) end, "labels[2] is 3")
    says(function() nn.FocalLoss(2) end, "options are given by name")
    says(function() nn.CrossEntropyLoss(capl.ones(3)) end, "options are given by name")
    says(function() nn.cross_entropy(capl.zeros(2, 3), ints{0, 1}, {size_average = true}) end, "size_average")
    says(function() nn.triplet_margin_loss(capl.zeros(2), capl.zeros(2), capl.zeros(2), {p = 0}) end,
      "p must be a number above 0, got 0")
    says(function() nn.TripletMarginLoss{margin = -1} end, "margin must be a number above 0, got -1")
  end)
end)
