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
  {"momentum", "number", "boolean", default = 0.1, from = 0, to = 1}, {"affine", "boolean", default = true},
  {"bias", "boolean", default = true},
  {"track_running_stats", "boolean", default = true},
}

local BatchNorm = classes.class("BatchNorm", require "nn.module")
BatchNorm.keeps_f32 = true -- statistics need the bits
BatchNorm.statistics = {"running_mean", "running_var"} -- gathered from this rank's images alone
BatchNorm.counters = {batches = true} -- fields that change without the layer doing anything else than before

function BatchNorm:init(...)
  local o = check.arguments("nn." .. self.__name, spec, ...)
  if o.momentum == true then
    check.fail("nn." .. self.__name, "momentum is a number, or false: the running statistics are then plain means")
  end
  self.num_features, self.eps, self.momentum = o.num_features, o.eps, o.momentum
  self.constants = {} -- what stands for a weight or bias that is not there, by device and dtype
  if o.affine then self.weight = parameter.constant(o.num_features, 1) end
  if o.affine and o.bias then self.bias = parameter.constant(o.num_features, 0) end
  if not (self.bias and o.track_running_stats) then
    self.alone = "affine = false, bias = false or track_running_stats = false"
  end
  if o.track_running_stats then self:track() else self.statistics = {} end
end

-- Running statistics, which are those of evaluation.
function BatchNorm:track()
  self:register_buffer("running_mean", core.zeros(self.num_features))
  self:register_buffer("running_var", core.ones(self.num_features))
  self:register_buffer("num_batches_tracked", core.zeros({}, {dtype = "i64"}))
  self.batches = 0 -- the number itself; the buffer is for PyTorch, and written when the state is taken
end

function BatchNorm:before_save()
  if self.running_mean then self.num_batches_tracked:fill_(self.batches) end
end

function BatchNorm:after_load()
  if self.running_mean then self.batches = self.num_batches_tracked:item() end
end

local function count_batch(self) self.batches = self.batches + 1 end

--- The share of this batch, already counted, in the running statistics; without a momentum all batches have the same.
function BatchNorm:batch_share() return self.momentum or 1 / math.max(self.batches, 1) end

-- Counts the batch -> momentum and whether the batch's statistics are used. A frozen layer (train.freeze) uses its
-- running statistics in training, too; one without them always uses the batch's.
local function begin(self)
  if not self.running_mean then return 0, true end
  local again, training = observer.recomputing, self.training and not self.frozen -- again: the batch has been counted
  if training and not again then observer:each_time(count_batch, self) end
  if again then return 0, training end
  return training and self:batch_share() or self.momentum or 0, training
end

-- Weight and bias, or what stands for them.
local function factors(self, x)
  if self.weight and self.bias then return self.weight, self.bias end
  local dtype = x.dtype == "f64" and "f64" or "f32"
  local key = x.device .. dtype
  local c = self.constants[key]
  if not c then
    local how = {dtype = dtype, device = x.device}
    c = {core.ones({self.num_features}, how):keep(), core.zeros({self.num_features}, how):keep()}
    self.constants[key] = c
  end
  return self.weight or c[1], self.bias or c[2]
end

-- batch_norm, or bn_act if the op that reads its result next is relu or silu (engine/bind/core/peephole.c).
local function normalized(self, x)
  if not observer.fuse or not self.running_mean then return self:fused(x, "batch_norm") end
  local momentum, training = begin(self)
  local weight, bias = factors(self, x)
  local y = core.normalize(x, weight, bias, self.running_mean, self.running_var, self.eps, momentum, training)
  return y
end

-- Runs batch_norm or an op that begins with it; only its first output matters outside.
function BatchNorm:fused(x, name)
  local momentum, training = begin(self)
  local weight, bias = factors(self, x)
  local y, mean, invstd, reserve = op[name](x, weight, bias, self.running_mean, self.running_var,
    {eps = self.eps, momentum = momentum, training = training})
  mean:free()
  invstd:free()
  if reserve then reserve:free() end
  return y
end

function BatchNorm:extra()
  local text = tostring(self.num_features) .. (self.weight and "" or ", not affine")
  if self.weight and not self.bias then text = text .. ", no bias" end
  if not self.momentum then text = text .. ", momentum = false" end
  return self.running_mean and text or text .. ", no running statistics"
end

--- Batch normalization of images, per channel.
-- in   x (N, C, H, W)
-- out  y like x: (x - mean) / sqrt(var + eps) * weight + bias; training: of the batch, else the running statistics
-- opts nn.BatchNorm2d(num_features, {eps = 1e-5, momentum = 0.1, affine = true, bias = true,
--      track_running_stats = true}); momentum = false (PyTorch's None): running statistics are the mean of all batches'
--      so far, whose number num_batches_tracked is saved; affine = false: no weight and no bias; track_running_stats =
--      false: the batch's statistics in evaluation, too
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
