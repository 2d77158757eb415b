-- batchnorm.lua: batch normalization over images or vectors.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local classes = require "module_class"
local parameter = require "nn.parameter"

local op = core.op

local spec = {
  positional = 1,
  {"num_features", "whole", required = true, from = 1}, {"eps", "number", default = 1e-5},
  {"momentum", "number", default = 0.1},
}

local BatchNorm = classes.class("BatchNorm", require "nn.module")
BatchNorm.keeps_f32 = true -- statistics need the bits
BatchNorm.statistics = {"running_mean", "running_var"} -- gathered from this rank's images alone
BatchNorm.counters = {batches = true} -- fields that change without the layer doing anything else than before

function BatchNorm:init(...)
  local o = check.arguments("nn." .. self.__name, spec, ...)
  self.num_features, self.eps, self.momentum = o.num_features, o.eps, o.momentum
  self.weight = parameter.constant(o.num_features, 1)
  self.bias = parameter.constant(o.num_features, 0)
  self:register_buffer("running_mean", core.zeros(o.num_features))
  self:register_buffer("running_var", core.ones(o.num_features))
  self:register_buffer("num_batches_tracked", core.zeros({}, {dtype = "i64"}))
  self.batches = 0 -- the number itself; the buffer is for PyTorch, and written when the state is taken
end

function BatchNorm:before_save() self.num_batches_tracked:fill_(self.batches) end

function BatchNorm:after_load() self.batches = self.num_batches_tracked:item() end

local function count_batch(self) self.batches = self.batches + 1 end

-- Counts the batch -> momentum and whether the batch's statistics are used. A frozen layer (train.freeze) uses its
-- running statistics in training, too.
local function begin(self)
  local again, training = observer.recomputing, self.training and not self.frozen -- again: the batch has been counted
  if training and not again then observer:each_time(count_batch, self) end
  return again and 0 or self.momentum, training
end

-- batch_norm, or bn_act if the op that reads its result next is relu or silu (engine/bind/core/peephole.c).
local function normalized(self, x)
  if not observer.fuse then return self:fused(x, "batch_norm") end
  local momentum, training = begin(self)
  local y = core.normalize(x, self.weight, self.bias, self.running_mean, self.running_var, self.eps, momentum, training)
  return y
end

-- Runs batch_norm or an op that begins with it; only its first output matters outside.
function BatchNorm:fused(x, name)
  local momentum, training = begin(self)
  local y, mean, invstd, reserve = op[name](x, self.weight, self.bias, self.running_mean, self.running_var,
    {eps = self.eps, momentum = momentum, training = training})
  mean:free()
  invstd:free()
  if reserve then reserve:free() end
  return y
end

function BatchNorm:extra() return tostring(self.num_features) end

--- Batch normalization of images, per channel.
-- in   x (N, C, H, W)
-- out  y like x: (x - mean) / sqrt(var + eps) * weight + bias; training: of the batch, else the running statistics
-- opts nn.BatchNorm2d(num_features, {eps = 1e-5, momentum = 0.1})
-- init weight 1, bias 0, running mean 0, running variance 1
-- errs shape: x has other than num_features channels. state: y was given to a ReLU or SiLU, which was fused, and is
--      read after the weights or x have changed; capl.fuse(false) fuses nothing
-- paper S. Ioffe, C. Szegedy: Batch normalization, 2015
-- eg   nn.BatchNorm2d(3)(capl.zeros(2, 3, 4, 4)):size(2)  --> 3
local BatchNorm2d = classes.class("BatchNorm2d", BatchNorm)
BatchNorm2d.pure = true

local function refuse(self, x, wanted)
  core.error{code = "shape", op = "nn." .. self.__name,
    message = ("x must be %s, got %s"):format(wanted, core.is_tensor(x) and core.describe(x) or core.typename(x))}
end

function BatchNorm2d:forward(x)
  if not core.is_tensor(x) or x.ndim ~= 4 then refuse(self, x, "(N,C,H,W)") end
  local y = normalized(self, x)
  return y
end

--- Batch normalization of vectors (N, C) or sequences (N, C, L); otherwise as nn.BatchNorm2d.
-- eg   nn.BatchNorm1d(3)(capl.zeros(2, 3)):size(2)  --> 3
local BatchNorm1d = classes.class("BatchNorm1d", BatchNorm)
BatchNorm1d.pure = true

function BatchNorm1d:forward(x)
  if not core.is_tensor(x) or (x.ndim ~= 2 and x.ndim ~= 3) then refuse(self, x, "(N,C) or (N,C,L)") end
  if x.ndim == 3 then return normalized(self, x:unsqueeze(3)):squeeze(3) end
  local y = normalized(self, x)
  return y
end

return {BatchNorm1d = BatchNorm1d, BatchNorm2d = BatchNorm2d}
