"""recipes/classify.lua on folders of drawn icons: training with mixing, another run's weights, a model, refusals; the recipe that
`capl new` writes for classes.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import shutil

from program import capl, check, in_empty_folder, recipe

RUN = ["--preset=small", "--width=4", "--size=32", "--batch=16", "--warmup=5", "--workers=0", "--precision=fp32"]


def draw(folder, charset, count, *words):
    status, out, err = capl("generate", "--preset=icons", "--format=folders", "--out=" + folder, f"--n={count}", "--charset=" + charset,
                            "--grain=0", *words)
    check(status == 0, "generate", out + err)


def run(*words):
    given = {word.split("=")[0] for word in words}
    return capl(recipe("classify.lua"), *(word for word in RUN if word.split("=")[0] not in given), *words)


def trains():
    status, out, err = run("--data=set", "--epochs=3", "--mixup=0.2", "--cutmix=1", "--flip=true", "--augment=strong")
    check(status == 0, "training", out + err)
    for expected in ("6 classes, ", "accuracy ", "top-5 ", "mistakes: ", "augmented ", "final accuracy="):
        check(expected in out, f"it says {expected}", out)
    with open("runs/classify/evaluation.json", encoding="utf-8") as file:
        evaluation = json.load(file)
    check(evaluation["top5_low"] <= evaluation["top5"] <= evaluation["top5_high"], "the interval of top-5", str(evaluation))
    with open("runs/classify/result.json", encoding="utf-8") as file:
        final = json.load(file)["final"]
    check(final["top5"] == evaluation["top5"], "the result has top-5, for claims", str(final))
    with open("runs/classify/report.html", encoding="utf-8") as file:
        report = file.read()
    check("Most frequent mistakes" in report, "the report shows confused pairs")
    for name in ("read right", "among the first five"):
        check(re.search(name + r" \(test\)</dt><dd>[\d.]+ %<small>95 %: [\d.]+ to [\d.]+</small>", report), f"and the interval of {name}",
              "".join(re.findall("<dt>.*?</dd>", report)))


def is_used():
    path = "set/☀/" + sorted(os.listdir("set/☀"))[0]
    status, out, err = capl("predict", "runs/classify/best.capl", path, "--top=5")
    row = out.rstrip("\n").split("\t")
    check(status == 0 and len(row) == 11 and set(row[1::2]) <= set("☀☂★☎♞✈"), "predict --top=5", out + err)
    status, out, err = capl("eval", "runs/classify/best.capl", "--data=set", "--json")
    check(status == 0 and json.loads(out)["n"] == 180, "eval", out + err)


def takes_weights():
    """Five other classes from the weights of the run: all but the classifier are taken; frozen layers stay as they are."""
    weights = "--weights=runs/classify/best.capl/weights.safetensors"
    status, out, err = run("--data=other", "--epochs=1", weights, "--freeze=conv1,bn1,layer1")
    check(status == 0, "weights and frozen layers", out + err)
    check("100 of 102 tensors taken" in out and "fc.weight (5,32), in the file (6,32)" in out, "which were taken", out)
    check(re.search(r"freeze: conv1, bn1, layer1: \d+ parameters, always; batch norm keeps its statistics", out), "what is frozen", out)
    status, out, err = run("--data=other", "--epochs=1", weights, "--stem=7x7")
    check(status == 1 and "is of another network: conv1.weight is (4,3,7,7) here, (4,3,3,3) there; --width and --stem" in err,
          "another network", out + err)
    status, out, err = run("--data=other", "--epochs=1", weights, "--width=8")
    check(status == 1 and "best.capl/weights.safetensors" in err and "conv1.weight (8,3,3,3), in the file (4,3,3,3)" in err, "another width",
          out + err)
    status, out, err = run("--data=other", "--epochs=1", "--freeze=layer9")
    check(status == 1 and "layer9" in err, "an unknown layer", out + err)


def refusals():
    os.makedirs("one")
    shutil.copytree("set/☀", "one/☀")
    for words, expected in {(): "--data=DIR is missing", ("--data=one",): "one has one class, ☀", ("--data=set/☀",): "no folder with images",
                            ("--data=empty",): "empty: holds no *.png"}.items():
        os.makedirs("empty", exist_ok=True)
        status, out, err = run("--epochs=1", *words)
        check(status == 1 and expected in err, f"refuses {words}", out + err)
    os.makedirs("one/♞")
    shutil.copy("set/♞/" + sorted(os.listdir("set/♞"))[0], "one/♞")
    status, out, err = run("--data=one", "--epochs=1")
    check(status == 0 and "one: one image, to train on and none to evaluate, of ♞: add images" in out, "a class of one image", out + err)


def starter():
    status, out, err = capl("new", "mine", "--data=set")
    check(status == 0 and "set: 6 classes, the names of its folders: ☀, ☂, ★, ☎, ♞, ✈" in out, "new finds the classes", out + err)
    status, out, err = capl("check", "mine.lua")
    check(status == 0, "check of the starter", out + err)
    with open("mine.lua", encoding="utf-8") as file:
        text = file.read().replace("max_time = p.max_time,", "max_time = p.max_time, epochs = 16,").replace("size = 64", "size = 32")
    with open("claims.lua", "w", encoding="utf-8") as file:
        file.write(text.replace("capl.manual_seed", "capl.expect {at_least = {accuracy = 0.5}}\ncapl.manual_seed"))
    status, out, err = capl("test", "claims.lua")
    check(status == 0 and re.search(r"accuracy at least 0.5: met, 0\.\d+ \[0\.\d+, [01]\.\d+\], n \d+", out), "the starter runs and learns", out + err)
    os.makedirs("texts")
    for folder in ("texts/a", "texts/b"):
        capl("generate", "--out=" + folder, "--n=20")
    status, out, err = capl("new", "texts_in_folders", "--data=texts")
    check(status == 0 and "texts: captchas, as the names of the files hold texts" in out, "texts in folders are captchas", out + err)
    status, out, err = capl("new", "folders", "--data=texts", "--label=folder")
    check(status == 0 and "texts: 2 classes" in out, "unless they are asked to be classes", out + err)
    status, out, err = capl("new", "nothing", "--label=folder")
    check(status == 1 and "--data is missing" in err, "classes of nothing", out + err)


def main():
    draw("set", "☀☂★☎♞✈", 180)
    draw("other", "☃♔♥⚓✂", 100)
    trains()
    is_used()
    takes_weights()
    refusals()
    starter()


in_empty_folder(main)
