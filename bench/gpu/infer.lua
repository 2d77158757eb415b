--- capl: 1
--- needs: minutes=10
-- infer.lua: captcha_cnn's network in eval mode on a GPU, captured: milliseconds of a batch.
--
-- data      random numbers
-- expected  0.11 ms at batch 1, 2.5 ms at batch 1024 in bf16 on an H200
-- time      seconds
-- run       capl bench/gpu/infer.lua --batch=64 [--precision=bf16] [--steps=50] [--rounds=5]
-- Prints one line of JSON: the median of the rounds, each of so many batches with their inputs copied in, between two
-- events of the device.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {batch = 64, precision = "bf16", steps = 50, rounds = 5}
capl.manual_seed(1)

local layers = {}
local function add(inputs, outputs, pool)
  for _, layer in ipairs{nn.Conv2d(inputs, outputs, 3, {padding = 1}), nn.BatchNorm2d(outputs), nn.ReLU()} do
    layers[#layers + 1] = layer
  end
  if pool then layers[#layers + 1] = nn.MaxPool2d(2) end
end
add(1, 32, true) add(32, 64) add(64, 64, true) add(64, 128) add(128, 128) add(128, 128, true) add(128, 128)
for _, layer in ipairs{nn.Flatten(), nn.Linear(17920, 1024), nn.Dropout(0.5), nn.ReLU(), nn.Linear(1024, 144)} do
  layers[#layers + 1] = layer
end
local model = nn.Sequential(layers)
model:eval()

local step = capl.capture(function(image)
  return capl.no_grad(capl.autocast, p.precision, function() return model(image) end)
end, {strict = false})

local image = capl.rand(p.batch, 1, 60, 160)
for _ = 1, 4 do step(image) end
step(image):get(1, 1) -- waits
local before, blocks = step:state().replays, {}
for round = 1, p.rounds do
  blocks[round] = 1e3 / p.steps * capl.elapsed(function()
    for _ = 1, p.steps do step(image) end
  end)
end

local state, shown = step:state(), table.concat(blocks, ", ")
table.sort(blocks)
local ms = blocks[math.ceil(p.rounds / 2)]
local refused = state.eager and (', "capture_refused": "%s"'):format((state.eager:gsub('["\\%c]', " "))) or ""
print(('{"step_ms": %.4f, "images_per_s": %.1f, "steps": %d, "captured_steps": %d, "blocks_ms": [%s]%s}'):format(ms,
  1e3 * p.batch / ms, p.steps * p.rounds, state.replays - before, shown, refused))
