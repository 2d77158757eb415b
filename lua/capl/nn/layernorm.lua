-- layernorm.lua: normalization within each sample: layer, RMS, group and instance norm.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"
local Module = require "nn.module"
local parameter = require "nn.parameter"

local layernorm = {}

local function class(name, parent)
  local new = classes.class(name, parent or Module)
  new.pure = true
  new.keeps_f32 = true -- statistics need the bits
  layernorm[name] = new
  return new
end

-- ---- over the last dims ----

local shape_spec = {
  positional = 1,
  {"normalized_shape", "whole", "table", required = true}, {"eps", "number"},
  {"elementwise_affine", "boolean", default = true}, {"bias", "boolean", default = true},
}

-- The list of sizes that a number or a list stands for.
local function shape_of(op, given)
  local shape = type(given) == "number" and {given} or {unpack(given)}
  for key, size in pairs(type(given) == "table" and given or shape) do
    if type(key) ~= "number" then
      check.fail(op, ("normalized_shape is a list of sizes, got the key '%s' in it"):format(tostring(key)),
        ("give options in a table of their own: %s({%s}, {%s = …})"):format(op, table.concat(shape, ", "),
        tostring(key)))
    end
    if type(size) ~= "number" or size % 1 ~= 0 or size < 1 then
      check.fail(op, ("normalized_shape is made of whole numbers from 1 on, got %s"):format(tostring(size)))
    end
  end
  if #shape == 0 then check.fail(op, "normalized_shape is empty, it lists the sizes of the last dims") end
  return shape
end

local function filled(shape, value)
  return core.full(shape, value):requires_grad_():keep()
end

local function read_shape(self, default_eps, ...)
  local op = "nn." .. self.__name
  local o = check.arguments(op, shape_spec, ...)
  self.normalized_shape = shape_of(op, o.normalized_shape)
  self.eps = o.eps or default_eps
  self.attributes = {normalized_shape = self.normalized_shape, eps = self.eps}
  if o.elementwise_affine then self.weight = filled(self.normalized_shape, 1) end
  return o
end

local function shape_text(self)
  return table.concat(self.normalized_shape, "x") .. (self.weight and "" or ", no weight")
end

--- Layer normalization: every row of the last dims has mean 0 and variance 1, then weight and bias.
-- in   x (…, normalized_shape)
-- out  y like x: (x - mean) / sqrt(var + eps) * weight + bias
-- opts nn.LayerNorm(normalized_shape, {eps = 1e-5, elementwise_affine = true, bias = true}); normalized_shape: a number
--      or a list
-- init weight 1, bias 0
-- errs shape: x does not end with normalized_shape
-- paper J. L. Ba, J. R. Kiros, G. E. Hinton: Layer normalization, 2016
-- eg   nn.LayerNorm(8)(capl.zeros(5, 8)):size(2)  --> 8
local LayerNorm = class("LayerNorm")
LayerNorm.extra = shape_text

function LayerNorm:init(...)
  local o = read_shape(self, 1e-5, ...)
  if o.elementwise_affine and o.bias then self.bias = filled(self.normalized_shape, 0) end
end

function LayerNorm:forward(x)
  local y, mean, invstd = core.op.layer_norm(x, self.weight, self.bias, self.attributes)
  mean:free()
  invstd:free()
  return y
end

--- Root mean square normalization: y = x / sqrt(mean of x^2 + eps) * weight over the last dims.
-- opts nn.RMSNorm(normalized_shape, {eps = 1.19e-7, elementwise_affine = true})
-- paper B. Zhang, R. Sennrich: Root mean square layer normalization, 2019
-- eg   nn.RMSNorm(8)(capl.ones(5, 8)):size(2)  --> 8
local RMSNorm = class("RMSNorm")
RMSNorm.extra = shape_text

function RMSNorm:init(...) read_shape(self, 2 ^ -23, ...) end

function RMSNorm:forward(x)
  local y, invstd = core.op.rms_norm(x, self.weight, self.attributes)
  invstd:free()
  return y
end

-- ---- over channels and pixels ----

local function normalize_groups(self, x)
  local y, mean, invstd = core.op.group_norm(x, self.weight, self.bias, self.attributes)
  mean:free()
  invstd:free()
  return y
end

