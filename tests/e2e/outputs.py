"""Models that give points, numbers and several things, of images and series: trained, saved, verified, used by predict; what capl.model says of wrong options.

SPDX-License-Identifier: Apache-2.0
"""
import csv
import glob
import json
import math
import os
import re

from program import capl, check, in_empty_folder

HEAD = """--- capl: 1
--- needs: read=sliders
local p = capl.params {steps = 8}
local train_part, val_part = data.split(data.list("sliders/labels.jsonl", {points = "points", boxes = "boxes",
  numbers = {angle = "angle"}, width = 320, height = 160, channels = 3}), {val = 0.25})
local function loader(role)
  return data.loader{source = role == "train" and train_part or val_part, role = role, batch = 4, workers = 0}
end
local function net(outputs)
  return nn.Sequential{nn.Conv2d(3, 4, 5, {stride = 4}), nn.ReLU(), nn.AdaptiveAvgPool2d({2, 4}), nn.Flatten(), nn.Linear(32, outputs)}
end
local function fit(model, loss, meter)
  train.fit{model = model, optimizer = optim.AdamW(model:parameters(), {lr = 1e-2}), steps = p.steps,
    train = loader("train"), val = loader("val"), loss = loss, meter = meter}
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


# What has no meter: trained by a loss alone, chosen by the points.
REST = HEAD + """
local Net = nn.class("Net")
function Net:init()
  self.body, self.head, self.last = net(16), nn.Linear(16, 2 * 6 + 2 + 2 * 3), nn.ConvTranspose2d(3, 3, 8, {stride = 8})
  self.first = nn.Conv2d(3, 3, 8, {stride = 8})
end
function Net:forward(x)
  local y = self.head(self.body(x))
  return {boxes = y:narrow(2, 1, 12):reshape(-1, 2, 6), set = y:narrow(2, 13, 2), picture = self.last(self.first(x)),
    wave = y:narrow(2, 15, 6):reshape(-1, 3, 2)}
end
local model = Net()
capl.model(model, {outputs = {
  boxes = {kind = "boxes", names = {"gap", "piece"}, threshold = 0.1}, set = {kind = "classes", names = {"turned", "flat"}},
  picture = {kind = "image", channels = 3}, wave = {kind = "series", names = {"x", "y"}, steps = 3, mean = {160, 80}, std = {90, 40}},
}})
fit(model, function(out, batch)
  local box = batch.boxes:narrow(2, 1, 2)
  local turned = batch.angle:abs():gt(1):to("f32")
  return nn.smooth_l1(out.boxes:narrow(3, 1, 4), box:narrow(3, 1, 4)) + nn.mse(out.picture, batch.image)
    + nn.mse(out.set:narrow(2, 1, 1), turned) + nn.mse(out.wave, batch.points:narrow(2, 1, 3):narrow(3, 1, 2) / 100)
end, {boxes = function(val)
  return train.LocalizationMeter{points = {1, 2}, loader = val, decode = function(out) return out:narrow(3, 1, 2) end}
end})
"""


def rest():
    status, out, err = run("rest", REST)
    check(status == 0 and "next: " in out, "boxes, classes, images and series are trained", out + err)
    status, out, err = capl("verify", "runs/rest/best.capl")
    check(status == 0, "verify", out + err)
    status, out, err = capl("predict", "runs/rest/best.capl", "sliders/00.png", "--json", "--out=rest", "--overlay=drawn")
    one = json.loads(out)
    check(status == 0 and len(one["wave"]["series"]) == 3 and one["picture"]["image"] == {"width": 320, "height": 160}
          and all(b["class"] in ("gap", "piece") for b in one["boxes"]["boxes"]), "predict", out + err)
    check(os.path.isfile("rest/00_picture.png") and os.path.isfile("drawn/00.png"), "pictures", str(os.listdir("rest")))
    status, out, err = capl("eval", "runs/rest/best.capl", "--data=sliders/labels.jsonl", "--output=picture")
    check(status == 1 and "00_target.png: cannot be read" in err and "write it, or move the image away" in err,
          "eval of an image wants a target image", out + err)
    status, out, err = capl("eval", "runs/rest/best.capl", "--data=sliders/labels.jsonl", "--output=boxes", "--json", "--out=found")
    check(status == 0 and json.loads(out)["n"] == 12 and os.path.isfile("found/samples.png"), "eval of boxes", out + err)


def points():
    status, out, err = capl("generate", "--preset=slider", "--n=12", "--seed=2", "--out=sliders")
    check(status == 0, "generate", out + err)
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
    status, out, err = capl("eval", model, "--data=sliders/labels.jsonl", "--json")
    check(status == 0 and json.loads(out)["gap_mae"] > 0 and json.loads(out)["n"] == 12, "eval of a list", out + err)
    status, out, err = capl("eval", model, "--data=sliders/labels.jsonl", "--points=nose")
    check(status == 1 and "nose" in err and "labels.jsonl" in err, "a column that is not there", out + err)
    status, out, err = capl("predict", model, "sliders/00.png", "--overlay=drawn")
    check(status == 0 and os.path.isfile("drawn/00.png"), "an overlay", out + err)
    status, out, err = capl("predict", model, "sliders/00.png", "--out=drawn")
    check(status == 1 and "--out is for models that give masks or images; this one gives points" in err, "no pictures", err)


def numbers():
    status, out, err = run("numbers", NUMBERS)
    check(status == 0, "a model of numbers is trained", out + err)
    image = sorted(glob.glob("runs/points/evaluation/*.png"))[0]
    status, out, err = capl("predict", "runs/numbers/best.capl", image, "--json")
    check(status == 0 and 50 < json.loads(out)["numbers"]["angle"] < 150, "its numbers are in their unit", out + err)
    status, out, err = capl("verify", "runs/numbers/best.capl")
    check(status == 0, "verify", out + err)
    status, out, err = capl("eval", "runs/numbers/best.capl", "--data=sliders/labels.jsonl", "--json")
    check(status == 0 and json.loads(out)["n"] == 12, "eval of a list", out + err)


SEVERAL = """--- capl: 1
local source = data.slider{count = 8, fixed = true, seed = 3, width = 240, height = 128}
local loader = data.loader{source = source, batch = 8, role = "train"}
local Net = nn.class("Net")
function Net:init()
  self.body, self.heat, self.mask = nn.Conv2d(3, 8, 3, {stride = 4, padding = 1}), nn.Conv2d(8, 2, 1), nn.Conv2d(8, 3, 1)
  self.numbers = nn.Linear(8, 2)
