--- capl: 1
--- needs: minutes=10
-- layers.lua: milliseconds of single layers forward and backward on a GPU, for `torch_peer.py --layers` to be held
-- against.
--
-- data      random numbers
-- expected  at most PyTorch's time; not measured yet
-- time      half a minute
-- run       capl bench/gpu/layers.lua [--precisions=fp32,tf32,fp16,bf16] [--times=50] [--rounds=5] [--small]
-- Prints one line of JSON per layer and precision: the median of the rounds, each of so many captured steps between two
-- events of the device.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {precisions = "fp32,tf32,fp16,bf16", times = 50, rounds = 5, small = false}
local n = p.small and 2 or 256 -- samples

local function random(...) return capl.randn(...):requires_grad_() end
local function whole(value, rows, columns)
  return capl.full(columns and {rows, columns} or {rows}, value, {dtype = "i32"})
end

-- Each: -> forward function, what has gradients, layers and tensors. The same sizes as in torch_peer.py.
local makers = {
  lstm = function()
    local layer, x = nn.LSTM(128, 128, 2, {bidirectional = true}), random(50, n, 128)
    return function() return (layer(x)) end, {layer, x}
  end,
  gru = function()
    local layer, x = nn.GRU(128, 128, 2, {bidirectional = true}), random(50, n, 128)
    return function() return (layer(x)) end, {layer, x}
  end,
  ctc = function()
    local scores, texts = random(50, n, 37), whole(1, n, 6) + capl.arange(6, {dtype = "i32"})
    local steps, lengths = whole(50, n), whole(6, n)
    return function() return nn.ctc_loss(scores:log_softmax(-1), texts, steps, lengths) end, {scores}
  end,
  layer_norm = function()
    local layer, x = nn.LayerNorm(256), random(128 * n, 256)
    return function() return layer(x) end, {layer, x}
  end,
  attention = function()
    local q, k, v = random(n, 8, 128, 64), random(n, 8, 128, 64), random(n, 8, 128, 64)
    return function() return nn.scaled_dot_product_attention(q, k, v) end, {q, k, v}
  end,
  depthwise = function()
    local layer, x = nn.Conv2d(64, 64, 3, {padding = 1, groups = 64}), random(n, 64, 30, 80)
    return function() return layer(x) end, {layer, x}
  end,
  -- The first convolution of grey images, which asks for no gradient of them: by own kernels (3x3 of one channel), by
  -- what cuDNN has for a kernel that those do not take (one of 5x5 has 2.8 times the products, but moves the same
  -- bytes), and of 8 channels, which is what cuDNN pads one to.
  conv_first = function()
    local layer, x = nn.Conv2d(1, 32, 3, {padding = 1}), capl.randn(n, 1, 60, 160)
    return function() return layer(x) end, {layer}
  end,
  conv_first_5x5 = function()
    local layer, x = nn.Conv2d(1, 32, 5, {padding = 2}), capl.randn(n, 1, 60, 160)
    return function() return layer(x) end, {layer}
  end,
  conv_first_8 = function()
    local layer, x = nn.Conv2d(8, 32, 3, {padding = 1}), capl.randn(n, 8, 60, 160)
    return function() return layer(x) end, {layer}
  end,
  transposed = function()
    local layer, x = nn.ConvTranspose2d(64, 64, 4, {stride = 2, padding = 1}), random(n, 64, 15, 40)
    return function() return layer(x) end, {layer, x}
  end,
}

local function median(list)
  table.sort(list)
  return list[math.ceil(#list / 2)]
end

local function milliseconds(name, precision)
  local forward, owners = makers[name]()
  local step = capl.capture(function()
    for _, owner in ipairs(owners) do owner:zero_grad() end
    local loss = capl.autocast(precision, function() return forward():float():mean() end)
    loss:backward()
    return loss
  end, {strict = false})
  for _ = 1, 4 do step() end
  step():item()
  local rounds = {}
  for round = 1, p.rounds do
    rounds[round] = 1e3 / p.times * capl.elapsed(function()
      for _ = 1, p.times do step() end
    end)
  end
  local state = step:state()
  return median(rounds), state.replays, state.eager and (', "refused": "%s"'):format(state.eager:gsub('["\\%c]', " "))
    or ""
end

for precision in p.precisions:gmatch("[^,]+") do
  for _, name in ipairs {"lstm", "gru", "ctc", "layer_norm", "attention", "depthwise", "transposed", "conv_first",
    "conv_first_5x5", "conv_first_8"} do
    print(('{"layer": "%s", "precision": "%s", "ms": %.4f, "captured_steps": %d%s}'):format(name, precision,
      capl.scope(milliseconds, name, precision)))
  end
end
