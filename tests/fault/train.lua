--- capl: 1
-- Trains a tiny network for a few steps and writes every kind of file a run writes: settings, metrics, models,
-- pictures, captchas, and reads some of them back.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {
  steps = 3,
  seed = 7,
}
capl.manual_seed(p.seed)
local function captchas(seed, count)
  return data.captcha {charset = "0-9", length = 2, width = 40, height = 20, count = count, seed = seed, fixed = true}
end
local model = nn.Sequential {
  nn.Conv2d(1, 4, 3, {stride = 2, padding = 1}), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 10 * 20, 20),
}
local function output(x) return model(x):view(x:size(1), 2, 10) end
local Net = nn.class("Net")
function Net:init() self.body = model end
function Net:forward(x) return output(x) end
local net = Net()
local images = data.loader {source = captchas(1, 8 * p.steps), role = "train", batch = 8, workers = 1}
capl.model(net, {output = "text", charset = images.charset, length = 2})
local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
train.fit {
  model = net, train = images, val = data.loader {source = captchas(2, 8), role = "val", batch = 8, workers = 0},
  test = data.loader {source = captchas(3, 8), role = "test", batch = 8, workers = 0},
  loss = function(y, batch) return nn.cross_entropy(y:view(-1, 10), batch.target:view(-1)) end,
  optimizer = opt, steps = p.steps, precision = "fp32",
}
data.save_captchas {dir = capl.run_folder() .. "/files", count = 3, seed = 1, charset = "0-9", length = 2}
print("read back " .. data.folder(capl.run_folder() .. "/files", {charset = "0-9", length = 2}):count())
