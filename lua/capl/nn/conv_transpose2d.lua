-- conv_transpose2d.lua: transposed 2-d convolution, which makes images larger.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"
local unbatched = require "nn.unbatched"
local parameter = require "nn.parameter"

local spec = {
  positional = 9, -- in PyTorch's order
  {"in_channels", "whole", required = true, from = 1}, {"out_channels", "whole", required = true, from = 1},
  {"kernel_size", "whole", "table", required = true}, {"stride", "whole", "table", default = 1},
  {"padding", "whole", "table", default = 0}, {"output_padding", "whole", "table", default = 0},
  {"groups", "whole", default = 1, from = 1}, {"bias", "boolean", default = true},
  {"dilation", "whole", "table", default = 1},
}

--- Transposed 2-d convolution: each pixel of x paints a kernel, stride pixels apart.
-- in   x (N, Cin, H, W)[, output_size {H', W'}: of the sizes that stride allows, instead of output_padding]
-- out  y (N, Cout, H', W')   H' = (H - 1) * stride - 2*padding + dilation*(kernel-1) + output_padding + 1, W' alike
-- opts nn.ConvTranspose2d(in_channels, out_channels, kernel_size, {stride = 1, padding = 0, output_padding = 0,
--      groups = 1, bias = true, dilation = 1}); sizes in px, one number or {height, width}
-- init weight (Cin, Cout/groups, kh, kw) and bias: uniform within 1/sqrt(Cout/groups * kh * kw), as PyTorch
-- errs shape: x has other than Cin channels; value: an output_size that stride and kernel do not reach
-- eg   nn.ConvTranspose2d(8, 4, 2, {stride = 2})(capl.zeros(1, 8, 5, 6)):size(4)  --> 12
local ConvTranspose2d = classes.class("ConvTranspose2d", require "nn.module")
ConvTranspose2d.pure = true

local function read_channels(self, o)
  for _, name in ipairs{"in_channels", "out_channels", "groups"} do
    self[name] = o[name]
    if o[name] % o.groups ~= 0 then
      check.fail("nn.ConvTranspose2d", ("%s = %d is not divisible by groups = %d"):format(name, o[name], o.groups))
    end
  end
end

function ConvTranspose2d:init(...)
  local o = check.arguments("nn.ConvTranspose2d", spec, ...)
  read_channels(self, o)
  for name, least in pairs{kernel_size = 1, stride = 1, padding = 0, output_padding = 0, dilation = 1} do
    self[name] = check.pair("nn.ConvTranspose2d", name, o[name], least)
  end
  self.attributes = {stride = self.stride, padding = self.padding, dilation = self.dilation, groups = o.groups,
    output_padding = self.output_padding}
  local kh, kw = self.kernel_size[1], self.kernel_size[2]
  local bound = 1 / math.sqrt(o.out_channels / o.groups * kh * kw)
  self.weight = parameter.uniform({o.in_channels, o.out_channels / o.groups, kh, kw}, bound)
  if o.bias then self.bias = parameter.uniform({o.out_channels}, bound) end
end

-- The attributes with the output_padding that leads to a size.
local function attributes_for(self, x, size)
  size = check.pair("nn.ConvTranspose2d", "output_size", size, 1)
  local more, lowest, highest = {}, {}, {}
  for d = 1, 2 do
    lowest[d] = (x:size(d + 2) - 1) * self.stride[d] - 2 * self.padding[d] + self.dilation[d]
      * (self.kernel_size[d] - 1) + 1
    highest[d] = lowest[d] + math.max(self.stride[d], self.dilation[d]) - 1
    more[d] = size[d] - lowest[d]
  end
  if size[1] < lowest[1] or size[2] < lowest[2] or size[1] > highest[1] or size[2] > highest[2] then
    check.fail("nn.ConvTranspose2d",
      ("output_size is %dx%d; an input of %dx%d gives %dx%d to %dx%d"):format(size[1], size[2], x:size(3), x:size(4),
      lowest[1], lowest[2], highest[1], highest[2]))
  end
  local out = {}
  for key, value in pairs(self.attributes) do out[key] = value end
  out.output_padding = more
  return out
end

local function check_input(self, x)
  if not core.is_tensor(x) or x.ndim ~= 4 or x:size(2) == self.in_channels then return end
  core.error{code = "shape", op = "conv_transpose2d",
    message = ("weight expects %d input channel%s, x has %d"):format(self.in_channels, self.in_channels == 1 and ""
    or "s", x:size(2)), context = ("x %s   weight %s"):format(core.describe(x), core.describe(self.weight)),
    hint = ("make the layer nn.ConvTranspose2d(%d, %d, …), or change what comes before it"):format(x:size(2),
    self.out_channels)}
end

function ConvTranspose2d:forward(x, output_size)
  check_input(self, x)
  local attributes = self.attributes
  if output_size and core.is_tensor(x) and x.ndim == 4 then attributes = attributes_for(self, x, output_size) end
  local y = core.op.conv_transpose2d(x, self.weight, self.bias, attributes)
  return y
end

function ConvTranspose2d:extra()
  local text = ("%d -> %d, %dx%d"):format(self.in_channels, self.out_channels, self.kernel_size[1], self.kernel_size[2])
  local function add(name, pair, usual)
    if pair[1] ~= usual or pair[2] ~= usual then text = text .. (", %s %dx%d"):format(name, pair[1], pair[2]) end
  end
  add("stride", self.stride, 1)
  add("padding", self.padding, 0)
  add("output padding", self.output_padding, 0)
  add("dilation", self.dilation, 1)
  if self.groups ~= 1 then text = text .. ", groups " .. self.groups end
  return self.bias and text or text .. ", no bias"
end

unbatched(ConvTranspose2d, 4)

return ConvTranspose2d