end
function Net:forward(x)
  local f = self.body(x):relu()
  local two = self.numbers(f:mean({3, 4}))
  return {heat = self.heat(f), mask = self.mask(f), numbers = two, set = two, picture = f:narrow(2, 1, 3)}
end
local model = Net()
capl.model(model, {outputs = {
  heat = {kind = "points", names = {"a", "b"}, decoding = "heatmap"}, mask = {kind = "mask", names = {"bg", "x", "y"}},
  numbers = {kind = "numbers", names = {"u", "v"}, mean = {1, 2}, std = {2, 3}},
  set = {kind = "classes", names = {"red", "blue"}}, picture = {kind = "image", channels = 3},
}})
for batch in loader:epoch(1) do model(batch.image) end
capl.save_model(capl.run_folder() .. "/m.capl", model)
"""


def several():
    status, out, err = run("several", SEVERAL)
    check(status == 0, "a model of several outputs is saved", out + err)
    model = "runs/several/m.capl"
    status, out, err = capl("verify", model)
    check(status == 0 and "8 of 8 sets of classes the same: ok" in out, "verify", out + err)
    status, out, err = capl("info", model)
    check(status == 0 and "mask: a mask of 3 classes: bg, x, y" in out and "picture: an RGB image" in out, "info", out + err)
    status, out, err = capl("predict", model, "sliders", "--json", "--out=said", "--overlay=over")
    one = json.loads(out.splitlines()[0])
    check(status == 0 and set(one) == {"heat", "mask", "numbers", "set", "picture", "path"}, "predict", out + err)
    check(abs(sum(one["mask"]["mask"].values()) - 1) < 1e-6 and set(one["numbers"]["numbers"]) == {"u", "v"}, "by name", out)
    check(len(os.listdir("said")) == 24 and len(os.listdir("over")) == 12, "pictures", str(os.listdir("said")))
    with open("heat.csv", "w", encoding="utf-8") as file:
        file.write("path,a_x,a_y,b_x,b_y\n")
        for line in capl("predict", model, "sliders", "--json")[1].splitlines():
            said = json.loads(line)
            at = said["heat"]["points"]
            file.write(",".join([said["path"]] + [f"{v:.2f}" for v in at["a"] + at["b"]]) + "\n")
    status, out, err = capl("eval", model, "--data=heat.csv", "--output=heat", "--json")
    check(status == 0 and json.loads(out)["mae"] < 0.01 and json.loads(out)["n"] == 12, "heat maps are as predict has them", out + err)
    status, out, err = capl("eval", model, "--data=sliders/labels.jsonl", "--output=nose")
    check(status == 1 and "no output 'nose'; it has heat, mask, numbers, picture, set" in err, "no such output", err)


SERIES = """--- capl: 1
local p = capl.params {steps = 6}
local set = data.series(data.pm25{days = 120, seed = 1}, {target = {"pm25", "d2m"}, features = {"t2m", "blh"}, window = 5, horizon = 2})
local function loader(role) return data.loader{source = set[role], role = role, batch = 8, workers = 0} end
local Net = nn.class("Net")
function Net:init() self.head = nn.Linear(10, 2) end
function Net:forward(x) return self.head(x:reshape(-1, 10)) end
local model = Net()
capl.model(model, {output = "numbers"})
train.fit{model = model, optimizer = optim.AdamW(model:parameters(), {lr = 1e-2}), steps = p.steps, train = loader("train"),
  val = loader("val"), loss = function(output, batch) return nn.mse(output, batch.value) end,
  meter = function(val) return train.RegressionMeter{loader = val, series = set} end}
