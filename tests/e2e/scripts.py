"""Captchas of other scripts than Latin: drawn, looked at, a model that reads them, predict, eval and the report.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import re
import shutil

from program import capl, check, in_empty_folder, recipe

CHARSET = "жукéñ"
SHORT = ["--steps=6", "--batch=8", "--workers=1", "--warmup=2"]
FOLDER = "runs/crnn_ctc/best.capl"


def drawn():
    status, out, err = capl("generate", "--out=set", "--n=60", "--seed=4", "--preset=free", f"--charset={CHARSET}", "--length=2-4")
    check(status == 0, "generate", out + err)
    texts = [os.path.basename(path).split("_")[0] for path in glob.glob("set/*.png")]
    check(len(texts) == 60 and all(set(text) <= set(CHARSET) and 2 <= len(text) <= 4 for text in texts), "names are the texts", str(texts))
    status, out, err = capl("data", "stat", "set")
    check(status == 0 and "  charset    éñжку\n" in out, "stat finds the characters", out + err)
    for text in sorted(set("".join(texts))):
        check(re.search(f" {text} +{''.join(texts).count(text)}\\b", out), f"and counts {text}", out)
    status, out, err = capl("data", "check", "set", f"--charset={CHARSET}", "--length=4")
    check(status == 0 and "nothing found" in out, "check finds nothing", out + err)
    status, out, err = capl("data", "check", "set", "--charset=жу", "--length=4")
    check(status == 1 and "is not in the charset жу" in out, "check finds what a charset lacks", out + err)


def learned():
    status, out, err = capl(recipe("crnn_ctc.lua"), "--data=set", *SHORT)
    check(status == 0, "crnn_ctc runs on them", out + err)
    for found in ("charset  éñжку (5 characters)", "a time step is 4 px"):
        check(found in out, "it says " + found, out)
    with open(FOLDER + "/meta.json", encoding="utf-8") as file:
        meta = json.load(file)
    check(meta["charset"] == "éñжку" and meta["blank"] == 5, "the model has the charset", str(meta))
    status, out, err = capl("verify", FOLDER)
    check(status == 0, "verify", out + err)
    status, out, err = capl("info", FOLDER)
    check("of éñжку" in out, "info", out + err)


def read():
    image = sorted(glob.glob("set/*.png"))[0]
    status, out, err = capl("predict", FOLDER, image, "--json", "--chars=жé", "--length=3", "--beam=4")
    text = json.loads(out)["text"] if status == 0 else ""
    check(len(text) == 3 and set(text) <= set("жé"), "predict keeps to characters and a length", out + err)
    status, out, err = capl("predict", FOLDER, image, "--chars=ж中")
    check(status == 1 and "中" in err, "a character that it does not read", out + err)
    status, out, err = capl("eval", FOLDER, "--data=set", "--length=3", "--out=evaluation", "--errors=wrong.tsv")
    check(status == 0, "eval", out + err)
    with open("evaluation/evaluation.json", encoding="utf-8") as file:
        evaluation = json.load(file)
    lengths = [row["length"] for row in evaluation["by_length"]]
    check(evaluation["n"] == 60 and lengths == [2, 3, 4], "lengths are of characters", str(lengths))
    labels = evaluation["confusion"]["labels"]
    check(labels == list("éñжку") + [""], "so are the confusions", str(labels))
    pairs = [pair["truth"] + pair["read"] for pair in evaluation["pairs"]]
    check(pairs and all(len(pair) <= 2 for pair in pairs), "and the pairs", str(pairs))
    truths = {line.split("\t")[1] for line in open("wrong.tsv", encoding="utf-8")}
    check(truths <= {os.path.basename(path).split("_")[0] for path in glob.glob("set/*.png")}, "the list of errors", str(truths))


def refused():
    shutil.copytree("set", "odd")
    os.rename(sorted(glob.glob("odd/*.png"))[0].encode(), b"odd/\xd0_1.png")
    status, out, err = capl("data", "check", "odd")
    check(status == 1 and r"\xd0_1.png (\xd0)" in out, "a name that is no UTF-8", out + err)


def main():
    drawn()
    learned()
    read()
    refused()


in_empty_folder(main)
