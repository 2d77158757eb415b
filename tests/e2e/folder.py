"""recipes/folder.lua on somebody's own folder: names of several kinds, parts that share no image, a result, clear refusals.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import re
import shutil

from program import capl, check, in_empty_folder, machine, recipe

SHORT = ["--max_time=3s", "--batch=16", "--workers=1"]


def images():
    """own/TEXT_N.png; renamed/sub/N-TEXT.png, the same images, text last and in lower case."""
    status, out, err = capl("generate", "--out=own", "--n=160", "--seed=4", "--charset=A-H", "--length=5")
    check(status == 0, "generate", out + err)
    os.makedirs("renamed/sub")
    for path in glob.glob("own/*.png"):
        text, number = re.fullmatch(r"own/(\w+)_(\d+)\.png", path).groups()
        shutil.copy(path, f"renamed/sub/{number}-{text.lower()}.png")


def learns(folder, *words):
    status, out, err = capl(recipe("folder.lua"), "--data=" + folder, *SHORT, *words)
    check(status == 0, f"it runs on {folder}", out + err)
    parts = re.search(r"(\d+) images of 160x60 px to train on, (\d+) to choose the best weights, (\d+) to test on", out)
    check(parts and sum(map(int, parts.groups())) == 160, "every image is in one part", out)
    final = out.rstrip("\n").split("\n")[-1]
    check(re.match(rf"final exact=[\d.]+ .* n={parts.group(3)} ", final), "the last metric is of the third part", final)
    return out, parts.groups()


def reads_names():
    out, parts = learns("own")
    check("5 characters each, out of ABCDEFGH\n" in out, "length and characters are found in the names", out)
    out, same = learns("renamed", r"--label=(%w+)%.png$")
    check("5 characters each, out of abcdefgh\n" in out, "another naming rule", out)
    check(parts == same, "the parts depend on the images, not on their names", str((parts, same)))


def model_is_of_use():
    with open("runs/folder/best.capl/meta.json", encoding="utf-8") as file:
        meta = json.load(file)
    check(meta["charset"] == "ABCDEFGH" and meta["length"] == 5, "the model knows its characters", str(meta))
    path = sorted(glob.glob("own/*.png"))[0]
    status, out, err = capl("predict", "runs/folder/best.capl", path)
    check(status == 0 and re.fullmatch(re.escape(path) + r"\t[A-H]{5}\t[\d.e-]+\n", out), "predict reads an image", out + err)


def other_sizes():
    """Sides that no layer divides evenly."""
    os.makedirs("odd")
    code = "data.save_captchas{dir = 'odd', count = 80, seed = 2, charset = '0-9', length = 3, width = 101, height = 47}"
    status, out, err = capl("-e", code)
    check(status == 0, "images of 101x47 px", out + err)
    status, out, err = capl(recipe("folder.lua"), "--data=odd", *SHORT, env=machine("zen4"))
    check(status == 0 and "images of 101x47 px" in out, "it takes any size", out + err)


def refusals():
    for words, expected in {
        (): "--data=DIR is missing",
        ("--data=nowhere",): "nowhere: cannot be listed: No such file or directory",
        ("--data=own", "--label=^x(%w+)"): "the label rule '^x(%w+)' fits none of the 160 files in own",
        ("--data=own", "--length=4"): "has 5 characters; expected 4",
        ("--data=own", "--charset=A-G"): "which is not in the charset",
        ("--data=own", "--val=0.00001"): "none is left for val",
    }.items():
        status, out, err = capl(recipe("folder.lua"), *words, *SHORT)
        check(status == 1 and expected in err, f"refused: {expected}", out + err)


def main():
    images()
    reads_names()
    model_is_of_use()
    other_sizes()
    refusals()


in_empty_folder(main)
