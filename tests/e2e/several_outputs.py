"""A model with several outputs: every metric is called by its output, in all files and commands.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os

from program import capl, check, in_empty_folder

RECIPE = """--- capl: 1
local p = capl.params {steps = 6, metric = "gap.mae"}
local function loader(role, seed)
  return data.loader{source = data.slider{seed = seed, count = 16, fixed = true, channels = 1}, role = role, batch = 4, workers = 0}
end
local Net = nn.class("Net")
function Net:init()
  self.body = nn.Sequential{nn.Conv2d(1, 4, 5, {stride = 4}), nn.ReLU(), nn.AdaptiveAvgPool2d({2, 4}), nn.Flatten()}
  self.gap, self.angle = nn.Linear(32, 2), nn.Linear(32, 1)
end
function Net:forward(x)
  local h = self.body(x)
  return {gap = self.gap(h), angle = self.angle(h)}
end
capl.expect{at_most = {["gap.mae"] = 500}}
local model = Net()
train.fit{
  model = model, optimizer = optim.AdamW(model:parameters(), {lr = 1e-2}), steps = p.steps, eval_every = 2,
  train = loader("train", 1), val = loader("val", 2), early_stop = {metric = "angle.rmse", patience = 50},
  meter = {gap = "localization", angle = "regression"}, METRIC
  loss = function(o, batch)
    local gap = batch.points:narrow(2, 1, 1):narrow(3, 1, 2):reshape(-1, 2)
    return nn.smooth_l1(o.gap / 100, gap / 100) + nn.mse(o.angle, batch.angle)
  end,
}
"""


def write(metric):
    with open("several.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE.replace("METRIC", metric))


def is_trained():
    write("metric = p.metric,")
    status, out, err = capl("several.lua")
    check(status == 0 and "gap:           MAE " in out and "angle:         R2 " in out, "a run with two outputs", out + err)
    check("as expected" in out or "expected" in out, "what is expected of an output", out)
    with open("runs/several/metrics.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if "val_loss" in row]
    check(len(rows) == 3 and all("val_gap.mae" in row and "val_angle.rmse" in row for row in rows), "metrics.jsonl", str(rows[:1]))
    with open("runs/several/evaluation.json", encoding="utf-8") as file:
        e = json.load(file)
    least = min(row["val_gap.mae"] for row in rows)
    check(e["main"] == "gap.mae" and e["better"] == "min" and abs(e["value"] - least) < 1e-6, "the best weights are those of the least gap.mae", str(e["value"]))
    check(e["outputs"]["gap"]["by_point"][0]["mae"] == e["gap.mae"] and e["outputs"]["angle"]["kind"] == "regression", "evaluation.json by output", str(e)[:400])
    overlay = e["outputs"]["gap"]["worst"][0]["overlay"]
    check(os.path.exists("runs/several/" + overlay) and "overlay-gap" in overlay, "a picture of the worst points", overlay)
    check({"samples-gap.png", "samples-angle.png"} <= set(os.listdir("runs/several")), "sheets of both", str(os.listdir("runs/several")))
    with open(glob.glob("runs/several/events*")[0], "rb") as file:
        events = file.read()
    check(b"val_gap/mae" in events and b"samples-gap" in events, "TensorBoard")
    with open("runs/several/report.html", encoding="utf-8") as file:
        html = file.read()
    check("<figcaption>angle RMSE (val)" in html and html.count("gap points within 5 px") > 1, "charts of both outputs", html[html.find("angle RMSE") - 200:][:400])
    check("gap MAE (val)" in html and "Output gap" in html and "Output angle" in html and "By point" in html, "the report")


def commands_know_it():
    status, out, err = capl("runs")
    check(status == 0 and "gap.mae (val)" in out, "runs", out + err)
    status, out, err = capl("monitor", "runs/several", "--count=1")
    check("val gap MAE " in out, "monitor", out + err)
    status, out, err = capl("several.lua", "--metric=angle.rmse", "--steps=4")
    check(status == 0, "another metric chooses", out + err)
    status, out, err = capl("diff", "runs/several", "runs/several-2", "--out=none")
    check(status == 0 and "gap MAE" in out and "val_gap.mae a" in out, "diff", out + err)
    status, out, err = capl("sweep", "several.lua", "--grid", "steps=2,6", "--metric=gap.mae", "--out=S")
    check(status == 0 and "val_gap.mae" in out, "sweep", out + err)
    with open("S/results.csv", encoding="utf-8") as file:
        head, *rows = [line.strip().split(",") for line in file]
    values = [float(row[head.index("val_gap.mae")]) for row in rows]
    check(values == sorted(values) and values[0] < values[1], "the least error comes first", str(values))
    status, out, err = capl("sweep", "several.lua", "--grid", "steps=2,6", "--metric=gap.mea", "--out=Q")
    check(status == 1 and "did you mean val_gap.mae?" in out + err, "sweep names the nearest", out + err)
    status, out, err = capl("doctor", "runs/several")
    check(status in (0, 1) and "val_" not in err, "doctor reads the run", out + err)


def refusals():
    for metric, expected in {
            "": 'several outputs are measured (angle, gap), and metric is missing',
            'metric = "gpa.mae",': 'metric = "gpa.mae": the meters are angle, gap',
            'metric = "mae",': 'metric = "mae": the meters are angle, gap',
            'metric = "gap.mea",': "unknown metric 'gap.mea'; did you mean 'gap.mae'?"}.items():
        write(metric)
        status, out, err = capl("several.lua")
        check(status == 1 and expected in err, f"refuses '{metric}'", out + err)


def main():
    is_trained()
    commands_know_it()
    refusals()


in_empty_folder(main)
