"""Kinds of labels and outputs beyond texts, classes, masks and points: trained, saved, verified, predicted and evaluated from files.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import random

from program import capl, check, in_empty_folder
from run_folder import png

NAMES = ["left", "middle", "right"]
N = 48

RECIPE = """--- capl: 1
--- needs: read=set
local p = capl.params {steps = STEPS}
local some, rest = data.split(data.folder("set", {SOURCE, width = 24, height = 8}), {val = 0.25})
local function loader(source, role) return data.loader{source = source, role = role, batch = 16, workers = 0, normalize = "unit"} end
local model = nn.Sequential{nn.Flatten(), nn.Linear(192, OUTPUTS)SHAPE}
DESCRIPTION
train.fit{
  model = model, optimizer = optim.AdamW(model:parameters(), {lr = 1e-2}), steps = p.steps, eval_every = p.steps,
  train = loader(some, "train"), val = loader(rest, "val"), METER
  loss = function(output, batch) return LOSS end,
}
"""


def images():
    """set/N.png: 24 x 8 px, a bright square in some of three places; beside it N.txt with the names of these."""
    dice = random.Random(1)
    os.makedirs("set")
    for i in range(N):
        there = [name for name in NAMES if dice.random() < 0.4]
        noise = [dice.randrange(60) for _ in range(192)]
        with open(f"set/{i:02}.png", "wb") as file:
            file.write(png(24, 8, lambda x, y: noise[24 * y + x] + (180 if NAMES[x // 8] in there and 2 <= y < 6 and 2 <= x % 8 < 6 else 0)))
        with open(f"set/{i:02}.txt", "w", encoding="utf-8") as file:
            file.write("\n".join(there) + "\n")
        with open(f"set/{i:02}.json", "w", encoding="utf-8") as file:
            json.dump({"label": there, "series": [[x, 2 * x + 1] for x in (float(name in there) for name in NAMES)],
                       "boxes": [[8 * k + 2, 2, 8 * k + 6, 6, k] for k, name in enumerate(NAMES) if name in there]}, file)


def trained(name, **words):
    """Trains, saves and verifies a model -> its folder and evaluation.json."""
    text = RECIPE
    for key, value in {"STEPS": "60", "SHAPE": "", "METER": "", "DESCRIPTION": "", **words}.items():
        text = text.replace(key, value)
    with open(name + ".lua", "w", encoding="utf-8") as file:
        file.write(text)
    status, out, err = capl(name + ".lua")
    check(status == 0, f"training of {name}", out + err)
    model = f"runs/{name}/best.capl"
    status, said, err = capl("verify", model)
    check(status == 0 and "ok" in said, f"verify of {name}", said + err)
    with open(f"runs/{name}/evaluation.json", encoding="utf-8") as file:
        e = json.load(file)
    check(os.path.isfile(f"runs/{name}/samples.png") and os.path.isfile(f"runs/{name}/report.html"), f"a sheet and a report of {name}", out)
    return model, e, out


def evaluated(model, data, *words):
    status, out, err = capl("eval", model, "--data=" + data, "--json", "--out=evaluated", *words)
    check(status == 0 and os.path.isfile("evaluated/samples.png"), f"eval of {model} on {data}", out + err)
    return json.loads(out)


def refused(words, *expected):
    status, out, err = capl(*words)
    check(status == 1 and all(e in err for e in expected), f"refuses {' '.join(words)}", out + err)


def classes():
    model, e, out = trained("classes", SOURCE='label = ".txt", classes = "auto", several = true', OUTPUTS="3",
                            LOSS="nn.bce_with_logits(output, batch.onehot)")
    check(e["kind"] == "multilabel" and e["main"] == "map" and e["map"] > 0.9, "classes are found", out)
    check([c["name"] for c in e["classes"]] == NAMES and "mAP " in out and "worst classes:" in out, "classes by name", str(e)[:400])
    status, out, err = capl("info", model)
    check(status == 0 and "any of 3 classes from 0.5 on: left, middle, right" in out, "info", out + err)
    r = evaluated(model, "set", "--errors=wrong.tsv")
    with open("wrong.tsv", encoding="utf-8") as file:
        check(r["n"] == N and r["map"] > 0.9 and len(file.readlines()) == round(N * (1 - r["exact_match"])), "eval", str(r)[:400])
    with open("list.csv", "w", encoding="utf-8") as file:
        for i in range(N):
            file.write("path,label\n" if i == 0 else "")
            with open(f"set/{i:02}.txt", encoding="utf-8") as names:
                file.write(f"set/{i:02}.png,{';'.join(names.read().split())}\n")
    for data, words in {"set": ["--label=.json"], "list.csv": ["--several=;"]}.items():
        again = evaluated(model, data, *words)
        check((again["map"], again["exact_match"]) == (r["map"], r["exact_match"]), f"the same of {data} {words}", str(again)[:400])
    status, out, err = capl("data", "pack", "set", "--label=.json", "--several=|", "--out=packed")
    check(status == 0, "pack", out + err)
    check(evaluated(model, "packed")["map"] == r["map"], "the same of a database")
    looked_at()


def looked_at():
    status, out, err = capl("data", "stat", "list.csv", "--several=;")
    check(status == 0 and f"{N}, 3 classes, " in out and "images of none" in out and "middle" in out, "data stat", out + err)
    status, out, err = capl("data", "check", "set", "--label=.txt", "--several=|")
    check(status == 0 and "images of no class, such as" in out, "data check", out + err)
    with open("list.csv", encoding="utf-8") as file:
        text = file.read()
    with open("bad.csv", "w", encoding="utf-8") as file:
        file.write(text.replace("left;middle", "left;midle", 1).replace("left;right", "left;left", 1))
    refused(["eval", "runs/classes/best.capl", "--data=bad.csv", "--several=;"], "2 of 48 files have no usable label",
            "'midle' is none of the 3 classes", "its label has 'left' twice", "the model knows 3 classes: left, middle, right")


def series():
    """Of each place in the order of the steps: whether there is a square, and twice that plus one."""
    model, e, out = trained("series", SOURCE='numbers = {wave = "series"}', OUTPUTS="6", SHAPE=", nn.Unflatten(2, {3, 2})",
                            DESCRIPTION='capl.model(model, {output = "series", names = {"a", "b"}, steps = 3})',
                            METER='meter = function(val) return train.RegressionMeter{field = "wave", names = {"a", "b"}, loader = val} end,',
                            LOSS="nn.mse(output:reshape(-1, 6), batch.wave)")
    check(e["by_number"][1]["name"] == "b" and e["r2"] > 0.5, "series are learned", str(e)[:400])
    r = evaluated(model, "set")
    check(r["n"] == N and [row["name"] for row in r["by_number"]] == ["a", "b"], "eval by column", str(r)[:400])
    check(r["a_r2"] > 0.5 and r["b_r2"] > 0.5 and r["b_rmse"] > r["a_rmse"], "in their units", str(r)[:400])
    refused(["eval", model, "--data=set", "--numbers=one"], 'set/00.json: has no key "one"')


def boxes():
    model, e, out = trained("boxes", SOURCE='boxes = "boxes"', OUTPUTS="21", STEPS="200", SHAPE=", nn.Unflatten(2, {3, 7})",
                            DESCRIPTION='capl.model(model, {output = "boxes", names = {"left", "middle", "right"}})', METER='meter = "detection",', LOSS="""
    nn.bce_with_logits(output:narrow(3, 5, 3), batch.boxes:narrow(3, 5, 1):eq(capl.tensor{0, 1, 2}):to("f32"):sum(2):unsqueeze(2) *
      capl.eye(3):unsqueeze(1)) + nn.smooth_l1(output:narrow(3, 1, 4), capl.tensor{{2, 2, 6, 6}, {10, 2, 14, 6}, {18, 2, 22, 6}}:unsqueeze(1)
      :expand(output:size(1), 3, 4))""")
    check(e["kind"] == "detection" and e["main"] == "map_50" and [c["name"] for c in e["classes"]] == NAMES, "boxes by class", str(e)[:400])
    r = evaluated(model, "set")
    check(r["n"] == N and r["map_50"] > 0.5 and r["iou"] > 0.5 and "missed" in r["worst"][0], "boxes are found", str(r)[:400])
    refused(["eval", model, "--data=set", "--boxes=nose"], 'set/00.json: has no key "nose"')


def image():
    """Of each image the one without noise: gray, then three channels out of one."""
    for i in range(N):
        with open(f"set/{i:02}.txt", encoding="utf-8") as file:
            there = file.read().split()
        with open(f"set/{i:02}_clean.png", "wb") as file:
            file.write(png(24, 8, lambda x, y: 210 if NAMES[x // 8] in there and 2 <= y < 6 and 2 <= x % 8 < 6 else 30))
    source, words = 'target_image = "_clean.png"', ["--target_image=_clean.png"]
    model, e, out = trained("image", SOURCE=source, OUTPUTS="192", SHAPE=", nn.Unflatten(2, {1, 8, 24})", STEPS="200",
                            DESCRIPTION='capl.model(model, {output = "image", channels = 1, mean = {0.5}, std = {0.25}})',
                            METER='meter = "image",', LOSS="nn.mse(output * 0.25 + 0.5, batch.target_image)")
    check(e["kind"] == "image" and e["main"] == "psnr" and e["psnr"] > 15 and 0 < e["mse"] < e["mae"] < 0.2, "images are learned", str(e)[:400])
    check("PSNR " in out and "psnr" in e["worst"][0] and os.path.isfile("runs/image/" + e["worst"][0]["overlay"]), "the worst ones", str(e)[:400])
    r = evaluated(model, "set", *words)
    check(r["n"] == N and r["psnr"] > 15 and 0 < r["mse"] < r["mae"] < 0.2, "eval", str(r)[:400])
    of_images(model, r)
    with open("one.csv", "w", encoding="utf-8") as file:
        file.write("path,clean\nset/00.png,set/00_clean.png\n")
    one = evaluated(model, "one.csv", "--target_image=clean")
    status, out, err = capl("predict", model, "set/00.png", "--out=drawn", "--json")
    check(status == 0 and json.loads(out)["image"] == {"width": 24, "height": 8}, "predict", out + err)
    os.rename("drawn/00.png", "set/00_clean.png")
    same = evaluated(model, "one.csv", "--target_image=clean")
    check(one["psnr"] < 100 and same["psnr"] == 100 and same["mse"] < 1e-12, "what predict writes is what eval reads", f"{one} {same}"[:400])
    refused(["eval", model, "--data=set"], "set/00_target.png: ", "it is the target image of set/00.png")
    with open("set/00_clean.png", "wb") as file:
        file.write(png(24, 9, lambda x, y: 0))
    refused(["eval", model, "--data=set", *words], "set/00_clean.png: the target image is 24 x 9 px, but its image set/00.png is 24 x 8")


def of_images(model, r):
    """r: what eval said of the folder. The same images by a list and by a database; what capl data says of them."""
    with open("clean.csv", "w", encoding="utf-8") as file:
        file.write("path,clean\n" + "".join(f"set/{i:02}.png,set/{i:02}_clean.png\n" for i in range(N)))
    listed = evaluated(model, "clean.csv", "--target_image=clean")
    status, out, err = capl("data", "pack", "set", "--label=none", "--target_image=_clean.png", "--out=clean")
    check(status == 0 and "48 images with target_image in" in out, "pack", out + err)
    packed = evaluated(model, "clean", "--target_image=true")
    check(r["mse"] == listed["mse"] == packed["mse"] and listed["n"] == packed["n"] == N, "the same of a list and a database",
          f"{listed} {packed}"[:400])
    for words in (["set", "--label=none", "--target_image=_clean.png"], ["clean.csv", "--target_image=clean"], ["clean", "--target_image=true"]):
        status, out, err = capl("data", "stat", *words)
        check(status == 0 and "target_image 48 target images, levels 0.118 to 0.824, mean 0." in out and " of one level alone" in out,
              f"data stat {words}", out + err)
        status, out, err = capl("data", "check", *words)
        check(status == 0 and "note: target images of one level alone: " in out and ", such as " in out, f"data check {words}", out + err)
    with open("bad.csv", "w", encoding="utf-8") as file:
        file.write("path,clean\nset/00.png,set/01_clean.png\nset/01.png,set/gone.png\nset/02.png,set/02.json\n")
    status, out, err = capl("data", "check", "bad.csv", "--target_image=clean")
    check(status == 1 and "target images that cannot be used: 2" in out and "bad.csv:3: set/gone.png: " in out and "bad.csv:4: set/02.json: " in out,
          "data check names files and lines", out + err)
    status, out, err = capl("data", "stat", "set", "--label=none")
    check(status == 0 and "target images" not in out, "other endings are not guessed", out + err)
    with open("set/00_target.png", "wb") as file:
        file.write(png(24, 8, lambda x, y: 9))
    status, out, err = capl("data", "stat", "set", "--label=none")
    check("1 look like some, such as 00_target.png: --target_image=_target.png reads them so" in out, "those of the usual one are", out + err)
    os.remove("set/00_target.png")


def main():
    images()
    boxes()
    classes()
    series()
    image() # the last: its files would be images of the others


in_empty_folder(main)
