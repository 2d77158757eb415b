-- dice.lua: the dice loss of segmentation: how little a prediction and a mask overlap.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local parts = require "nn.loss_parts"

local op = core.op
local dice = {}

local spec = {
  {"smooth", "number", default = 1, from = 0}, {"weight", "tensor"}, {"ignore_index", "whole", default = -100},
  {"from_logits", "boolean", default = true}, {"per_image", "boolean", default = false}, parts.reduction,
}

-- 1 - dice from areas. Without a smooth number two empty regions overlap as little as can be, but not NaN.
local function loss_of(overlap, predicted, labelled, smooth)
  return 1 - (overlap * 2 + smooth) / (predicted + labelled + smooth):clamp(1e-7)
end

-- (N, K, …) as (N, places, K); of images, which are channels-last in memory, without a copy.
local function places_of(logits)
  local order = {1}
  for d = 3, logits.ndim do order[#order + 1] = d end
  order[#order + 1] = 2
  return logits:permute(order):reshape(logits:size(1), -1, logits:size(2))
end

-- Labels (N, …) must have the sizes of logits (N, K, …).
local function check_sizes(logits, labels)
  for d = 1, labels.ndim do
    if labels:size(d) ~= logits:size(d == 1 and 1 or d + 1) then
      check.fail("dice_loss", ("logits are (%s) and labels (%s): their sizes must be the same but for the classes " ..
        "in dim 2"):format(
        table.concat(logits.shape, ","), table.concat(labels.shape, ",")))
    end
  end
end

local function of_classes(logits, labels, o)
  local K = logits:size(2)
  check_sizes(logits, labels)
  if labels.dtype == "u8" then labels = labels:int() end
  local sums = op.dice_sums(places_of(logits), labels:reshape(labels:size(1), -1),
    {activation = o.from_logits and "softmax" or "none", ignore_index = o.ignore_index})
  if not o.per_image then sums = sums:sum(1, true) end
  local each = loss_of(sums:select(2, 1), sums:select(2, 2), sums:select(2, 3), o.smooth)
  if not o.per_image then each = each:reshape(K) end
  if not o.weight then return each end
  if o.weight.ndim ~= 1 or o.weight:size(1) ~= K then
    check.fail("dice_loss", ("weight is (%s), there are %d classes"):format(table.concat(o.weight.shape, ","), K))
  end
  return each * (o.weight * K / o.weight:sum()) -- a mean is then by the weights
end

local function of_mask(logits, mask, o)
  if o.weight then check.fail("dice_loss", "weight is for classes: logits (N,K,…), labels (N,…)") end
  local x = parts.wide(logits)
  local t = mask:to(x.dtype)
  local p = o.from_logits and x:sigmoid() or x
  if o.ignore_index >= 0 then
    local keep = mask:ne(o.ignore_index):to(x.dtype)
    p, t = p * keep, t * keep
  end
  local dims = {}
  for d = o.per_image and 2 or 1, x.ndim do dims[#dims + 1] = d end
  return loss_of((p * t):sum(dims), p:sum(dims), t:sum(dims), o.smooth)
end

--- Dice loss: 1 - (2 overlap + smooth) / (area of the prediction + area of the mask + smooth), for each class.
-- in   logits (N, K, …) with labels (N, …) i32|i64|u8 in 0..K-1; or logits (N, …) with a mask alike, of 0 and 1
-- out  scalar; with reduction "none" one per class, (N, K) or (N) with per_image
-- opts smooth = 1, weight (K: a mean is by the weights), ignore_index = -100 (a mask has none below 0), from_logits =
--      true (false: they are probabilities already), per_image = false (true: areas are those of an image, not of the
--      batch), reduction = "mean"|"sum"|"none"
-- paper F. Milletari, N. Navab, S.-A. Ahmadi: V-Net, 2016
-- eg   nn.dice_loss(capl.zeros(1, 2, 2, 2), capl.zeros(1, 2, 2, {dtype = "i32"}), {smooth = 0}):item()  --> 0.6666666667
function dice.dice_loss(logits, labels, opts)
  parts.tensors("dice_loss", logits, labels)
  local o = check.options("dice_loss", spec, opts)
  local classes = logits.ndim == labels.ndim + 1
  if not classes then parts.alike("dice_loss", logits, "logits", labels, "the mask") end
  local each = classes and of_classes(logits, labels, o) or of_mask(logits, labels, o)
  local out = parts.reduce("dice_loss", each, o.reduction)
  return parts.computed("dice_loss", out, logits, labels, o)
end

--- DiceLoss: the same as a module.
dice.DiceLoss = parts.module("DiceLoss", dice.dice_loss, spec)

return dice
