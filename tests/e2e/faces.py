"""recipes/face_parsing.lua on drawn faces and on folders: the network, augmentation by stages, a model in use, masks that cannot be used.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import shutil

from program import capl, check, in_empty_folder, recipe
from run_folder import png

FACES = recipe("face_parsing.lua")
SMALL = ["--size=64", "--unseen=2", "--count=8", "--val=4", "--test=4", "--batch=4", "--warmup=1", "--workers=1"]
USED = ["--data=set", "--preset=small", "--size=64", "--batch=8", "--epochs=1", "--augment=minimal", "--workers=1", "--unseen=0"]


def is_the_network():
    status, out, err = capl("check", FACES, "--preset=full")
    check(status == 0 and "1747923" in out.replace(",", ""), "1,747,923 parameters", out + err)
    status, out, err = capl("check", FACES, "--preset=small")
    check(status == 0 and "1747923" in out.replace(",", ""), "as many in small", out + err)


def run(*words):
    status, out, err = capl(FACES, *words)
    check(status == 0, "it runs with " + " ".join(words), out + err)
    return out


def progressive():
    """Both stages, and mixing."""
    out = run(*SMALL, "--epochs=2", "--progressive=1", "--mix")
    check("strong" in out, "progressive gets to strong", out)
    check("\nunseen_style:  mIoU " in out and "unseen_style" in result()["tests"], "a style that training never saw", out)


def result():
    with open(last_run() + "/result.json", encoding="utf-8") as file:
        return json.load(file)


def last_run():
    return max((os.path.join("runs", name) for name in os.listdir("runs")), key=os.path.getmtime)


def evaluation():
    with open(last_run() + "/evaluation.json", encoding="utf-8") as file:
        return json.load(file)


def folders():
    status, out, err = capl("generate", "--preset=faces", "--out=set", "--n=40", "--width=64")
    check(status == 0, "generate", out + err)
    run(*USED)
    found = evaluation()
    check([c["name"] for c in found["classes"]][:3] == ["background", "skin", "nose"] and 0 <= found["miou"] <= 1, "F of each class", str(found)[:500])
    is_used(last_run() + "/best.capl")
    for name in ("images", "masks"):
        os.mkdir(name)
    for name in os.listdir("set"):
        if name.endswith("_mask.png"):
            shutil.copy("set/" + name, "masks/" + name.replace("_mask", ""))
        else:
            shutil.copy("set/" + name, "images/" + name)
    run("--data=images", "--masks=masks", "--mask=.png", *USED[1:])
    check(evaluation() == found, "masks in a folder of their own are the same", "")


def parts_of_masks():
    """CelebAMask-HQ's other layout: a PNG for each part, of half the photos' size, in numbered folders."""
    for i in range(40):
        for part, left in (("skin", 4), ("hair", 20)):
            os.makedirs(f"parts/{i % 3}", exist_ok=True)
            with open(f"parts/{i % 3}/{i:05d}_{part}.png", "wb") as file:
                file.write(png(32, 32, lambda x, y, left=left: 255 if left <= x < left + 8 else 0))
    run("--data=images", "--parts=parts", *USED[1:])
    of = {c["name"]: c["pixels"] for c in evaluation()["classes"]}
    check(4 * of["skin"] == 4 * of["hair"] == sum(of.values()) > 0, "a quarter is skin, a quarter hair", str(of))
    os.remove("parts/1/00001_skin.png")
    os.remove("parts/1/00001_hair.png")
    refused(["--data=images", "--parts=parts", *USED[1:]], "images/01.png: parts has no part of it, such as 1_skin.png")


def is_used(model):
    status, out, err = capl("verify", model)
    check(status == 0, "verify", out + err)
    status, out, err = capl("predict", model, "set/07.png", "--json", "--out=said", "--overlay=seen")
    check(status == 0 and json.loads(out)["mask"]["skin"] >= 0, "predict", out + err)
    check(os.path.isfile("said/07.png") and os.path.isfile("seen/07.png"), "the mask and the overlay", "")
    status, out, err = capl("eval", model, "--data=set", "--json")
    check(status == 0 and json.loads(out)["n"] == 40, "eval", out + err)


def all_masks(side, level):
    for i in range(40):
        with open(f"set/{i:02d}_mask.png", "wb") as file:
            file.write(png(side, side, lambda x, y: level))


def refused(words, *said):
    status, out, err = capl(FACES, *words)
    check(status == 1 and all(text in err for text in said), f"refused, with {said}", out + err)


def refusals():
    shutil.copytree("set", "sound")
    all_masks(80, 1)
    refused(USED, "_mask.png: the mask is 80 x 80 px, but its image set/", "is 64 x 64", "hint: ")
    all_masks(64, 200)
    refused(USED, "_mask.png: level 200 at x = 0, y = 0 is none of the 19 classes", "hint: ")
    refused(["--size=100"], "--size=100: a multiple of 32 px")


def main():
    is_the_network()
    progressive()
    folders()
    parts_of_masks()
    refusals()


in_empty_folder(main)
