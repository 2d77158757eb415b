-- nn: layers, losses, and classes for your own networks. PyTorch's names.
-- SPDX-License-Identifier: Apache-2.0
local classes = require "nn.class"
local parameter = require "nn.parameter"

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
  Checkpoint = require("recompute").Checkpoint,
}

for _, part in ipairs{"nn.batchnorm", "nn.activation", "nn.pooling", "nn.sampling", "nn.embedding",
  "nn.sequential", "nn.loss", "nn.ctc", "nn.recurrent",
  "nn.layernorm"} do
  for name, value in pairs(require(part)) do nn[name] = value end
end

--- nn.class(name[, parent]) -> a class of modules; parent: nn.Module unless said.
function nn.class(name, parent) return classes.class(name, parent or nn.Module) end

return nn