"""


def errors_of_rows(model):
    """eval compares a window's numbers with those two rows later, of rows that have them."""
    status, out, err = capl("generate", "--preset=pm25", "--days=30", "--out=days.csv")
    check(status == 0, "generate", out + err)
    with open("days.csv", encoding="utf-8") as file:
        days = list(csv.DictReader(file))
    status, out, err = capl("predict", model, "days.csv", "--json")
    said = [json.loads(line)["numbers"] for line in out.splitlines()]
    off = [[float(day[name]) - now[name] for name in ("pm25", "d2m")] for now, day in zip(said, days[6:]) if day["pm25"] and day["d2m"]]
    status, out, err = capl("eval", model, "--data=days.csv", "--json")
    got = json.loads(out) if status == 0 else {}
    for k, name in enumerate(("pm25", "d2m")):
        expected = math.sqrt(sum(row[k] ** 2 for row in off) / len(off))
        check(abs(got.get(name + "_rmse", -1) - expected) < 1e-4 * expected and got["n"] == len(off), "eval of rows, " + name, out + err)
    status, out, err = capl("eval", model, "--data=rows.csv")
    check(status == 1 and "rows.csv has no column 'pm25' to compare with" in err, "eval of rows without truth", out + err)


def series():
    status, out, err = run("series", SERIES)
    check(status == 0 and "predict runs/series/best.capl FILE.csv" in out, "a model of series is trained", out + err)
    check(re.search(r"^pm25: +R2 .*\nd2m: +R2 ", out, re.M), "each target has its errors", out)
    model = "runs/series/best.capl"
    status, out, err = capl("info", model)
    check(status == 0 and "input: 5 steps of t2m, blh" in out and "reads      pm25, d2m" in out, "info", out + err)
    status, out, err = capl("verify", model)
    check(status == 0, "verify", out + err)
    with open("rows.csv", "w", encoding="utf-8") as file:
        file.write("date,blh,t2m\n" + "".join(f"2020-01-{d:02d},{d},{20 - d}\n" for d in range(1, 8)))
    status, out, err = capl("predict", model, "rows.csv")
    rows = [line.split("\t") for line in out.splitlines()]
    check(status == 0 and [r[0] for r in rows] == ["2020-01-05", "2020-01-06", "2020-01-07"], "predict", out + err)
    status, out, err = capl("predict", model, "rows.csv", "--json")
    last = json.loads(out.splitlines()[2])["numbers"]
    check(status == 0 and [f"{last[name]:.6g}" for name in ("pm25", "d2m")] == rows[2][1:], "as JSON", out + err)
    errors_of_rows(model)
    with open("hole.csv", "w", encoding="utf-8") as file:
        file.write("date,blh,t2m\n" + "".join(f"2020-01-0{d},{'' if d < 3 else d},2\n" for d in range(1, 6)))
    status, out, err = capl("predict", model, "hole.csv")
    check(status == 0 and "hole.csv: 2 cells without a number have that of the row before, or the mean" in err, "a hole", err)
    for name, text, expected in (
            ("gone", "date,blh\n2020-01-01,1\n", "gone.csv has no column 't2m', which the model takes"),
            ("word", "date,blh,t2m\n2020-01-01,1,warm\n", "word.csv:2: 'warm' in column t2m is no number"),
            ("few", "date,blh,t2m\n2020-01-01,1,2\n", "few.csv has 1 rows; the model takes 5 at a time"),
            ("back", "date,blh,t2m\n" + "".join(f"2020-01-0{d},1,2\n" for d in (1, 2, 3, 5, 4)),
             "back.csv:6: date 2020-01-04 is not after 2020-01-05")):
        with open(name + ".csv", "w", encoding="utf-8") as file:
            file.write(text)
        status, out, err = capl("predict", model, name + ".csv")
        check(status == 1 and expected in err, f"refuses {name}", out + err)


def refusals():
    for options, expected in {
            'output = "points"': 'output = "points" needs the names of 1 to 64 points',
            'output = "numbers", names = {"a"}, std = {0}': "std is a list of 1 numbers above 0, one for each name",
            'output = "numbers", names = {"a"}, mean = {1, 2}': "mean is a list of 1 numbers, one for each name",
            'output = "maks"': "unknown output 'maks'; did you mean 'mask'?"}.items():
        status, out, err = run("wrong", "--- capl: 1\ncapl.model(nn.Linear(2, 2), {" + options + "})\n")
        check(status == 1 and expected in err and "wrong.lua:2:" in err, f"refuses {options}", out + err)


def main():
    points()
    numbers()
    rest()
    several()
    series()
    refusals()


in_empty_folder(main)
