-- expected.lua: what each loss is before anything was learnt, so that a run can see at its first step that something is off.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

-- Classes that logits (N, K) or (N, K, …) choose among.
local function classes_of(x) return x.shape[2] or 1 end

-- Mean squared distance of the targets from their mean: what the best constant answer gives.
local function variance(target)
  return core.no_grad(function()
    local values = target:to("f32"):reshape(-1)
    return values:numel() > 1 and values:var(nil, {unbiased = false}):item() or 0
  end)
end

-- By name of the loss: function(x, target) -> number, the same as words; high, low: what it may mean when it is another.
local expected = {
  cross_entropy = {
    of = function(x)
      local K = classes_of(x)
      return math.log(K), ("ln %d = %.2f, that of %d classes that are all as likely"):format(K, math.log(K), K)
    end,
    high = "are the logits of the last layer far too large (an init that was lost, or applied twice), or already a softmax of something?",
    low = "does the batch hold one class alone, does the input give the label away, or was the model trained before?",
  },
  bce_with_logits = {
    of = function() return math.log(2), "ln 2 = 0.69, that of logits around 0" end,
    high = "are the logits of the last layer far too large (an init that was lost, or a bias for rare classes that was wiped)?",
    low = "was the last bias set for rare classes, or was the model trained before?",
  },
  mse = {
    of = function(_, target)
      local value = variance(target)
      return value, ("%.3g, the variance of the targets"):format(value)
    end,
    high = "are the targets far from 0? Subtract their mean and divide by their standard deviation",
    low = "is the target part of the input, or was the model trained before?",
  },
}
expected.multilabel_soft_margin = expected.bce_with_logits

return expected
