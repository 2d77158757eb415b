"""Models with several inputs and outputs: checked, trained, saved at the best model, loaded again.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import struct

from program import capl, check, in_empty_folder

HEAD = """--- capl: 1
local p = capl.params {steps = 2}
local function sliders(role)
  return data.loader {
    source = data.slider {width = 240, height = 120, count = 8, fixed = true, seed = role == "train" and 1 or 2}, role = role,
    batch = 4, normalize = "unit",
  }
end
local function loss(out, batch) return nn.mse(out, batch.points:select(2, 1):narrow(2, 1, 2)) end
local function meter(key)
  return function(loader)
    return train.LocalizationMeter {points = {1}, loader = loader, decode = function(out) return (key and out[key] or out):unsqueeze(2) end}
  end
end
"""

# train.fit's input goes into the graph: the file takes images as the loader gives them.
INPUT = HEAD + """
local model = nn.Sequential {nn.Conv2d(4, 4, 3, {stride = 4}), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)}
capl.model(model)
train.fit {
  model = model, train = sliders "train", val = sliders "val", steps = p.steps, optimizer = optim.AdamW(model:parameters()),
  input = function(batch) return capl.cat({batch.image, batch.image:narrow(2, 1, 1)}, 2) end, loss = loss, meter = meter(),
}
train.evaluate(model, sliders "val", {meter = meter()}) -- with the same input
"""

# Two fields of the batch go in, two tensors come out.
NAMED = HEAD + """
local Net = nn.class("Net")
function Net:init() self.conv, self.head = nn.Conv2d(3, 4, 3, {stride = 4}), nn.Linear(6, 2) end
function Net:forward(x)
  local seen = capl.cat({self.conv(x.image):mean({3, 4}), x.points:select(2, 2):narrow(2, 1, 2)}, 2)
  return {gap = self.head(seen), level = x.image:mean({2, 3, 4})}
end
local model = Net()
capl.model(model, {inputs = {"image", "points"}})
train.fit {
  model = model, train = sliders "train", val = sliders "val", steps = p.steps, optimizer = optim.AdamW(model:parameters()),
  loss = function(out, batch) return loss(out.gap, batch) end, meter = meter "gap",
}
"""

# What the saved model says of its golden inputs, beside what it said then.
REPLAY = """
local path, only = %s
local model, inputs = capl.io.load_model(path), capl.io.load(path .. "/golden/inputs.safetensors")
local now = model.forward(only and inputs.input or inputs)
for name, was in pairs(capl.io.load(path .. "/golden.safetensors")) do
  local y = only and now or now[name]
  print(name, table.concat(y.shape, "x"), (y - was):abs():max():item() < 1e-5)
end
"""


def replay(path, only):
    status, out, err = capl("-e", REPLAY % f"'{path}', {only}")
    check(status == 0, f"the model {path} runs on its golden inputs", out + err)
    return sorted(line.split() for line in out.splitlines())


def trained(name, recipe):
    with open(name + ".lua", "w", encoding="utf-8") as file:
        file.write(recipe)
    status, out, err = capl("check", name + ".lua")
    check(status == 0 and f"{name}.lua: ok" in out, f"check finds nothing wrong with {name}", out + err)
    status, out, err = capl(name + ".lua")
    check(status == 0, f"{name} trains and saves", out + err)
    with open(f"runs/{name}/best.capl/graph.json", encoding="utf-8") as file:
        return json.load(file)


def verified():
    """capl verify replays them, and sees a changed one."""
    for name in ("input", "named"):
        status, out, err = capl("verify", f"runs/{name}/best.capl")
        check(status == 0 and "2 golden pairs" in out and out.endswith(": ok\n"), f"verify reads the golden pairs of {name}", out + err)
    with open("runs/named/best.capl/golden.safetensors", "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(struct.pack("<f", 9e9))
    status, out, err = capl("verify", "runs/named/best.capl")
    check(status == 1 and out.endswith(": FAILED\n"), "an output that differs is seen", out + err)
    os.remove("runs/named/best.capl/golden.safetensors")
    status, out, err = capl("verify", "runs/named/best.capl")
    check(status == 1 and "golden.safetensors" in err, "a missing file is named", out + err)


def main():
    graph = trained("input", INPUT)
    check(graph["capl_graph"] == 1 and graph["input"]["size"] == ["N", 3, 120, 240],
          "what input makes of a batch is a part of the graph", str(graph["input"]))
    check(replay("runs/input/best.capl", "true") == [["output", "2x2", "true"]], "its golden pairs hold")
    graph = trained("named", NAMED)
    check([port["name"] for port in graph["inputs"]] == ["image", "points"], "fields of the batch are the graph's inputs")
    check(replay("runs/named/best.capl", "false") == [["gap", "2x2", "true"], ["level", "2", "true"]],
          "golden pairs of every output hold")
    verified()
    both = INPUT.replace("capl.model(model)", 'capl.model(model, {inputs = {"image"}})')
    with open("both.lua", "w", encoding="utf-8") as file:
        file.write(both)
    status, out, err = capl("check", "both.lua")
    check(status == 1 and "input is given, and capl.model has inputs; give one of them" in err, "two inputs are one too many",
          out + err)


in_empty_folder(main)
