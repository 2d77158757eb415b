"""train.fit as a user meets it: what a run prints and leaves, the time box, the same run again, other commands.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import time

from program import CAPL, capl, check, in_empty_folder
from small import metrics, newest, read_json, write_recipe

FINAL = r"final exact=[\d.]+ \[[\d.]+,[\d.]+\] chars=[\d.]+ n=50 images_per_s=\d+ seconds=[\d.]+ merged=[\d.]+"


def is_png(path):
    status, out, err = capl("-e", f'print(data.png_read("{path}"):size(3))')
    check(status == 0 and int(out) > 100, path + " is a picture", out + err)


def files():
    status, out, err = capl("small.lua", "--steps=40")
    check(status == 0, "a short run ends well", out + err)
    folder = "runs/small"
    lines = out.rstrip("\n").split("\n")
    check(re.fullmatch(FINAL, lines[-1]), "its last line is the result", lines[-1])
    check(lines[-3] == "keep: runs/small/best.capl", "before it, the file to keep", out)
    check(lines[-2] == f"next: {CAPL} predict runs/small/best.capl IMAGE.png", "and the next command", out)
    check("all steps are done: 40 steps, 400 images" in out, "it says why it ended", out)
    check("eval_every 12 times" in out and "; 12 evaluations on val" in out, "it evaluates as often as its header says", out)
    expected = {"best.capl", "curves.png", "last.capl", "metrics.jsonl", "recipe.lua", "report.html", "result.json", "samples.png",
                "settings.json"}
    check(expected <= set(os.listdir(folder)), "the run's folder", str(os.listdir(folder)))
    facts = read_json(folder + "/settings.json")
    check(facts["command"].endswith("small.lua --steps=40") and facts["version"], "settings.json: what ran", str(facts))
    check(facts["data"]["val"]["count"] == 30 and len(facts["data"]["val"]["hash"]) == 16, "settings.json: its data", str(facts))
    check(facts["model"]["parameters"] == facts["model"]["trainable"] > 0, "settings.json: its model", str(facts))
    with open(folder + "/recipe.lua", encoding="utf-8") as kept, open("small.lua", encoding="utf-8") as recipe:
        check(kept.read() == recipe.read(), "the recipe's text is kept", folder)
    result = read_json(folder + "/result.json")
    wanted = {"ended": "steps", "steps": 40, "images": 400, "seed": 42, "precision": "fp32", "recipe": "small.lua", "model": "best.capl"}
    check({key: result[key] for key in wanted} == wanted, "result.json", str(result))
    test = result["test"]
    check(test["n"] == 50 and test["low"] <= test["exact"] <= test["high"] and len(test["positions"]) == 2, "its metrics", str(test))
    check(test["merged"]["sets"] == ["0O"] and test["merged"]["exact"] >= test["exact"], "look-alikes merged", str(test))
    check(result["host"]["threads"] >= 1 and result["peak_memory_bytes"] > 1e6 and result["version"], "where it ran", str(result))
    rows = metrics(folder)
    steps = [row["step"] for row in rows if "loss" in row]
    evaluations = [row for row in rows if "val_exact" in row]
    check(steps == list(range(1, 41)), "a line for each step of a short run", str(steps))
    check(len(evaluations) == 12 and evaluations[-1]["step"] == 40 and evaluations[0]["val_n"] == 30, "twelve evaluations", str(evaluations))
    is_png(folder + "/curves.png")
    is_png(folder + "/samples.png")
    meta = read_json(folder + "/best.capl/meta.json")
    check(meta["metrics"]["exact"] == test["exact"] and meta["metrics"]["n"] == 50, "best.capl knows how good it is", str(meta))


def same_again():
    """Two runs with one seed, whatever the machine does meanwhile: the same losses, metrics and weights."""
    seen = []
    for _ in range(2):
        capl("small.lua", "--steps=15", "--seed=7")
        folder = newest()
        with open(folder + "/best.capl/weights.safetensors", "rb") as file:
            weights = file.read()
        seen.append((weights, read_json(folder + "/result.json")["test"], [row.get("loss") for row in metrics(folder)]))
    check(seen[0] == seen[1], "the same seed gives the same run")


def time_box():
    started = time.monotonic()
    status, out, err = capl("small.lua", "--max_time=2s")
    took = time.monotonic() - started
    result = read_json(newest() + "/result.json")
    check(status == 0 and result["ended"] == "max_time", "a time box ends the run", out + err)
    check(1.2 < result["seconds"] < 2.5 and took < 12, "in time", f"{result['seconds']} {took}")
    rows = [row for row in metrics(newest()) if "lr" in row]
    check(rows[-1]["lr"] < 0.0005 < max(row["lr"] for row in rows), "and the rate has fallen by then", str(rows[-1]))
    check("max_time = 0:02 is over" in out, "it says so", out)
    check("eval_every at most 12 times (fewer where they take more than 3 % of max_time)" in out, "the header does not promise 12", out)
    ran = sum("val_loss" in row for row in metrics(newest()))
    check(result["evaluations"] == ran and f"; {ran} evaluation" in out, "the end says how many evaluations ran", out)


def initialized_twice():
    with open("small.lua", encoding="utf-8") as file:
        text = file.read()
    with open("twice.lua", "w", encoding="utf-8") as file:
        file.write(text.replace("train.fit {", "nn.init.zeros(model[3].bias)\nnn.init.ones(model[3].bias)\ntrain.fit {\n  quiet_init = p.quiet,")
                   .replace("  scale = 1,", "  quiet = false, -- no notes\n  scale = 1,"))
    for flag, there in (("--quiet=false", True), ("--quiet", False)):
        status, out, err = capl("twice.lua", "--steps=2", flag)
        check(status == 0 and ("is replaced by nn.init.constant at" in out) == there, f"{flag}: a parameter that is filled twice", out + err)


def not_finite():
    status, out, err = capl("small.lua", "--steps=5", "--scale=1e39")
    check(status == 1, "an infinite loss ends the run", out)
    check(re.search(r"^small.lua:\d+: train.fit: the loss of step 1 is inf\n  first not finite: op affine in the forward pass, "
                    r"small.lua:\d+ (.*\n)*  hint: try a lower lr", err), "with where it began, and advice", err)


def other_modes():
    status, out, err = capl("check", "small.lua", "--steps=5")
    check(status == 0 and "small.lua: ok" in out, "check", out + err)
    status, out, err = capl("bench", "small.lua", "--max_time=1h", "--steps=30", "--warmup=2")
    check(status == 0 and "images/s" in out, "bench", out + err)


def main():
    write_recipe()
    files()
    same_again()
    time_box()
    initialized_twice()
    not_finite()
    other_modes()


in_empty_folder(main)
