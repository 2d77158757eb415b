"""Every shipped recipe: `check` on shapes alone, a few real steps, `bench`, and what a finished run leaves.

A recipe takes its steps as on one machine of tests/machines.tsv; scripts/test --machine=NAME runs all as on one.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import re

from program import ROOT, capl, check, in_empty_folder, machine, recipe

# The machine of tests/machines.tsv on which each recipe takes its steps here.
ON = {"captcha.lua": "vm", "captcha_cnn.lua": "container", "curriculum.lua": "laptop", "captcha_single.lua": "server", "a100.lua": "laptop",
      "a100_ddp.lua": "zen4"}
# Settings that make each recipe a matter of seconds.
SMALL = {
    "captcha.lua": ["--samples=192", "--batch=16", "--test=60", "--val=20", "--files=12", "--warmup=3"],
    "captcha_cnn.lua": ["--samples=16", "--batch=4", "--val=8", "--test=8", "--epochs=1"],
    "curriculum.lua": ["--samples=64", "--batch=16", "--test=20", "--val=10", "--warmup=1"],
    "captcha_single.lua": ["--samples=16", "--batch=4", "--preset=smoke", "--val=8", "--test=8"],
    "a100.lua": ["--samples=16", "--batch=4", "--preset=smoke", "--val=8", "--test=8", "--accumulate=2"],
    "a100_ddp.lua": ["--samples=16", "--batch=4", "--preset=smoke", "--val=8", "--test=8", "--device=cpu"],
}
FINAL = r"final exact=[\d.]+ \[[\d.]+,[\d.]+\] chars=[\d.]+ n=(\d+) images_per_s=\d+ seconds=[\d.]+( merged=[\d.]+)?"


def all_are_here():
    names = sorted(os.path.basename(path) for path in glob.glob(os.path.join(ROOT, "recipes", "*.lua")))
    with_tests_of_their_own = "folder.lua crnn_ctc.lua finetune.lua classify.lua pm25_lstm.lua face_parsing.lua slider.lua"
    for name in with_tests_of_their_own.split():
        names.remove(name)
    check(names == sorted(SMALL), "every recipe is tested here", str(names))


def shapes(name):
    status, out, err = capl("check", recipe(name))
    check(status == 0, f"check {name}", out + err)
    check("peak" in out, "it plans memory", out)
    if name in ("captcha_cnn.lua", "captcha_single.lua", "a100.lua", "a100_ddp.lua"):
        check("19072400" in out.replace(",", ""), name + " has 19,072,400 parameters", out)
        check("395,800,576" in out, "and 395.8 M multiplications", out)


def real_steps(name):
    status, out, err = capl(recipe(name), *SMALL[name], env=machine(ON[name]))
    check(status == 0, f"{name} runs on a {ON[name]}", out + err)
    last = out.rstrip("\n").split("\n")[-1]
    check(re.fullmatch(FINAL, last), "its last line is the result", last)
    folder = "runs/" + name[:-4]
    with open(folder + "/settings.json", encoding="utf-8") as file:
        settings = json.load(file)["settings"]
    check(settings["batch"] == {"value": int(SMALL[name][1][8:]), "origin": "flag"}, "settings.json", str(settings))
    if name != "captcha_single.lua":  # which is about fp32
        check(settings["precision"]["origin"] == "auto" and settings["precision"]["why"], "auto says why", str(settings))
    check(os.path.exists(folder + "/best.capl/weights.safetensors"), "it saves its model", str(os.listdir(folder)))
    status, out, err = capl("verify", folder + "/best.capl")  # the opened model, folded and fused, against the one that was trained
    check(status == 0 and ": ok" in out, "its model gives the outputs it was saved with", out + err)


def same_again():
    """Two runs with the same seed print the same final metrics, whatever the number of loader threads."""
    finals = []
    for workers in ("0", "2"):
        _, out, err = capl(recipe("captcha.lua"), *SMALL["captcha.lua"], "--workers=" + workers)
        check("final" in out, f"a run with {workers} workers", out + err)
        finals.append(re.findall(r"(?:test images|PNG files): .*", out) + re.findall(r"mistakes: .*", out))
    check(finals[0] == finals[1], "the same seed gives the same run", str(finals))


def evaluate():
    capl("generate", "--out=images", "--n=20", "--seed=5")
    status, out, err = capl("eval", "runs/captcha/best.capl", "--data=images", "--json")
    check(status == 0, "eval", out + err)
    result = json.loads(out)
    check(result["n"] == 20 and 0 <= result["low"] <= result["exact"] <= result["high"] <= 1, "its metrics", out)
    path = "runs/captcha/best.capl/meta.json"
    with open(path, encoding="utf-8") as file:
        meta = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dict(meta, length=None), file)
    status, out, err = capl("eval", "runs/captcha/best.capl", "--data=images")
    check(status == 1 and path + ": length is a whole number from 1 to 32, not null" in err, "eval names damage", err)


def held_out():
    """a100_ddp on a folder: its metrics are of a part of that folder, not of generated captchas."""
    capl("generate", "--out=folder", "--n=60", "--seed=6")
    status, out, err = capl(recipe("a100_ddp.lua"), "--data=folder", "--batch=4", "--preset=smoke", "--held_out=0.3", "--device=cpu")
    check(status == 0, "a100_ddp on a folder", out + err)
    n = int(re.search(r"^final .* n=(\d+) ", out, re.M).group(1))
    val = int(re.search(r"^val .* n (\d+)$", out, re.M).group(1))
    check(8 <= n <= 28 and 8 <= val <= 28, "about a third of the folder is held out for each", out)
    check(re.search(f"^report: train data: made on the host[^;]*; {(60 - n - val) // 4 * 4} images", out, re.M), "all others are trained on", out)


def bench():
    small = ["--steps=3", "--warmup=1"]
    status, out, err = capl("bench", recipe("captcha.lua"), "--batch=8", *small, "--json")
    check(status == 0, "bench --json", out + err)
    metrics = json.loads(out)
    for key in ("images_per_s", "step_ms", "peak_bytes", "precision", "batch", "threads", "steps"):
        check(key in metrics, f"it has {key}", out)
    check(metrics["batch"] == 8 and metrics["steps"] == 3, "as asked", out)
    status, out, err = capl("bench", recipe("captcha.lua"), "--batch=8", *small, "--fixed", "--ops")
    check(status == 0 and "data fixed" in out and "conv2d" in out and "floor" in out, "bench --ops", out + err)
    status, out, err = capl("bench", recipe("captcha.lua"), "--batch=8", *small, "--fixed", "--ops", "--json")
    check(status == 0, "bench --ops --json", out + err)
    metrics = json.loads(out)
    floors = sum(row["floor_ms"] for row in metrics["ops"])
    check(len(metrics["ops"]) > 1 and abs(metrics["floor_sum_ms"] / floors - 1) < 1e-6, "floor_sum_ms sums the floors", out)


def main():
    all_are_here()
    for name in sorted(SMALL):
        shapes(name)
        real_steps(name)
    same_again()
    evaluate()
    held_out()
    bench()


in_empty_folder(main)
