"""recipes/crnn_ctc.lua and recipes/finetune.lua on folders of texts of several lengths: what is found, a model, refusals.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import re
import shutil

from program import capl, check, in_empty_folder, machine, recipe

SHORT = ["--steps=6", "--batch=8", "--workers=1", "--warmup=2"]


def images():
    """set/TEXT_N.png: 3 to 6 digits, each image as wide as its text is long, but for one of 24 px."""
    status, out, err = capl("generate", "--out=set", "--n=59", "--seed=4", "--charset=0-9", "--length=3-6")
    check(status == 0, "generate", out + err)
    os.makedirs("other")
    for path in glob.glob("set/*.png")[:2]:
        shutil.copy(path, "other")
    status, out, err = capl("generate", "--out=narrow", "--n=1", "--charset=0-9", "--length=6", "--width=24")
    check(status == 0, "generate", out + err)
    shutil.copy(glob.glob("narrow/*.png")[0], "set/123456_99.png")


def learns():
    status, out, err = capl(recipe("crnn_ctc.lua"), "--data=set", *SHORT)
    check(status == 0, "crnn_ctc runs on a folder", out + err)
    for found in ("set: 60 images, 60 with a label", "charset  0-9 (10 characters)", "dark on light", "widths = {"):
        check(found in out, "it finds " + found, out)
    check("a time step is 4 px" in out, "one narrow image makes no narrow time steps", out)
    check("curriculum of the train loader" not in out, "full augmentation waits for no metric", out)
    check("cross_entropy starts at about ln 10" in out, "the guide is in force", out)
    folder = "runs/crnn_ctc/best.capl"
    with open(folder + "/meta.json", encoding="utf-8") as file:
        meta = json.load(file)
    check(meta["decoding"] == "ctc" and meta["blank"] == 10 and len(meta["widths"]) > 1, "the model knows how it is read", str(meta))
    status, out, err = capl("predict", folder, *sorted(glob.glob("other/*.png")))
    check(status == 0 and len(out.splitlines()) == 2, "predict reads images of several widths", out + err)
    status, out, err = capl("verify", folder)
    check(status == 0, "verify", out + err)
    os.makedirs("numbered")
    for n, path in enumerate(sorted(glob.glob("set/*.png"))[:12]):
        shutil.copy(path, f"numbered/{n}-{os.path.basename(path).split('_')[0]}.png")
    status, out, err = capl("eval", folder, "--data=numbered", "--errors=wrong.tsv")
    check(status == 0, "eval of names of another kind", out + err)
    truths = {line.split("\t")[1] for line in open("wrong.tsv", encoding="utf-8") if line.startswith("numbered/")}
    texts = {os.path.basename(path)[:-4].split("-")[1] for path in glob.glob("numbered/*.png")}
    check(truths and truths <= texts, "it finds the their texts", out + str(truths))


def ways_to_read():
    """What predict takes to read with, and what it says of a wrong value: both sides."""
    folder, image = "runs/crnn_ctc/best.capl", sorted(glob.glob("other/*.png"))[0]
    for words, length in ((["--length=4"], 4), (["--length=5..6", "--decode=beam"], None), (["--beam=4", "--chars=12", "--length=3"], 3)):
        status, out, err = capl("predict", folder, image, "--json", *words)
        read = json.loads(out) if status == 0 else {"text": "", "chars": []}
        check(len(read["text"]) == len(read["chars"]) and len(read["text"]) in ([length] if length else [5, 6]), f"reads by {words}", out + err)
    check(set(read["text"]) <= set("12"), "within the characters", out)
    for word, expected in {"--decode=bem": "greedy or beam, not 'bem'", "--beam=0": "from 1 to 4096, got 0", "--chars=x": "no 'x': its charset is 0123456789",
                           "--length=7-3": "4 or 4-6, not '7-3'", "--length=9999": "texts of 9999 to 9999 characters: the model has"}.items():
        status, out, err = capl("predict", folder, image, word)
        check(status == 1 and expected in err, f"refuses {word}", out + err)
    status, out, err = capl("info", folder)
    for expected in ("of 0123456789", "ctc, blank is class 10", "px, gray", "standardize", "conv2d 7", "recipe     crnn_ctc.lua"):
        check(status == 0 and expected in out, f"info shows {expected}", out + err)
    status, out, err = capl("info", folder, "--json")
    told = json.loads(out)
    check(told["meta"]["decoding"] == "ctc" and told["golden"] > 0 and told["numbers"] > 1000, "as JSON too", out + err)
    check(capl("info", "set")[0] == 1, "a folder that is no model is refused", "")


def many_characters():
    """More than 100 characters: a network of its own, wider time steps, stronger augmentation."""
    status, out, err = capl("generate", "--out=greek", "--n=150", "--seed=6", "--preset=free", "--charset=А-Яа-яΓ-ΡΣ-Ωα-ωA-Z",
                            "--length=3", "--width=144", "--height=48")
    check(status == 0, "generate", out + err)
    status, out, err = capl(recipe("crnn_ctc.lua"), "--data=greek", *SHORT)
    check(status == 0 and "a time step is 8 px" in out, "crnn_ctc runs on many characters", out + err)
    for words, expected in {(): "Conv2d(1 -> 32", ("--network=lstm",): "LSTM(160 -> 128"}.items():
        status, out, err = capl("check", recipe("crnn_ctc.lua"), "--data=greek", *words)
        check(status == 0 and expected in out, f"{expected} with {words}", out + err)
    check("a time step is 4 px" in out, "the LSTM keeps its time steps", out)


SHARE = """--- capl: 1
capl.params {fraction = 1}
print((data.split(data.folder("many", {charset = "0-9", length = 2, width = 32, height = 16}), {val = 0.05})):count())
"""


def share_of_many():
    """A call in Lua takes 8,000 arguments: sets of images are larger."""
    status, out, err = capl("-e", 'data.save_captchas{dir="many", count=9500, seed=3, charset="0-9", length=2, width=32, height=16}')
    check(status == 0, "9,500 images", out + err)
    with open("share.lua", "w", encoding="utf-8") as file:
        file.write(SHARE)
    status, out, err = capl("share.lua", "--fraction=0.5")
    check(status == 0 and re.search(r"^4518$", out, re.M), "half of 9,036 images", out + err)
    shutil.rmtree("many")


def one_width():
    """All images of one size, and a network trained on drawn captchas first."""
    status, out, err = capl("generate", "--out=same", "--n=40", "--seed=5", "--preset=gradient-curve")
    check(status == 0, "generate", out + err)
    shutil.copy(glob.glob("same/*.png")[0], "same/_99.png")
    status, out, err = capl(recipe("finetune.lua"), "--data=same", "--pretrain=2", "--on_error=skip", *SHORT, env=machine("server"))
    check(status == 0, "finetune runs", out + err)
    check("before any of yours was learned from: exact" in out, "it shows what drawn captchas have taught", out)
    status, out, err = capl("verify", "runs/finetune/best.capl")
    check(status == 0, "verify a model of one width", out + err)


def draws():
    status, out, err = capl(recipe("crnn_ctc.lua"), "--preset=gradient-curve", "--length=5", "--val_images=20", "--test_images=20", *SHORT,
                            env=machine("zen4"))
    check(status == 0 and re.search(r"^final exact=.* n=20 ", out, re.M), "crnn_ctc runs on drawn captchas", out + err)


def colours():
    """Red letters on green that is as bright: gray would show next to nothing."""
    status, out, err = capl("generate", "--out=colour", "--n=20", "--preset=free", "--lines=0", "--dots=0",
                            "--background=0,118,0..0,118,0", "--ink=232,0,0..232,0,0")
    check(status == 0, "generate", out + err)
    for name in ("crnn_ctc.lua", "finetune.lua"):
        for words, planes in {(): 3, ("--channels=1",): 1}.items():
            linear = ("--contrast=linear",) if name == "crnn_ctc.lua" else ()
            status, out, err = capl("check", recipe(name), "--data=colour", *words, *linear)
            check(status == 0 and f"Conv2d({planes} -> " in out, f"{name} {' '.join(words)} looks at {planes} channels", out + err)


def varied():
    """Lines of 4 to 20 letters, each of its own size and colour, pale ones among them."""
    status, out, err = capl("generate", "--out=lines", "--n=40", "--preset=varied", "--seed=5")
    check(status == 0, "generate", out + err)
    status, out, err = capl("data", "stat", "lines")
    check(len(set(re.findall(r"\d+x64", out))) > 3, "a width for each length", out + err)
    status, out, err = capl("check", recipe("crnn_ctc.lua"), "--data=lines")
    check(status == 0 and "BatchNorm2d(32)" in out and "Linear(256 -> 7" in out, "colours, and two time steps of a column", out + err)
    status, out, err = capl(recipe("crnn_ctc.lua"), "--preset=varied", "--length=4..5", "--network=long", "--val_images=20", "--test_images=20",
                            *SHORT)
    check(status == 0 and re.search(r"^final exact=.* n=20 ", out, re.M), "crnn_ctc runs on them", out + err)
    status, out, err = capl("verify", "runs/crnn_ctc/best.capl")
    check(status == 0, "the model file takes the logarithm as well", out + err)


def refusals():
    for words, expected in {
        (): "either --data=DIR, your captchas, or --preset=NAME",
        ("--data=set", "--preset=lepture"): "either --data=DIR, your captchas, or --preset=NAME",
        ("--data=nowhere",): "nowhere",
        ("--data=other",): "other has 2 images with a label, at least 10 are needed",
        ("--data=same",): "same/_99.png: its label is empty",
        ("--preset=leptur",): 'no captcha preset "leptur"; there are: lepture',
        ("--data=set", "--length=3..4"): "characters",
        ("--data=set", "--network=lstn"): "network is auto, lstm, long or wide, not lstn",
        ("--data=set", "--contrast=logs"): "contrast is auto, log or linear, not logs",
        ("--data=set", "--augment=captch"): "unknown preset 'captch'; did you mean 'captcha'",
    }.items():
        status, out, err = capl(recipe("crnn_ctc.lua"), *words)
        check(status == 1 and expected in err and "crnn_ctc.lua:" in err, f"crnn_ctc {' '.join(words)}", out[-300:] + err)


def main():
    images()
    learns()
    ways_to_read()
    many_characters()
    share_of_many()
    one_width()
    draws()
    colours()
    varied()
    refusals()


in_empty_folder(main)
