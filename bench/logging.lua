--- capl: 1
-- A network so small that what a run reports and writes is seen: `capl bench --logging bench/logging.lua`.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {
  steps = 10000,
  log_every = "auto", -- steps between two points of the curve
  seed = 42,
}
capl.manual_seed(p.seed)
local function loader(role, count)
  return data.loader {
    source = data.captcha {charset = "01", length = 2, width = 24, height = 16, count = count, fixed = true},
    role = role, batch = 8, workers = 0,
  }
end
local model = nn.Sequential {nn.AvgPool2d(4), nn.Flatten(), nn.Linear(24, 4)}
local images = loader("train", 256)
capl.model(model, {output = "text", charset = images.charset, length = 2})
train.fit {
  model = model, train = images, val = loader("val", 64),
  loss = function(output, batch) return nn.cross_entropy(output:view(-1, 2), batch.target:view(-1)) end,
  optimizer = optim.AdamW(model:parameters(),
  {lr = optim.schedule.warmup_cosine {lr = 0.01, warmup = 100, total = "run"}}), precision = "fp32", steps = p.steps,
  log_every = p.log_every,
}
