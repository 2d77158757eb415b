-- conv2d.lua: 2-d convolution.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"
local conv_padding = require "nn.conv_padding"
local unbatched = require "nn.unbatched"
local parameter = require "nn.parameter"

local spec = {
  positional = 6,
  {"in_channels", "whole", required = true, from = 1}, {"out_channels", "whole", required = true, from = 1},
  {"kernel_size", "whole", "table", required = true}, {"stride", "whole", "table", default = 1},
  {"padding", "whole", "table", "string", default = 0}, {"dilation", "whole", "table", default = 1},
  {"groups", "whole", default = 1, from = 1}, {"bias", "boolean", default = true},
  {"padding_mode", "string", default = "zeros"},
}

--- 2-d convolution.
-- in   x (N, Cin, H, W)
-- out  y (N, Cout, H', W')   H' = floor((H + 2*padding - dilation*(kernel-1) - 1) / stride) + 1, W' alike
-- opts nn.Conv2d(in_channels, out_channels, kernel_size, {stride = 1, padding = 0 | "same", dilation = 1, groups = 1,
--      bias = true, padding_mode = "zeros" | "reflect" | "replicate" | "circular"}); sizes in px, one number or
--      {height, width}
-- init weight and bias: uniform within 1/sqrt(fan-in), as PyTorch
-- errs shape: x has other than Cin channels; value: Cin or Cout not divisible by groups
-- eg   nn.Conv2d(3, 64, 3, {stride = 2, padding = 1})(capl.zeros(1, 3, 32, 32)):size(4)  --> 16
local Conv2d = classes.class("Conv2d", require "nn.module")
Conv2d.pure = true

-- px before and behind of both axes: equal, but for "same" and a kernel of an even size.
local function read_padding(o)
  if type(o.padding) ~= "string" then
    local both = check.pair("nn.Conv2d", "padding", o.padding, 0)
    return both, both
  end
  if o.padding ~= "same" then check.unknown("nn.Conv2d", "padding", o.padding, {"same"}) end
  local before, behind = {}, {}
  for d = 1, 2 do
    before[d], behind[d] = conv_padding.same("nn.Conv2d", o.dilation[d] * (o.kernel_size[d] - 1), o.stride[d])
  end
  return before, behind
end

function Conv2d:init(...)
  local o = check.arguments("nn.Conv2d", spec, ...)
  for _, name in ipairs{"in_channels", "out_channels", "groups"} do
    self[name] = o[name]
    if o[name] % o.groups ~= 0 then
      check.fail("nn.Conv2d", ("%s = %d is not divisible by groups = %d"):format(name, o[name], o.groups))
    end
  end
  for name, least in pairs{kernel_size = 1, stride = 1, dilation = 1} do
    o[name] = check.pair("nn.Conv2d", name, o[name], least)
  end
  local before, behind = read_padding(o)
  o.padding = before
  for _, name in ipairs{"kernel_size", "stride", "padding", "dilation"} do self[name] = o[name] end
  self.attributes = {stride = o.stride, dilation = o.dilation, groups = o.groups,
    padding = conv_padding.set(self, "nn.Conv2d", o.padding_mode, before, behind)}
  local kh, kw = o.kernel_size[1], o.kernel_size[2]
  local bound = 1 / math.sqrt(o.in_channels / o.groups * kh * kw)
  self.weight = parameter.uniform({o.out_channels, o.in_channels / o.groups, kh, kw}, bound)
  if o.bias then self.bias = parameter.uniform({o.out_channels}, bound) end
end

function Conv2d:forward(x)
  if core.is_tensor(x) and x.ndim == 4 and x:size(2) ~= self.in_channels then
    core.error{code = "shape", op = "conv2d",
      message = ("weight expects %d input channel%s, x has %d"):format(self.in_channels,
        self.in_channels == 1 and "" or "s", x:size(2)),
      context = ("x %s   weight %s"):format(core.describe(x), core.describe(self.weight)),
      hint = ("make the layer nn.Conv2d(%d, %d, …), or change what comes before it"):format(x:size(2),
      self.out_channels)}
  end
  local y = core.op.conv2d(conv_padding.apply(self, x), self.weight, self.bias, self.attributes)
  return self.cut and conv_padding.trim(self, y) or y
end

function Conv2d:extra()
  local o = self
  local text = ("%d -> %d, %dx%d"):format(o.in_channels, o.out_channels, o.kernel_size[1], o.kernel_size[2])
  if o.stride[1] ~= 1 or o.stride[2] ~= 1 then text = text .. (", stride %dx%d"):format(o.stride[1], o.stride[2]) end
  if o.padding[1] ~= 0 or o.padding[2] ~= 0 then
    text = text .. (", padding %dx%d"):format(o.padding[1], o.padding[2])
    if o.padding_mode ~= "zeros" then text = text .. " " .. o.padding_mode end
  end
  if o.dilation[1] ~= 1 or o.dilation[2] ~= 1 then
    text = text .. (", dilation %dx%d"):format(o.dilation[1], o.dilation[2])
  end
  if o.groups ~= 1 then text = text .. ", groups " .. o.groups end
  return o.bias and text or text .. ", no bias"
end

unbatched(Conv2d, 4)

return Conv2d
