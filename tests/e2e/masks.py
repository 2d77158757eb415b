"""Masks in files: what generate writes trains a small segmentation net; damaged files name themselves.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import shutil
import struct

from program import capl, check, in_empty_folder

RECIPE = """--- capl: 1
--- needs: read=set
local all = data.folder("set", {mask = {file = "_mask.png", classes = data.face_classes}, width = 32, height = 32,
  resize = true, channels = 3})
local some, rest = data.split(all, {val = 0.25})
local model = nn.Sequential{nn.Conv2d(3, 16, 3, {padding = 1}), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 19, 1)}
train.fit{
  model = model, optimizer = optim.AdamW(model:parameters(), {lr = 1e-2}), steps = 40, meter = "segmentation",
  train = data.loader{source = some, role = "train", batch = 8, workers = 1, augment = {flip = 0.5, flip_swaps = data.face_swaps}},
  val = data.loader{source = rest, role = "val", batch = 8, workers = 1},
  loss = function(output, batch) return nn.cross_entropy(output, batch.mask) end,
}
"""


def trains():
    status, out, err = capl("generate", "--preset=faces", "--out=set", "--n=24", "--width=64")
    check(status == 0 and len(os.listdir("set")) == 48, "generate", out + err)
    with open("masks.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE)
    status, out, err = capl("check", "masks.lua")
    check(status == 0, "check", out + err)
    status, out, err = capl("masks.lua")
    check(status == 0, "training", out + err)
    folder = max((os.path.join("runs", name) for name in os.listdir("runs")), key=os.path.getmtime)
    with open(folder + "/evaluation.json", encoding="utf-8") as file:
        evaluation = json.load(file)
    check(evaluation["kind"] == "segmentation" and evaluation["accuracy"] > 0.45, "it has learned something", str(evaluation)[:500])
    names = [c["name"] for c in evaluation["classes"]]
    check("hair" in names, "classes have their names", str(names))
    is_used(folder + "/best.capl")


def is_used(model):
    status, out, err = capl("verify", model)
    check(status == 0, "verify", out + err)
    status, out, err = capl("predict", model, "set/07.png", "--json", "--out=said", "--overlay=over")
    check(status == 0 and json.loads(out)["mask"]["hair"] >= 0 and os.path.isfile("over/07.png"), "predict", out + err)
    for name in os.listdir("set"):
        if not name.endswith("_mask.png"):
            shutil.copy("set/" + name, "said/" + name)
    status, out, err = capl("predict", model, *[f"said/{i:02d}.png" for i in range(24)], "--out=masks")
    for name in os.listdir("masks"):
        shutil.copy("masks/" + name, "said/" + name.replace(".png", "_mask.png"))
    status, out, err = capl("eval", model, "--data=said", "--json")
    check(status == 0, "eval of its own masks", out + err)
    same = json.loads(out)
    check(status == 0 and same["n"] == 24 and same["accuracy"] == 1, "its own masks are read as it says them", out + err)
    status, out, err = capl("eval", model, "--data=set", "--json")
    check(status == 0 and 0.3 < json.loads(out)["accuracy"] < same["accuracy"], "eval", out + err)


def refusals():
    shutil.copytree("set", "sound")
    os.remove("set/07_mask.png")
    status, out, err = capl("masks.lua")
    check(status == 1 and "set/07_mask.png" in err and "it is the mask of set/07.png" in err, "a missing mask", out + err)
    shutil.copy("sound/07.png", "set/07_mask.png")
    status, out, err = capl("masks.lua")
    check(status == 1 and "set/07_mask.png: the PNG has colours without a palette" in err, "no mask", out + err)


def is_looked_at():
    status, out, err = capl("data", "stat", "sound", "--mask=_mask.png")
    check(status == 0 and "24 masks, 0 of class 0 alone" in out and "%" in out, "data stat", out + err)
    status, out, err = capl("data", "check", "sound", "--mask=_mask.png", "--label=none")
    check(status == 0 and "nothing found" in out, "data check", out + err)
    status, out, err = capl("data", "check", "set", "--mask=_mask.png", "--label=none")
    check(status == 1 and "masks that cannot be used: 1" in out and "set/07_mask.png" in out, "a mask that is none", out + err)
    status, out, err = capl("data", "pack", "sound", "--mask=_mask.png", "--out=packed")
    check(status == 0 and out.startswith("packed: 24 images with mask in"), "data pack", out + err)
    same = [capl("data", "stat", name, "--mask=_mask.png")[1].split("\n")[-2] for name in ("sound", "packed")]
    check(same[0] == same[1] and "24 masks" in same[0], "a database with masks", str(same))
    status, out, err = capl("data", "pack", "set", "--mask=_mask.png", "--label=none", "--out=bad")
    check(status == 1 and "set: 1 masks that cannot be used; the first: set/07_mask.png" in err and not os.path.exists("bad"),
          "what cannot be used is not packed", out + err)
    with open("list.csv", "w", encoding="utf-8") as file:
        file.write("path,x,y,n,m\nsound/00.png,1,1,1,7\nsound/01.png,65,1,3,7\n")
    fields = ("--points=x y", "--numbers=n,m")
    status, out, err = capl("data", "stat", "list.csv", *fields)
    check(status == 0 and "2 in 2 images, 1 images with one outside" in out and "n: 1 to 3, mean 2; m: 7 to 7" in out, "stat of a list", out + err)
    status, out, err = capl("data", "check", "list.csv", *fields)
    check(status == 1 and "points outside the image: 1" in out and "number m of numbers is 7 everywhere" in out, "check of a list", out + err)


LEVEL = """local t = capl.zeros(1, %d, %d):to("u8")
t:narrow(2, 3, 1):narrow(3, 6, 1):fill_(200)
data.png_write("level/03_mask.png", t)"""


def knows_its_classes():
    """--classes: a level beyond them is an error with its place, as in training."""
    shutil.copytree("sound", "level")
    with open("level/03.png", "rb") as file:
        width, height = struct.unpack(">II", file.read(24)[16:])
    status, out, err = capl("-e", LEVEL % (height, width))
    check(status == 0, "a mask is written", out + err)
    with open("names.txt", "w", encoding="utf-8") as file:
        file.write("".join(f"class {i}\n" for i in range(19)))
    words = ("check", "level", "--mask=_mask.png", "--label=none")
    status, out, err = capl("data", *words)
    check(status == 0 and "masks that cannot be used" not in out, "without classes any level is one", out + err)
    for classes in ("19", "names.txt"):
        status, out, err = capl("data", *words, "--classes=" + classes)
        check(status == 1 and "level/03_mask.png: level 200 at x = 5, y = 2 is none of the 19 classes" in out, classes, out + err)
    status, out, err = capl("data", "check", "sound", "--mask=_mask.png", "--label=none", "--classes=names.txt")
    check(status == 0 and "nothing found" in out, "sound masks", out + err)
    status, out, err = capl("data", "stat", "sound", "--mask=_mask.png", "--classes=names.txt")
    check(status == 0 and "class 0: " in out, "names of the classes", out + err)
    with open("twice.txt", "w", encoding="utf-8") as file:
        file.write("sky\nroad\nsky\n")
    for classes, expected in {"0": "--classes=0: masks have 1 to 256 classes", "none.txt": "none.txt",
                              "twice.txt": "twice.txt:3: sky is in line 1, too"}.items():
        status, out, err = capl("data", *words, "--classes=" + classes)
        check(status == 1 and expected in err, "refuses " + classes, out + err)
    status, out, err = capl("data", "check", "level", "--classes=3")
    check(status == 1 and "--classes is of masks, which --mask names" in err, "classes without masks", out + err)


def main():
    trains()
    refusals()
    is_looked_at()
    knows_its_classes()


in_empty_folder(main)
