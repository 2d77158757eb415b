"""A folder of classes, from files to predictions: check, training, report, model file, predict, eval, verify, info, data.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import re
import shutil

import run_folder
from program import capl, check, in_empty_folder

RECIPE = """--- capl: 1
--- needs: read=set
local p = capl.params {steps = 60, data = "set"}
local all = data.folder(p.data, {label = "folder", width = 32, height = 32, channels = 1})
local some, rest = data.split(all, {val = 0.25})
local train_set = data.loader{source = some, role = "train", batch = 16, workers = 0}
local model = nn.Sequential{
  nn.Conv2d(1, 8, 3, {padding = 1, stride = 2}), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
  nn.Linear(8 * 8 * 8, train_set.classes)}
train.fit{
  model = model, optimizer = optim.AdamW(model:parameters(), {lr = 5e-3}), steps = p.steps,
  train = train_set, val = data.loader{source = rest, role = "val", batch = 16, workers = 0},
  loss = function(output, batch) return nn.cross_entropy(output, batch.target) end,
}
"""

NAMES = {"0": "null", "1": "eins é", "7": "七"}


def images():
    """set/NAME/N.png: single digits in folders named in three scripts."""
    status, out, err = capl("generate", "--out=drawn", "--n=90", "--charset=017", "--length=1", "--width=32", "--height=32")
    check(status == 0, "generate", out + err)
    for digit, name in NAMES.items():
        os.makedirs("set/" + name)
        for path in sorted(glob.glob(f"drawn/{digit}_*.png")):
            shutil.copy(path, f"set/{name}/{os.path.basename(path)[2:]}")
    with open("classes.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE)


def trains():
    status, out, err = capl("check", "classes.lua")
    check(status == 0, "check", out + err)
    status, out, err = capl("classes.lua")
    check(status == 0, "training", out + err)
    for expected in ("accuracy ", "by class:", "next: ", "final accuracy="):
        check(expected in out, f"the run says {expected}", out)
    for name in ("samples.png", "confusion.png", "report.html", "evaluation.json"):
        check(os.path.exists("runs/classes/" + name), "it leaves " + name, out)
    with open("runs/classes/evaluation.json", encoding="utf-8") as file:
        evaluation = json.load(file)
    check(evaluation["main"] == "accuracy" and {c["name"] for c in evaluation["classes"]} <= set(NAMES.values()), "classes by name", str(evaluation))


def is_used():
    model = "runs/classes/best.capl"
    status, out, err = capl("verify", model)
    check(status == 0 and "classes the same: ok" in out, "verify", out + err)
    status, out, err = capl("info", model)
    check(status == 0 and "one of 3 classes: eins é, null, 七" in out and "accuracy" in out, "info", out + err)
    paths = sorted(glob.glob("set/七/*.png"))[:4]
    status, out, err = capl("predict", model, *paths, "--top=3")
    rows = [line.split("\t") for line in out.splitlines()]
    check(status == 0 and len(rows) == 4 and all(len(row) == 7 and row[1] in NAMES.values() for row in rows), "predict", out + err)
    check(all(abs(sum(float(p) for p in row[2::2]) - 1) < 1e-3 for row in rows), "probabilities of all classes", out)
    status, out, err = capl("predict", model, *paths, "--json")
    objects = [json.loads(line) for line in out.splitlines()]
    check([o["class"] for o in objects] == [row[1] for row in rows], "the same as JSON", out + err)
    status, out, err = capl("eval", model, "--data=set", "--errors=wrong.tsv", "--json")
    r = json.loads(out)
    wrong = open("wrong.tsv", encoding="utf-8").read().splitlines()
    check(status == 0 and r["n"] == 90 and len(wrong) == round(90 * (1 - r["accuracy"])), "eval", out + err)
    check(r["accuracy"] > 0.6, "it has learned something", out)
    with open("list.tsv", "w", encoding="utf-8") as file:
        file.write("".join(f"{path}\t{path.split('/')[1]}\n" for path in sorted(glob.glob("set/*/*.png"))))
    status, out, err = capl("eval", model, "--data=list.tsv", "--json")
    check(status == 0 and json.loads(out)["accuracy"] == r["accuracy"], "eval of a list", out + err)
    status, out, err = capl("preview", "classes.lua")
    check(status == 0 and os.path.exists("preview.png"), "preview", out + err)


def refusals():
    model, path = "runs/classes/best.capl", sorted(glob.glob("set/七/*.png"))[0]
    for words, expected in {("--chars=0-9",): "are for texts", ("--beam=4",): "are for texts", ("--top=0",): "from 1 to 16, got 0"}.items():
        status, out, err = capl("predict", model, path, *words)
        check(status == 1 and expected in err, f"refuses {words}", out + err)
    os.makedirs("other/acht")
    shutil.copy(path, "other/acht")
    status, out, err = capl("eval", model, "--data=other")
    check(status == 1 and "'acht' is none of the 3 classes" in err and "the model knows 3 classes: eins é, null, 七" in err, "an unknown class", out + err)


def is_looked_at():
    status, out, err = capl("data", "stat", "set", "--label=folder")
    check(status == 0 and "3 classes" in out and "charset" not in out and "七" in out, "data stat", out + err)
    status, out, err = capl("data", "check", "set", "--label=folder")
    check(status == 0 and "charset" not in out, "data check", out + err)


WIDE = """--- capl: 1
--- needs: read=many
local all = data.folder("many", {label = "folder", width = 20, height = 16, channels = 1})
local some, rest = data.split(all, {val = 0.5})
local train_set = data.loader{source = some, role = "train", batch = 64, workers = 0}
local model = nn.Sequential{nn.Flatten(), nn.Linear(320, 64), nn.ReLU(), nn.Linear(64, train_set.classes)}
train.fit{
  model = model, optimizer = optim.AdamW(model:parameters(), {lr = 5e-3}), steps = 60, eval_every = 60,
  train = train_set, val = data.loader{source = rest, role = "val", batch = 64, workers = 0},
  loss = function(output, batch) return nn.cross_entropy(output, batch.target) end,
}
"""


def a_thousand():
    """Classes beyond what a table or a picture can show: the worst of them are shown, and it says so."""
    for k in range(1000):
        os.makedirs(f"many/类 {k:03}")
        for i in range(2):
            cells = [200 * (k >> bit & 1) + 20 + i for bit in range(10)]
            with open(f"many/类 {k:03}/{i}.png", "wb") as file:
                file.write(run_folder.png(20, 16, lambda x, y: cells[x // 4 + 5 * (y // 8)]))
    with open("many.lua", "w", encoding="utf-8") as file:
        file.write(WIDE)
    status, out, err = capl("many.lua")
    check(status == 0 and "initial loss 6.9" in out and "worst classes: 类 " in out, "1,000 classes", out + err)
    page = open("runs/many/report.html", encoding="utf-8").read()
    check(re.search(r"By class: 40 of lowest recall of \d{3}<", page) and len(page) < 200_000, "the report shows the worst of them", str(len(page)))
    with open("runs/many/evaluation.json", encoding="utf-8") as file:
        labels = json.load(file)["confusion"]["labels"]
    check(len(labels) == 41 and labels[-1] == "other" and os.path.exists("runs/many/confusion.png"), "the most confused ones, and others", str(labels))
    model = "runs/many/best.capl"
    status, out, err = capl("verify", model)
    check(status == 0 and "classes the same: ok" in out, "verify", out + err)
    status, out, err = capl("info", model)
    check(status == 0 and "one of 1000 classes: 类 000, " in out and "… and 900 more" in out, "info", out + err)
    status, out, err = capl("predict", model, "many/类 007/0.png", "--top=16")
    check(status == 0 and len(out.split("\t")) == 33 and out.count("类") == 17, "predict", out + err)
    status, out, err = capl("eval", model, "--data=many", "--json")
    check(status == 0 and json.loads(out)["n"] == 2000 and json.loads(out)["accuracy"] > 0.05, "eval", out + err)
    status, out, err = capl("data", "stat", "many", "--label=folder")
    check(status == 0 and "1000 classes, each 2 times" in out, "data stat", out + err)


def main():
    images()
    a_thousand()
    trains()
    is_used()
    refusals()
    is_looked_at()


in_empty_folder(main)
