"""A small recognizer that train.fit trains in a second, and readers of what it leaves; shared by the tests of train.fit.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os

from program import check

RECIPE = """--- capl: 1
-- A small recognizer for tests.
local p = capl.params {
  steps = "auto", -- training steps
  max_time = "none", -- or a time box
  scale = 1, -- of the loss
  precision = "fp32",
  seed = 42,
}
local function loader(role, count)
  return data.loader {
    source = data.captcha {charset = "0O1", length = 2, width = 48, height = 24, count = count, fixed = role ~= "train"},
    role = role, batch = 10, workers = 1,
  }
end
local images = loader("train")
local model = nn.Sequential {nn.AvgPool2d(6), nn.Flatten(), nn.Linear(32, 6)}
capl.model(model, {output = "text", charset = images.charset, length = 2})
train.fit {
  model = model, train = images, val = loader("val", 30), test = loader("test", 50),
  loss = function(output, batch) return nn.cross_entropy(output:view(-1, 3), batch.target:view(-1)) * p.scale end,
  optimizer = optim.AdamW(model:parameters(), {lr = optim.schedule.warmup_cosine {lr = 0.01, warmup = 5, total = "run"}}),
  precision = p.precision, steps = p.steps ~= "auto" and p.steps or nil, max_time = p.max_time,
}
"""


def write_recipe():
    with open("small.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE)


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def metrics(folder):
    with open(folder + "/metrics.jsonl", encoding="utf-8") as file:
        text = file.read()
    check(text.endswith("\n"), "metrics.jsonl ends with a whole line", text[-200:])
    return [json.loads(line) for line in text.splitlines()]


def newest():
    return max((os.path.join("runs", name) for name in os.listdir("runs")), key=os.path.getmtime)
