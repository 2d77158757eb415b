-- Losses on a GPU: many rows, many classes, every reduction, and labels that are no class.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "cuda.ops.support"

local normal, whole, same, text = support.normal, support.whole, support.same, support.text

local function number(t) return t:to("ref"):item() end

for i, size in ipairs {{600, 36}, {3, 1500}, {300, 33}, {500, 1}} do
  local label_dtype = i % 2 == 0 and "i64" or "i32"
  for _, reduction in ipairs {"mean", "sum", "none"} do
    it(("cross-entropy of %s rows, %s labels, %s"):format(text(size), label_dtype, reduction), function()
      local attrs = {reduction = reduction, label_smoothing = i % 2 == 0 and 0.1 or 0, ignore_index = 2}
      local labels = whole({size[1]}, label_dtype, 3, 0, size[2] - 1)
      local dloss = reduction == "none" and normal({size[1]}, "f32", 4) or normal({}, "f32", 4)
      for _, dtype in ipairs {"f32", i % 2 == 0 and "f16" or "bf16"} do
        local logits = normal(size, dtype, 1, 0, 3)
        same("cross_entropy", {logits, labels}, attrs)
        same("cross_entropy_grad", {logits, labels, dloss}, attrs)
      end
    end)
  end
end

describe("cross-entropy", function()
  it("is NaN for a label that is no class, in that row alone", function()
    local logits, labels = normal({40, 7}, "f32"), whole({40}, "i64", 3, 0, 6)
    for row, label in pairs {[5] = 7, [9] = -1, [30] = 2 ^ 40} do labels:set(row, label) end
    logits, labels = logits:to("cuda"), labels:to("cuda")
    local each = capl.op.cross_entropy(logits, labels, {reduction = "none"}):to("ref"):tolist()
    local dloss = capl.ones(40, {device = "cuda"})
    local slopes = capl.op.cross_entropy_grad(logits, labels, dloss, {reduction = "none"}):to("ref"):tolist()
    for row = 1, 40 do
      local bad = row == 5 or row == 9 or row == 30
      assert.equal(bad, each[row] ~= each[row], "row " .. row)
      for k = 1, 7 do assert.equal(bad, slopes[row][k] ~= slopes[row][k], ("row %d, class %d"):format(row, k)) end
    end
    local mean = number(capl.op.cross_entropy(logits, labels))
    assert.is_true(mean ~= mean)
  end)

  it("of nothing but ignored rows is NaN as a mean and 0 as a sum", function()
    local logits, labels = normal({300, 4}, "f32"), whole({300}, "i32", 1, 0, 0) - 100
    same("cross_entropy", {logits, labels}, {reduction = "mean"})
    same("cross_entropy", {logits, labels}, {reduction = "sum"})
    same("cross_entropy_grad", {logits, labels, capl.ones({}, {device = "ref"})}, {reduction = "mean"})
  end)

  it("charges nothing for a logit of -inf off the target", function()
    local logits = normal({50, 9}, "f32")
    for row = 1, 50 do logits:set(row, 9, -math.huge) end
    same("cross_entropy", {logits, whole({50}, "i32", 3, 0, 7)}, {})
  end)
end)

for i, size in ipairs {{200, 144}, {33, 7, 5}, {6000}} do
  for _, reduction in ipairs {"mean", "sum", "none"} do
    it(("losses of %s elements, %s"):format(text(size), reduction), function()
      local attrs = {reduction = reduction}
      local dloss = reduction == "none" and normal(size, "f32", 4) or normal({}, "f32", 4)
      for _, dtype in ipairs {"f32", i % 2 == 0 and "f16" or "bf16"} do
        local x = normal(size, dtype, 1, 0, 4)
        for _, target in ipairs {normal(size, "f32", 2):sigmoid(), whole(size, ({"u8", "i64", "bool"})[i], 2, 0, 1)} do
          same("bce_with_logits", {x, target}, attrs)
          same("bce_with_logits_grad", {x, target, dloss}, attrs)
          if target.dtype ~= "bool" then same("mse", {x, target}, attrs) end
          if #size == 2 then same("multilabel_soft_margin", {x, target}, attrs) end
        end
      end
    end)
  end
end

it("probabilities and variances out of range make that element NaN", function()
  local nn, inf = capl.nn, math.huge
  local function bad(values)
    local out = {}
    for i, v in ipairs(values:to("ref"):tolist()) do out[i] = v ~= v end
    return out
  end
  local x, half = capl.tensor({0, 1.5, -0.5, 1, inf, 0.25}, {device = "cuda"}), capl.full({6}, 0.5, {device = "cuda"})
  local wrong = {false, true, true, false, true, false}
  assert.same(wrong, bad(nn.binary_cross_entropy(x, half, {reduction = "none"})))
  assert.same(wrong, bad(nn.binary_cross_entropy(half, x, {reduction = "none"})))
  assert.same({false, false, true, false, false, false},
    bad(nn.gaussian_nll_loss(half, half, capl.tensor({0, 1.5, -0.5, 1, 2, 0.25}, {device = "cuda"}),
    {reduction = "none"})))
  local p = capl.tensor({0, 1, 0.5}, {device = "cuda"}):requires_grad_()
  nn.binary_cross_entropy(p, capl.tensor({0, 1, 1}, {device = "cuda"}), {reduction = "sum"}):backward()
  assert.same({0, 0, -2}, p.grad:to("ref"):tolist())
end)

describe("a loss of 16-bit predictions", function()
  local labels = whole({50}, "i32", 3, 0, 8):to("cuda")
  local targets = normal({50, 9}, "f32", 5):to("cuda"):sigmoid()
  local losses = {
    cross_entropy = function(x) return capl.nn.cross_entropy(x, labels, {label_smoothing = 0.1}) end,
    bce_with_logits = function(x) return capl.nn.bce_with_logits(x, targets, {reduction = "sum"}) end,
    multilabel_soft_margin = function(x) return capl.nn.multilabel_soft_margin(x, targets) end,
    ["multilabel_soft_margin of rows"] = function(x)
      return capl.nn.multilabel_soft_margin(x, targets, {reduction = "none"}):sum()
    end,
  }
  for name, loss_of in pairs(losses) do
    for _, dtype in ipairs {"bf16", "f16"} do
      it(("%s has the bits of one that is cast: %s"):format(dtype, name), function()
        local results = {}
        for k, cast in ipairs {false, true} do
          local x = normal({50, 9}, dtype, 1, 0, 3):to("cuda"):requires_grad_()
          local loss = loss_of(cast and x:float() or x)
          assert.equal("f32", loss.dtype)
          loss:backward()
          results[k] = {loss:item(), x.grad.dtype, x.grad:float():tolist()}
        end
        assert.same(results[2], results[1])
      end)
    end
  end
end)
