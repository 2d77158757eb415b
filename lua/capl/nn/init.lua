-- nn: layers, losses, and classes for your own networks. PyTorch's names.
-- SPDX-License-Identifier: Apache-2.0
local classes = require "module_class"
local missing = require "missing"
local parameter = require "nn.parameter"
local readonly = require "readonly"

local nn = {
  Module = require "nn.module",
  Conv2d = require "nn.conv2d",
  ConvTranspose2d = require "nn.conv_transpose2d",
  Linear = require "nn.linear",
  PixelUnshuffle = require "nn.pixel_unshuffle",
  Ensemble = require "nn.ensemble",
  Parameter = parameter.Parameter,
  init = parameter.init,
  is_module = classes.is_module,
  summary = require "nn.summary",
  Checkpoint = require("nn.recompute").Checkpoint,
}

for _, part in ipairs{"nn.batchnorm", "nn.sync_batchnorm", "nn.activation", "nn.pooling", "nn.sampling", "nn.embedding",
  "nn.sequential", "nn.one_dim", "nn.shaping", "nn.loss", "nn.loss_values", "nn.loss_margins", "nn.dice", "nn.ctc",
  "nn.recurrent", "nn.layernorm",
  "nn.attention", "nn.padding", "nn.small"} do
  for name, value in pairs(require(part)) do nn[name] = value end
end

--- Losses under both kinds of names, as in PyTorch with "_loss" and short: mse_loss, nll, l1, smooth_l1, huber, focal,
-- sigmoid_focal, cosine_embedding, hinge_embedding, soft_margin, multi_margin, margin_ranking, triplet_margin,
-- gaussian_nll, poisson_nll, dice; binary_cross_entropy_with_logits is bce_with_logits.
for _, name in ipairs{"mse", "nll", "l1", "smooth_l1", "huber", "focal", "sigmoid_focal", "cosine_embedding",
  "hinge_embedding", "soft_margin", "multi_margin", "margin_ranking", "triplet_margin", "gaussian_nll", "poisson_nll",
  "dice"} do
  nn[name], nn[name .. "_loss"] = nn[name] or nn[name .. "_loss"], nn[name .. "_loss"] or nn[name]
end
nn.binary_cross_entropy_with_logits = nn.bce_with_logits

--- nn.class(name[, parent]) -> a class of modules; parent: nn.Module unless said.
function nn.class(name, parent) return readonly.leave_open(classes.class(name, parent or nn.Module)) end

require("arity").layers(nn)
missing.watch("nn.init", nn.init)
return missing.watch("nn", nn)
