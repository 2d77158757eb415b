--- capl: 1
-- losses.lua: milliseconds of activations and losses forward and backward, for bench/ops/losses.py.
--
--     capl bench/ops/losses.lua --names=silu,gelu --dtype=f32 --repeats=3
--
-- One line of JSON: the least time of each in this process.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {names = "", dtype = "f32", repeats = 3}
local nn = capl.nn

local function floats(...) return capl.randn(...):to(p.dtype):requires_grad_() end

local function activation(layer)
  local x = floats(32, 64, 32, 64)
  return function() layer(x):sum():backward() end, x
end

local function of_elements(fn)
  local x, target = floats(16, 1, 256, 256), capl.rand(16, 1, 256, 256):gt(0.5):float()
  return function() fn(x, target):backward() end, x
end

local function of_classes(fn)
  local x, labels = floats(8, 11, 128, 128), (capl.rand(8, 128, 128) * 11):to("i64")
  return function() fn(x, labels):backward() end, x
end

local makers = {
  silu = function() return activation(nn.SiLU()) end, gelu = function() return activation(nn.GELU()) end,
  gelu_tanh = function() return activation(nn.GELU{approximate = "tanh"}) end, sigmoid = function()
  return activation(nn.Sigmoid()) end, tanh = function() return activation(nn.Tanh()) end, softplus = function()
    return activation(nn.Softplus()) end,
  elu = function() return activation(nn.ELU()) end, hardswish = function() return activation(nn.Hardswish()) end,
  leaky_relu = function() return activation(nn.LeakyReLU()) end,
  bce_with_logits = function() return of_elements(nn.bce_with_logits) end, focal = function()
  return of_elements(nn.sigmoid_focal_loss) end, smooth_l1 = function()
    return of_elements(nn.smooth_l1_loss) end, cross_entropy = function() return of_classes(nn.cross_entropy) end,
  dice = function() return of_classes(nn.dice_loss) end,
}

local function milliseconds(name)
  local run, x = makers[name]()
  local best = math.huge
  for round = 0, p.repeats do
    local start = capl.clock()
    run()
    if round > 0 then best = math.min(best, capl.clock() - start) end
    x:zero_grad()
  end
  return 1000 * best
end

local out = {}
for name in p.names:gmatch("[^,]+") do out[#out + 1] = ("%.4f"):format(milliseconds(name)) end
print("[" .. table.concat(out, ", ") .. "]")
