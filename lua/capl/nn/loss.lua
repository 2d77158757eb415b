-- loss.lua: loss functions, and the same as modules.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "nn.class"
local Module = require "nn.module"
local settings = require "nn.settings"

local op = core.op
local loss = {}

local function two_tensors(fname, x, target)
  check.arg(1, fname, "tensor", x)
  check.arg(2, fname, "tensor", target)
end

-- Tells who watches of a loss; nn/expected.lua knows what it should be at first.
local function computed(name, value, x, target, o)
  if settings.on_loss then settings.on_loss(name, value, x, target, o) end
  return value
end

local ce_spec = {
  {"label_smoothing", "number", default = 0}, {"ignore_index", "whole", default = -100},
  {"reduction", "string", default = "mean"},
}

--- Mean cross-entropy of integer labels.
-- in   logits (N, K) or (N, K, …); labels (N) or (N, …) i32|i64 in 0..K-1
-- out  scalar f32; with reduction "none" one per label
-- opts label_smoothing = 0 (share spread over all classes), ignore_index = -100, reduction = "mean"|"sum"|"none"
-- errs shape: N differs; value: a label outside 0..K-1
-- eg   nn.cross_entropy(capl.zeros(2, 4), capl.tensor({0, 3}, {dtype = "i32"})):item()  --> 1.3862943611
function loss.cross_entropy(logits, labels, opts)
  two_tensors("cross_entropy", logits, labels)
  local o = check.options("cross_entropy", ce_spec, opts)
  local shape = labels.shape
  if logits.ndim > 2 then
    local order = {1}
    for d = 3, logits.ndim do order[#order + 1] = d end
    order[#order + 1] = 2
    logits = logits:permute(order):reshape(-1, logits:size(2))
    labels = labels:reshape(-1)
  end
  local out = computed("cross_entropy", op.cross_entropy(logits, labels, o), logits, labels, o)
  return o.reduction == "none" and #shape > 1 and out:reshape(shape) or out
end

local reduction_spec = {{"reduction", "string", default = "mean"}}

--- Binary cross-entropy of logits against targets in 0..1, mean over all elements.
-- in   x, target (…) alike
-- opts reduction = "mean"|"sum"|"none"
function loss.bce_with_logits(x, target, opts)
  two_tensors("bce_with_logits", x, target)
  local o = check.options("bce_with_logits", reduction_spec, opts)
  return computed("bce_with_logits", op.bce_with_logits(x, target, o), x, target, o)
end

--- Multi-label soft margin: binary cross-entropy of logits, mean over the K classes, then over N.
-- in   x, target (N, K)
-- opts reduction = "mean"|"sum"|"none"
function loss.multilabel_soft_margin(x, target, opts)
  two_tensors("multilabel_soft_margin", x, target)
  local o = check.options("multilabel_soft_margin", reduction_spec, opts)
  return computed("multilabel_soft_margin", op.multilabel_soft_margin(x, target, o), x, target, o)
end

--- Mean squared error.
-- in   x, target (…) alike
-- opts reduction = "mean"|"sum"|"none"
function loss.mse(x, target, opts)
  two_tensors("mse", x, target)
  local o = check.options("mse", reduction_spec, opts)
  return computed("mse", op.mse(x, target, o), x, target, o)
end

-- A module that holds the options of a loss function.
local function as_module(name, fn, spec)
  local class = classes.class(name, Module)
  function class:init(...)
    self.options = check.arguments("nn." .. name, spec, ...)
    if select("#", ...) > 0 and type((...)) ~= "table" then check.fail("nn." .. name, "options are given by name") end
  end
  function class:forward(x, target)
    local y = fn(x, target, self.options)
    return y
  end
  return class
end

--- CrossEntropyLoss, BCEWithLogitsLoss, MultiLabelSoftMarginLoss, MSELoss: the loss functions as modules, named as in
-- PyTorch; options go to the constructor.
loss.CrossEntropyLoss = as_module("CrossEntropyLoss", loss.cross_entropy, ce_spec)
loss.BCEWithLogitsLoss = as_module("BCEWithLogitsLoss", loss.bce_with_logits, reduction_spec)
loss.MultiLabelSoftMarginLoss = as_module("MultiLabelSoftMarginLoss", loss.multilabel_soft_margin, reduction_spec)
loss.MSELoss = as_module("MSELoss", loss.mse, reduction_spec)

return loss
