"""docs/seeds.md: every command of its tables runs, in a small size.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re

from program import ROOT, capl, check, in_empty_folder, recipe

# Of each recipe, so that a run takes seconds.
TINY = {
    "captcha_single": "--samples=8 --val=4 --test=4 --batch=4 --epochs=1 --workers=1",
    "a100": "--samples=8 --val=4 --test=4",
    "slider": "--width=4 --fpn=8 --batch=2 --epoch=4 --epochs=1 --max_time=none --val=2 --test=2 --unseen=0 --workers=1",
    "face_parsing": "--preset=small --size=64 --batch=2 --count=4 --val=2 --test=2 --unseen=0 --epochs=1 --max_time=none --workers=1",
    "pm25_lstm": "--days=400 --epochs=1 --permutations=1 --hidden=8",
    "classify": "",
}
BENCH = "--steps=1 --warmup=1 --rounds=2"


def key_of(word):
    return word.split("=")[0]


def small(words):
    """The words of a command with those of its recipe's small ones that it does not give itself."""
    out, more = list(words), []
    for i, word in enumerate(out):
        name = re.fullmatch(r"recipes/(\w+)\.lua", word)
        if name:
            out[i], more = recipe(name[1] + ".lua"), TINY[name[1]].split()
    given = {key_of(word) for word in out} | {"--" + word.split("=")[0] for word in out if "=" in word and not word.startswith("-")}
    if words[0] == "check" or "--help" in words:
        more = []
    if words[0] == "bench":
        more = [word.replace("--epochs=1", "--epochs=99") for word in more] + [word for word in BENCH.split() if "--ab" in words or not word.startswith("--rounds")]
    if "--data" in given: # a recipe says what it never reads
        more = [word for word in more if key_of(word) not in ("--count", "--val", "--test")]
    if words[0] == "preview": # has an --epoch of its own
        more = [word for word in more if key_of(word) != "--epochs"]
    if words[0] == "lr":
        more = [word.replace("--epochs=1", "--epochs=99") for word in more] + ["--steps=20"]
    return out + [word for word in more if key_of(word) not in given]


def commands():
    with open(os.path.join(ROOT, "docs/seeds.md"), encoding="utf-8") as file:
        rows = [line for line in file if line.startswith("| ")]
    found = [command for row in rows for command in re.findall(r"`capl ([^`]*)`", row)]
    return sorted(dict.fromkeys(found), key=lambda command: re.match("predict|report|diff", command) is not None)


def material():
    for words in ("--preset=faces --out=faces --n=20 --width=64", "--preset=slider --out=sliders --n=2 --width=240 --height=120",
                  "--preset=pm25 --out=days.csv --days=60", "--preset=icons --format=folders --out=icons --n=300"):
        status, out, err = capl("generate", *words.split())
        check(status == 0, "generate " + words, out + err)


def main():
    material()
    for command in commands():
        words = small(command.split())
        status, out, err = capl(*words)
        # The learning-rate finder says that it cannot tell where a tiny network hardly learns.
        ran = status == 0 or words[0] == "lr" and "picture: lr.png" in out + err
        check(ran, "capl " + command, " ".join(words) + "\n" + out[-1500:] + err)


in_empty_folder(main)
