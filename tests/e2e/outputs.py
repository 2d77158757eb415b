"""Models that give points and numbers: trained, saved, verified, used by predict; what capl.model says of wrong options.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os

from program import capl, check, in_empty_folder

HEAD = """--- capl: 1
local p = capl.params {steps = 8}
local function loader(role, seed)
  return data.loader{source = data.slider{seed = seed, count = 16, fixed = true}, role = role, batch = 4, workers = 0}
end
local function net(outputs)
  return nn.Sequential{nn.Conv2d(3, 4, 5, {stride = 4}), nn.ReLU(), nn.AdaptiveAvgPool2d({2, 4}), nn.Flatten(), nn.Linear(32, outputs)}
end
local function fit(model, loss, meter)
  train.fit{model = model, optimizer = optim.AdamW(model:parameters(), {lr = 1e-2}), steps = p.steps,
    train = loader("train", 1), val = loader("val", 2), loss = loss, meter = meter}
end
"""

POINTS = HEAD + """
local model = net(4)
capl.model(model, {output = "points", names = {"gap", "piece"}})
fit(model, function(output, batch) return nn.smooth_l1(output:reshape(-1, 2, 2), batch.points:narrow(2, 1, 2):narrow(3, 1, 2)) end,
  function(val) return train.LocalizationMeter{points = {1, 2}, names = {"gap", "piece"}, loader = val} end)
"""

NUMBERS = HEAD + """
local model = net(1)
capl.model(model, {output = "numbers", names = {"angle"}, mean = {100}, std = {2}})
fit(model, function(output, batch) return nn.mse(output, (batch.angle - 100) / 2) end, function(val)
  return train.RegressionMeter{field = "angle", loader = val, inverse = function(x) return x end}
end)
"""


def run(name, text):
    with open(name + ".lua", "w", encoding="utf-8") as file:
        file.write(text)
    return capl(name + ".lua")


def points():
    status, out, err = run("points", POINTS)
    check(status == 0 and "next: " in out, "a model of points is trained", out + err)
    model, images = "runs/points/best.capl", sorted(glob.glob("runs/points/evaluation/*.png"))[:3]
    status, out, err = capl("verify", model)
    check(status == 0 and "allowed): ok" in out, "verify", out + err)
    status, out, err = capl("info", model)
    check(status == 0 and "x and y of gap, piece" in out and "mae " in out and "decoding" not in out, "info", out + err)
    status, out, err = capl("predict", model, *images)
    rows = [line.split("\t") for line in out.splitlines()]
    check(status == 0 and len(rows) == len(images) == 3 and all(len(row) == 5 for row in rows), "predict", out + err)
    status, out, err = capl("predict", model, *images, "--json")
    objects = [json.loads(line)["points"] for line in out.splitlines()]
    same = all(f"{o['gap'][0]:.2f}" == row[1] and f"{o['piece'][1]:.2f}" == row[4] for o, row in zip(objects, rows))
    check(status == 0 and same, "the same as JSON", out + err)
    for words, expected in {("--top=2",): "this one gives points", ("--chars=a",): "gives points"}.items():
        status, out, err = capl("predict", model, images[0], *words)
        check(status == 1 and expected in err, f"refuses {words}", out + err)
    status, out, err = capl("eval", model, "--data=" + os.path.dirname(images[0]))
    check(status == 1 and "capl eval reads texts and classes; this model gives points" in err, "eval says what it reads", out + err)


def numbers():
    status, out, err = run("numbers", NUMBERS)
    check(status == 0, "a model of numbers is trained", out + err)
    image = sorted(glob.glob("runs/points/evaluation/*.png"))[0]
    status, out, err = capl("predict", "runs/numbers/best.capl", image, "--json")
    check(status == 0 and 50 < json.loads(out)["numbers"]["angle"] < 150, "its numbers are in their unit", out + err)
    status, out, err = capl("verify", "runs/numbers/best.capl")
    check(status == 0, "verify", out + err)


def refusals():
    for options, expected in {
            'output = "points"': 'output = "points" needs the names of 1 to 32 points',
            'output = "numbers", names = {"a"}, std = {0}': "std is a list of 1 numbers above 0, one for each name",
            'output = "numbers", names = {"a"}, mean = {1, 2}': "mean is a list of 1 numbers, one for each name",
            'output = "maks"': "unknown output 'maks'; known: text, class, points, numbers"}.items():
        status, out, err = run("wrong", "--- capl: 1\ncapl.model(nn.Linear(2, 2), {" + options + "})\n")
        check(status == 1 and expected in err and "wrong.lua:2:" in err, f"refuses {options}", out + err)


def main():
    points()
    numbers()
    refusals()


in_empty_folder(main)