local function set_groups(self, groups, channels, o)
  self.attributes = {num_groups = groups, eps = o.eps}
  if not o.affine then return end
  self.weight = parameter.constant(channels, 1)
  if o.bias ~= false then self.bias = parameter.constant(channels, 0) end
end

local group_spec = {
  positional = 2,
  {"num_groups", "whole", required = true}, {"num_channels", "whole", required = true},
  {"eps", "number", default = 1e-5}, {"affine", "boolean", default = true}, {"bias", "boolean", default = true},
}

--- Group normalization: per image, over the channels of a group and all pixels; the same in training and evaluation.
-- in   x (N, num_channels, …)
-- out  y like x: (x - mean) / sqrt(var + eps) * weight + bias
-- opts nn.GroupNorm(num_groups, num_channels, {eps = 1e-5, affine = true, bias = true}); num_groups divides
--      num_channels
-- init weight 1, bias 0
-- errs shape: x has other than num_channels channels
-- paper Y. Wu, K. He: Group normalization, 2018
-- eg   nn.GroupNorm(2, 4)(capl.zeros(1, 4, 3, 3)):size(2)  --> 4
local GroupNorm = class("GroupNorm")

function GroupNorm:init(...)
  local o = check.arguments("nn.GroupNorm", group_spec, ...)
  if o.num_groups < 1 or o.num_channels < 1 or o.num_channels % o.num_groups ~= 0 then
    check.fail("nn.GroupNorm", ("num_groups has to divide num_channels, got %d and %d"):format(o.num_groups,
      o.num_channels))
  end
  self.num_groups, self.num_channels, self.eps = o.num_groups, o.num_channels, o.eps
  set_groups(self, o.num_groups, o.num_channels, o)
end

local function need_channels(self, x, wanted, ndim)
  local is_tensor = core.is_tensor(x)
  if is_tensor and (not ndim or x.ndim == ndim) and x.ndim >= 2 and x:size(2) == wanted then return end
  core.error{code = "shape", op = "nn." .. self.__name, message = ("x must be (N,%d%s), got %s"):format(
    wanted, ndim == 4 and ",H,W" or ndim == 3 and ",L" or ",…", is_tensor and core.describe(x) or core.typename(x))}
end

function GroupNorm:forward(x)
  need_channels(self, x, self.num_channels)
  return normalize_groups(self, x)
end

function GroupNorm:extra() return ("%d groups of %d"):format(self.num_groups, self.num_channels) end

local instance_spec = {
  positional = 1,
  {"num_features", "whole", required = true, from = 1}, {"eps", "number", default = 1e-5}, {"momentum", "number"},
  {"affine", "boolean", default = false}, {"track_running_stats", "boolean", default = false},
}

--- Instance normalization: per image and channel; the same in training and evaluation.
-- in   x (N, num_features, H, W)
-- opts nn.InstanceNorm2d(num_features, {eps = 1e-5, affine = false}); running statistics are not kept
-- paper D. Ulyanov, A. Vedaldi, V. Lempitsky: Instance normalization, 2016
-- eg   nn.InstanceNorm2d(4)(capl.zeros(1, 4, 3, 3)):size(2)  --> 4
local InstanceNorm2d = class("InstanceNorm2d")

--- Instance normalization of sequences (N, num_features, L); otherwise as nn.InstanceNorm2d.
-- eg   nn.InstanceNorm1d(4)(capl.zeros(1, 4, 3)):size(2)  --> 4
local InstanceNorm1d = class("InstanceNorm1d")

for new, ndim in pairs{[InstanceNorm2d] = 4, [InstanceNorm1d] = 3} do
  function new:init(...)
    local op = "nn." .. self.__name
    local o = check.arguments(op, instance_spec, ...)
    if o.track_running_stats or o.momentum then
      check.fail(op, "there are no running statistics: every image is normalized by its own",
        "leave track_running_stats and momentum out, or use nn.BatchNorm2d")
    end
    self.num_features, self.eps = o.num_features, o.eps
    set_groups(self, o.num_features, o.num_features, o)
  end

  function new:forward(x)
    need_channels(self, x, self.num_features, ndim)
    return normalize_groups(self, x)
  end

  function new:extra() return tostring(self.num_features) end
  require("nn.unbatched")(new, ndim)
end

return layernorm
