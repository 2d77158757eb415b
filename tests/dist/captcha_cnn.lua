--- capl: 1
-- A small captcha_cnn without dropout, and without biases that batch norm takes out: AdamW makes full steps of their
-- rounding.
-- --joined=true: its ranks act as one, with the statistics of the whole batch.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {joined = false}
capl.manual_seed(5)
local world = capl.distributed()
local function captchas(count, seed)
  return data.captcha {charset = "0-9", length = 2, width = 48, height = 24, count = count, fixed = true, seed = seed}
end
local BATCH = 24 -- images of a step, of all ranks
local images = data.loader {source = captchas(240, 1), role = "train", batch = BATCH / world.size, normalize = "unit"}
local val = data.loader {source = captchas(50, 2), role = "val", batch = 10, normalize = "unit"}

local function conv(inputs, outputs, pool)
  return nn.Sequential {
    nn.Conv2d(inputs, outputs, 3, {padding = 1, bias = false}), nn.BatchNorm2d(outputs), nn.ReLU(), pool
    and nn.MaxPool2d(2) or nil,
  }
end
local model = nn.Sequential {
  conv(1, 8, true), conv(8, 16, true), conv(16, 16, true), nn.Flatten(), nn.Linear(16 * 3 * 6, 32), nn.ReLU(),
  nn.Linear(32, 20),
}
if p.joined then
  capl.replicate(model)
  nn.convert_sync_batchnorm(model)
end
capl.model(model, {output = "text", charset = images.charset, length = 2})
local opt = optim.AdamW(model:parameters(), {lr = 2e-3})
for epoch = 1, 2 do
  for batch in images:epoch(epoch) do
    local loss = nn.multilabel_soft_margin(model(batch.image), batch.onehot)
    opt:backward_step(loss)
    world:print(("loss %.9g"):format(world:sum{loss = loss:item()}.loss / world.size))
  end
end
model:eval()
local outputs, count = 0, 0
for batch in val:epoch(1) do
  outputs, count = outputs + capl.no_grad(model, batch.image):abs():sum():item(), count + batch.count
end
local all = world:sum{outputs = outputs, count = count}
world:print(("val %.9g of %d"):format(all.outputs, all.count))
world:print(("sent %d"):format(world:traffic().bytes))
