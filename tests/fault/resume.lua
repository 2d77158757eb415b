--- capl: 1
-- Trains a tiny network on augmented captchas made by three threads, with dropout, evaluations and many checkpoints.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {
  steps = 60,
  seed = 7,
  lr = 0.003,
  every = 2, -- steps between checkpoints
}
capl.manual_seed(p.seed)
local function loader(role, count, augment)
  return data.loader {
    source = data.captcha {charset = "0-9", length = 2, width = 40, height = 20, count = count, seed = 3, fixed = true},
    role = role, batch = 8, workers = role == "train" and 3 or 0, augment = augment, shuffle = role == "train",
  }
end
local model = nn.Sequential {
  nn.Conv2d(1, 4, 3, {stride = 2, padding = 1}), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1),
  nn.Linear(4 * 10 * 20, 20),
}
train.fit {
  model = model, train = loader("train", 88, {rotate = 5, noise = 0.1}), val = loader("val", 16),
  test = loader("test", 16), loss = function(y, batch)
  return nn.cross_entropy(y:view(-1, 10), batch.target:view(-1)) end,
    optimizer = optim.AdamW(model:parameters(),
    {lr = optim.schedule.warmup_cosine {lr = p.lr, warmup = 10, total = "run"}}),
  steps = p.steps, precision = "fp32", eval_every = 7, log_every = 1, checkpoint = {every = p.every}, ema = 0.9,
}
