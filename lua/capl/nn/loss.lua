-- loss.lua: losses of classes and of probabilities, and the same as modules.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local parts = require "nn.loss_parts"

local op = core.op
local loss = {}
local computed, two_tensors = parts.computed, parts.tensors

local ce_spec = {
  {"weight", "tensor"}, {"label_smoothing", "number", default = 0}, {"ignore_index", "whole", default = -100},
  parts.reduction,
}

-- (N, K, …) as rows (N * …, K); of images, which are channels-last in memory, without a copy.
local function rows_of(logits)
  if logits.ndim == 2 then return logits end
  local order = {1}
  for d = 3, logits.ndim do order[#order + 1] = d end
  order[#order + 1] = 2
  return logits:permute(order):reshape(-1, logits:size(2))
end

-- The op on rows, with the shape of the labels given back; gamma as in focal loss.
local function of_labels(fname, logits, labels, o)
  local shape = labels.shape
  if logits.ndim == 1 and labels.ndim == 0 then logits, labels = logits:unsqueeze(1), labels:reshape(1) end
  if logits.ndim ~= labels.ndim + 1 then
    check.fail(fname, ("logits have %d dims and labels %d: there must be one more, the classes in dim 2"):format(logits.ndim, #shape))
  end
  for d = 1, labels.ndim do
    if labels:size(d) ~= logits:size(d == 1 and 1 or d + 1) then
      check.fail(fname, ("logits are (%s) and labels (%s): their sizes must be the same but for the classes in dim " ..
        "2"):format(
        table.concat(logits.shape, ","), table.concat(shape, ",")))
    end
  end
  if labels.dtype == "u8" then labels = labels:int() end
  local attrs = {label_smoothing = o.label_smoothing, ignore_index = o.ignore_index, reduction = o.reduction,
    gamma = o.gamma}
  local out = op.cross_entropy(rows_of(logits), labels:reshape(-1), o.weight, attrs)
  return o.reduction == "none" and #shape ~= 1 and out:reshape(shape) or out
end

-- Targets that are shares of each class, (N, K, …) as the logits; a mean is over the places, not the classes.
local function of_shares(logits, target, o)
  local dim = logits.ndim == 1 and 1 or 2
  local classes = logits:size(dim)
  parts.alike("cross_entropy", logits, "logits", target, "target")
  if o.label_smoothing > 0 then target = target * (1 - o.label_smoothing) + o.label_smoothing / classes end
  if o.weight then
    local shape = {classes}
    for d = dim + 1, logits.ndim do shape[d - dim + 1] = 1 end
    target = target * o.weight:reshape(shape)
  end
  local each = -(parts.wide(logits):log_softmax(dim) * target):sum(dim)
  return parts.reduce("cross_entropy", each, o.reduction)
end

local function is_float(x) return x.dtype == "f32" or x.dtype == "f16" or x.dtype == "bf16" or x.dtype == "f64" end

--- Mean cross-entropy of labels, or of shares of the classes.
-- in   logits (N, K) or (N, K, …); labels (N) or (N, …) i32|i64|u8 in 0..K-1, or floats like logits: the share of each
--      class
-- out  scalar f32; with reduction "none" one per label
-- opts weight (K, of the classes; a mean is then by the weights of the labels), label_smoothing = 0 (share spread over
--      all classes), ignore_index = -100, reduction = "mean"|"sum"|"none"
-- errs shape: N differs; value: a label outside 0..K-1
-- eg   nn.cross_entropy(capl.zeros(2, 4), capl.tensor({0, 3}, {dtype = "i32"})):item()  --> 1.3862943611
function loss.cross_entropy(logits, labels, opts)
  two_tensors("cross_entropy", logits, labels)
  local o = check.options("cross_entropy", ce_spec, opts)
  local out
  if is_float(labels) and labels.ndim == logits.ndim then out = of_shares(logits, labels, o)
  else out = of_labels("cross_entropy", logits, labels, o) end
  return computed("cross_entropy", out, logits, labels, o)
end

local nll_spec = {{"weight", "tensor"}, {"ignore_index", "whole", default = -100}, parts.reduction}

--- Negative log-likelihood: what log_softmax gave to each label, negated.
-- in   log_probs (N, K) or (N, K, …); labels (N) or (N, …); of one sample (K) and a label without dims
-- opts weight (K), ignore_index = -100, reduction = "mean" (by the weights of the labels)|"sum"|"none"
-- eg   nn.nll_loss(capl.zeros(2, 4):log_softmax(2), capl.tensor({0, 3}, {dtype = "i32"})):item()  --> 1.3862943611
function loss.nll_loss(log_probs, labels, opts)
  two_tensors("nll_loss", log_probs, labels)
  local o = check.options("nll_loss", nll_spec, opts)
  check.one_of("nll_loss", "reduction", o.reduction, {"mean", "sum", "none"})
  if log_probs.ndim == 1 and labels.ndim == 0 then
    local one = loss.nll_loss(log_probs:unsqueeze(1), labels:unsqueeze(1), opts)
    return o.reduction == "none" and one:reshape{} or one
  end
  local index, counts = parts.labels("nll_loss", labels, o.ignore_index)
  local x = parts.wide(log_probs)
  local weight = counts:to(x.dtype)
  if o.weight then
    weight = weight * op.index_select(o.weight, index:reshape(-1), {dim = 1}):reshape(index.shape):to(x.dtype)
  end
  local each = -parts.at_label(x, index) * weight
  if o.reduction == "none" then return each end
  return o.reduction == "sum" and each:sum() or each:sum() / weight:sum()
end

local bce_spec = {{"weight", "tensor"}, {"pos_weight", "tensor"}, parts.reduction}

--- Binary cross-entropy of logits against targets in 0..1, mean over all elements.
-- in   x, target (…) alike
-- opts weight (of the elements, broadcast), pos_weight (of targets 1, broadcast), reduction = "mean"|"sum"|"none"
-- eg   nn.bce_with_logits(capl.zeros(2), capl.ones(2)):item()  --> 0.69314718
function loss.bce_with_logits(x, target, opts)
  two_tensors("bce_with_logits", x, target)
  local o = check.options("bce_with_logits", bce_spec, opts)
  if not o.weight and not o.pos_weight then
    return computed("bce_with_logits", op.bce_with_logits(x, target, {reduction = o.reduction}), x, target, o)
  end
  parts.alike("bce_with_logits", x, "x", target, "target")
  local wide, t = parts.wide(x), target
  if not is_float(t) then t = t:to(wide.dtype) end
  local positive = o.pos_weight and (o.pos_weight - 1) * t + 1
  local log_p = wide:log_sigmoid()
  local each = (1 - t) * wide - (positive and positive * log_p or log_p)
  if o.weight then each = each * o.weight end
  return computed("bce_with_logits", parts.reduce("bce_with_logits", each, o.reduction), x, target, o)
end

-- log(p), -100 at the least, as PyTorch has it.
local function log_of(p) return p:log():clamp(-100) end

-- Value of each element. Its slope by p is (p - t) / (p (1 - p)), by t log((1 - p) / p): taken from there and not from
-- the logarithms, whose slopes at 0 and 1 are infinite; p (1 - p) is 1e-12 at the least.
local function bce_each(p, t)
  local each, by_p, by_t = core.no_grad(function()
    local log_p, log_q = log_of(p), log_of(1 - p)
    return -(t * log_p + (1 - t) * log_q), p.requires_grad and (p - t) / (p * (1 - p)):clamp(1e-12),
      t.requires_grad and (1 - p):log():clamp(-1e30) - p:log():clamp(-1e30)
  end)
  if by_p then each = each + (p - p:detach()) * by_p end
  if by_t then each = each + (t - t:detach()) * by_t end
  return each
end

--- Binary cross-entropy of probabilities; bce_with_logits is more exact. Logarithms are at least -100.
-- in   p (…) in 0..1; target alike
-- errs value: a p or a target outside of 0..1; on a GPU, which cannot raise that, the loss is NaN
-- opts weight (broadcast), reduction = "mean"|"sum"|"none"
-- eg   nn.binary_cross_entropy(capl.full({2}, 0.5), capl.ones(2)):item()  --> 0.69314718
function loss.binary_cross_entropy(p, target, opts)
  two_tensors("binary_cross_entropy", p, target)
  local o = check.options("binary_cross_entropy", {{"weight", "tensor"}, parts.reduction}, opts)
  parts.alike("binary_cross_entropy", p, "p", target, "target")
  local x = parts.in_range("binary_cross_entropy", parts.wide(p), "p", 0, 1, "is a probability, from 0 to 1",
    "nn.bce_with_logits takes scores of any size; or p:sigmoid()")
  local t = is_float(target) and parts.wide(target) or target:to(x.dtype)
  t = parts.in_range("binary_cross_entropy", t, "target", 0, 1, "is a probability, from 0 to 1",
    "masks of 0 and 255: target / 255")
  local each = bce_each(x, t)
  if o.weight then each = each * o.weight end
  return parts.reduce("binary_cross_entropy", each, o.reduction)
end

--- Multi-label soft margin: binary cross-entropy of logits, mean over the K classes, then over N.
-- in   x, target (N, K)
-- opts reduction = "mean"|"sum"|"none"
-- eg   nn.multilabel_soft_margin(capl.zeros(1, 3), capl.ones(1, 3)):item()  --> 0.69314718
function loss.multilabel_soft_margin(x, target, opts)
  two_tensors("multilabel_soft_margin", x, target)
  local o = check.options("multilabel_soft_margin", {parts.reduction}, opts)
  return computed("multilabel_soft_margin", op.multilabel_soft_margin(x, target, o), x, target, o)
end

local sigmoid_focal_spec = {{"alpha", "number", default = 0.25}, {"gamma", "number", default = 2}, parts.reduction}

-- The same in simpler ops, which have a gradient for the target, too.
local function focal_in_parts(x, t, o)
  x, t = parts.wide(x), parts.wide(t)
  local each = op.bce_with_logits(x, t, {reduction = "none"})
  if o.gamma ~= 0 then each = each * (x:sigmoid() * (1 - t) + (-x):sigmoid() * t) ^ o.gamma end
  if o.alpha >= 0 then each = each * (t * (2 * o.alpha - 1) + (1 - o.alpha)) end
  return parts.reduce("sigmoid_focal_loss", each, o.reduction)
end

--- Focal loss of logits against targets in 0..1: bce_with_logits times (1 - p)^gamma, so that what is easy counts
-- little.
-- in   x, target (…) alike
-- opts alpha = 0.25 (weight of targets 1, with 1 - alpha for 0; below 0: none), gamma = 2, reduction =
--      "mean"|"sum"|"none"
-- paper T.-Y. Lin and others: Focal loss for dense object detection, 2017
-- eg   nn.sigmoid_focal_loss(capl.zeros(4), capl.ones(4)):item()  --> 0.0433216988
function loss.sigmoid_focal_loss(x, target, opts)
  two_tensors("sigmoid_focal_loss", x, target)
  local o = check.options("sigmoid_focal_loss", sigmoid_focal_spec, opts)
  if not is_float(target) then target = target:float() end
  local out = target.requires_grad and focal_in_parts(x, target, o) or op.sigmoid_focal(x, target, o)
  return computed("sigmoid_focal_loss", out, x, target, o)
end

local focal_spec = {
  {"gamma", "number", default = 2}, {"weight", "tensor"}, {"ignore_index", "whole", default = -100}, parts.reduction,
}

--- Focal loss of classes: cross_entropy times (1 - p)^gamma of the label's probability p.
-- in   logits (N, K) or (N, K, …); labels (N) or (N, …) i32|i64|u8
-- opts gamma = 2, weight (K: the alpha of each class), ignore_index = -100, reduction = "mean" (over the labels that
--      count, whatever they weigh)|"sum"|"none"
-- paper T.-Y. Lin and others: Focal loss for dense object detection, 2017
-- eg   nn.focal_loss(capl.zeros(1, 2), capl.tensor({0}, {dtype = "i32"})):item()  --> 0.1732867951
function loss.focal_loss(logits, labels, opts)
  two_tensors("focal_loss", logits, labels)
  local o = check.options("focal_loss", focal_spec, opts)
  check.one_of("focal_loss", "reduction", o.reduction, {"mean", "sum", "none"})
  local by_weight = o.reduction == "mean" and o.weight
  local out = of_labels("focal_loss", logits, labels,
    {weight = o.weight, gamma = o.gamma, ignore_index = o.ignore_index, reduction = by_weight and "sum" or o.reduction,
    label_smoothing = 0})
  if by_weight then
    if labels.dtype == "u8" then labels = labels:int() end
    out = out / labels:ne(o.ignore_index):float():sum()
  end
  return computed("focal_loss", out, logits, labels, o)
end

--- CrossEntropyLoss, NLLLoss, BCEWithLogitsLoss, BCELoss, MultiLabelSoftMarginLoss, SigmoidFocalLoss, FocalLoss: the
-- loss functions as modules, named as in PyTorch; options go to the constructor: nn.CrossEntropyLoss{weight = w}.
loss.CrossEntropyLoss = parts.module("CrossEntropyLoss", loss.cross_entropy, ce_spec)
loss.NLLLoss = parts.module("NLLLoss", loss.nll_loss, nll_spec)
loss.BCEWithLogitsLoss = parts.module("BCEWithLogitsLoss", loss.bce_with_logits, bce_spec)
loss.BCELoss = parts.module("BCELoss", loss.binary_cross_entropy, {{"weight", "tensor"}, parts.reduction})
loss.MultiLabelSoftMarginLoss = parts.module("MultiLabelSoftMarginLoss", loss.multilabel_soft_margin, {parts.reduction})
loss.SigmoidFocalLoss = parts.module("SigmoidFocalLoss", loss.sigmoid_focal_loss, sigmoid_focal_spec)
loss.FocalLoss = parts.module("FocalLoss", loss.focal_loss, focal_spec)

return loss
