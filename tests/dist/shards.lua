--- capl: 1
--- needs: minutes=5
-- A small captcha network of which a step is made of shards; prints its weights and metrics to the last bit.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {
  steps = 20, batch = 16, parts = 4, loop = false,
}
capl.manual_seed(5)
local world = capl.distributed()

local function loader(role, count, seed)
  return data.loader {
    source = data.captcha {length = 2, charset = "0-9", width = 32, height = 16, count = count, seed = seed,
    fixed = role == "val"}, role = role, batch = role == "train" and p.batch / world.size or 8, workers = 1,
    shuffle = role == "train", augment = role == "train" and {rotate = 5, noise = 0.05} or nil, parts = p.loop
    and role == "train" and p.parts or nil,
  }
end
local train_images, val_images = loader("train", 50, 1), loader("val", 37, 2) -- the last step of an epoch has 2 images

local function conv(inputs, outputs)
  return nn.Conv2d(inputs, outputs, 3, {padding = 1}), nn.BatchNorm2d(outputs), nn.ReLU()
end
local c1, b1, r1 = conv(1, 8)
local c2, b2, r2 = conv(8, 12)
local net = nn.Sequential {
  c1, b1, r1, nn.MaxPool2d(2), c2, b2, r2, nn.MaxPool2d(2), nn.Flatten(),
  nn.Linear(12 * 4 * 8, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 20),
}
capl.model(net, {output = "text", charset = "0-9", length = 2})
local opt = optim.AdamW(net:parameters(),
  {lr = optim.schedule.warmup_cosine {lr = 3e-3, warmup = 2, total = 20}, clip_norm = 1})
local criterion = nn.MultiLabelSoftMarginLoss()

local metrics = {}
if p.loop then
  capl.deterministic(true)
  for epoch = 1, 2 do
    for batch in train_images:epoch(epoch) do
      local loss = train.sharded_step(opt, batch, function(part)
        return criterion(net(part.image), part.onehot) end, {shards = p.parts})
      metrics[#metrics + 1] = ("loss %a"):format(loss:item())
    end
  end
else
  local result = train.fit {
    model = net, train = train_images, val = val_images, optimizer = opt, steps = p.steps, ema = 0.9, eval_every = 5,
    precision = "fp32", loss = function(y, batch)
    return criterion(y, batch.onehot) end, deterministic = true, shards = p.parts, capture = "auto",
  }
  for name, value in pairs(result.val) do
    if type(value) == "number" then metrics[#metrics + 1] = ("val %s %a"):format(name, value) end
  end
end

local function bits(name, x)
  local values = x:detach():reshape(-1):to("f32"):tolist()
  local sum = 0
  for i, value in ipairs(values) do sum = sum * 1.25 % 4096 + value * (i % 7 + 1) end
  metrics[#metrics + 1] = ("%s %a"):format(name, sum)
end
for name, x in net:named_parameters() do bits(name, x) end
for name, x in net:named_buffers() do bits(name, x) end
table.sort(metrics)
for _, line in ipairs(metrics) do world:print("bits " .. line) end
