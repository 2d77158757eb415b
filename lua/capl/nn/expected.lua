-- expected.lua: what each loss is before anything was learned, so that a run can see at its first step that something
-- is off.
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

-- ln of the number of paths that spell a text of L characters, of which r equal the one before, in T time steps: each
-- choice of where its 2 L runs of characters and blanks begin is one, C(T + L - r, 2 L) in all. nil: no path spells it.
local function log_paths(T, L, r)
  if T < L + r then return nil end
  local n, k, sum = T + L - r, 2 * L, 0
  for i = 1, math.min(k, n - k) do sum = sum + math.log((n - i + 1) / i) end
  return sum
end

-- Characters of row i of targets that equal the one before.
local function repeats(targets, i, length)
  local count = 0
  for place = 2, length do
    if targets[i][place] == targets[i][place - 1] then count = count + 1 end
  end
  return count
end

local function numbers(lengths) return core.is_tensor(lengths) and lengths:tolist() or lengths end

-- CTC's loss of each text, where each class is as likely at each of its time steps; one that no path spells counts as
-- 0.
local function ctc_loss(x, targets, o, more)
  local K, steps, lengths = x.shape[3], numbers(more.input_lengths), numbers(more.target_lengths)
  local rows, sum = targets.ndim == 2 and targets:tolist() or {}, 0
  for i, T in ipairs(steps) do
    local L = lengths[i]
    local paths = log_paths(T, L, repeats(rows, i, L))
    if paths then sum = sum + (T * math.log(K) - paths) / (o.reduction == "mean" and math.max(L, 1) or 1) end
  end
  local value = sum / math.max(#steps, 1)
  return value, ("%.3g, that of %d time steps of %d classes that are all as likely"):format(value, x.shape[1], K)
end

-- By name of the loss: function(x, target, options, more: further arguments of the loss) -> number, the same as words;
-- high, low: what it may mean when it is another; negative: when it is less than 0, where a loss cannot be.
local expected = {
  cross_entropy = {
    of = function(x)
      local K = classes_of(x)
      return math.log(K), ("ln %d = %.2f, that of %d classes that are all as likely"):format(K, math.log(K), K)
    end,
    high = "are the logits of the last layer far too large (an init that was lost, or applied twice), or already a " ..
    "softmax of something?",
    low = "does the batch hold one class alone, does the input give the label away, or was the model trained before?",
  },
  bce_with_logits = {
    of = function() return math.log(2), "ln 2 = 0.69, that of logits around 0" end,
    high = "are the logits of the last layer far too large (an init that was lost, or a bias for rare classes that " ..
    "was wiped)?",
    low = "was the last bias set for rare classes, or was the model trained before?",
  },
  ctc_loss = {
    of = ctc_loss,
    high = "are the logits of the last layer far too large, or was log_softmax taken over another dim than the " ..
    "classes?",
    low = "was the model trained before, do most texts have no path, or is none of them longer than 0?",
    negative = "log_probs are no log probabilities: give scores:log_softmax(-1), neither scores nor softmax",
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
