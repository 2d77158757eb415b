"""What a run reports while it trains: metrics.jsonl, metrics.csv, TensorBoard's file, --json, --quiet, where time goes.

SPDX-License-Identifier: Apache-2.0
"""
import csv
import glob
import json
import os
import signal
import subprocess
import time

import tfevents
from program import CAPL, ROOT, capl, check, in_empty_folder
from small import metrics, read_json, write_recipe

PARTS = {"load", "augment", "forward", "backward", "optimizer", "evaluation", "other"}


def run(*words):
    status, out, err = capl("small.lua", *words)
    check(status == 0, " ".join(words), out + err)
    return out


def times(folder):
    """The parts of a line are the time since the last line that has some; their sums are those of the run."""
    rows = [row for row in metrics(folder) if "time" in row]
    result = read_json(folder + "/result.json")
    sums = {part: sum(row["time"].get(part, 0) for row in rows) for part in PARTS}
    check(set(rows[-1]["time"]) == PARTS, "the time has its parts", str(rows[-1]))
    check(all(value >= 0 for row in rows for value in row["time"].values()), "none of them is negative")
    last = rows[-1]["seconds"]
    check(abs(sum(sums.values()) - last) < 0.05 + 0.1 * last, "they sum to the time that went by", f"{sum(sums.values())} {last}")
    check(sums["forward"] > 0 and sums["backward"] > 0 and sums["optimizer"] > 0 and sums["evaluation"] > 0, "each took some", str(sums))
    total = result["time"]
    check(all(abs(total[part] - sums[part]) < 0.05 + 0.2 * last for part in total), "result.json has the sums", f"{total} {sums}")
    for row in rows:
        wait = (row["time"]["load"] + row["time"]["augment"]) / sum(row["time"].values())
        check(abs(wait - row["wait"]) < 1e-6, f"the share of waiting, step {row['step']}")


def flat(row, prefix=""):
    out = {}
    for key, value in row.items():
        out.update(flat(value, key + ".") if isinstance(value, dict) else {prefix + key: value})
    return out


def table(folder):
    with open(folder + "/metrics.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [flat(row) for row in metrics(folder)]
    check(len(rows) == len(lines), "metrics.csv has a row for each line", f"{len(rows)} {len(lines)}")
    check(None not in rows[0] and all(len(row) == len(rows[0]) for row in rows), "all of the same length")
    for row, line in zip(rows, lines):
        got = {key: float(value) for key, value in row.items() if value != "" and key != "event"}
        wanted = {key: value for key, value in line.items() if not isinstance(value, str)}
        check(got == wanted, f"of the same metrics, empty where there is none, step {line['step']}", f"{got}\n{wanted}")


def events(folder):
    paths = glob.glob(folder + "/events.out.tfevents.*")
    check(len(paths) == 1, "one file for TensorBoard", str(paths))
    seen = tfevents.read(paths[0])
    losses = [(step, value) for step, tag, kind, value in seen if tag == "train/loss" and kind == "scalar"]
    wanted = [(row["step"], row["loss"]) for row in metrics(folder) if "loss" in row]
    check([step for step, _ in losses] == [step for step, _ in wanted] and
          all(abs(a - b) < 1e-6 * abs(b) for (_, a), (_, b) in zip(losses, wanted)), "it has each loss", str(losses[:3]))
    tags = {tag for _, tag, _, _ in seen}
    check({"train/lr", "train/images_per_s", "val/exact", "val/loss", "time/forward"} <= tags, "and the other metrics", str(tags))
    texts = [(step, value) for step, tag, kind, value in seen if tag == "settings" and kind == "text"]
    check(len(texts) == 1 and texts[0][0] == 0 and "| seed | 42 | recipe |" in texts[0][1], "and the settings", str(texts))
    pictures = [value for _, tag, kind, value in seen if tag == "samples" and kind == "image"]
    with open(folder + "/samples.png", "rb") as file:
        check(len(pictures) == 1 and pictures[0][3] == file.read() and pictures[0][0] > 100, "and the samples")


def histograms():
    with open("small.lua", encoding="utf-8") as file:
        text = file.read()
    with open("spread.lua", "w", encoding="utf-8") as file:
        file.write(text.replace("precision = p.precision, steps", "histograms = true, precision = p.precision, steps"))
    status, out, err = capl("spread.lua", "--steps=24")
    check(status == 0, "histograms = true", out + err)
    seen = tfevents.read(glob.glob("runs/spread/events.*")[0], check_crc=False)
    by_tag = {}
    for step, tag, kind, value in seen:
        if kind == "histogram":
            check(sum(value["buckets"]) == value["num"] and value["limits"] == sorted(value["limits"]) and
                  value["limits"][-1] == value["max"], f"each value of {tag} is in one range, step {step}", str(value))
            by_tag.setdefault(tag, []).append((step, value["num"]))
    evaluations = [row["step"] for row in metrics("runs/spread") if "val_n" in row]
    check(by_tag["weights/2.weight"] == [(step, 192) for step in evaluations], "weights at each evaluation", str(by_tag))
    check(by_tag["gradients/2.bias"] == [(step, 6) for step in [1, *(step + 1 for step in evaluations[:-1])]],
          "gradients of the step after it, and of the first", str(by_tag))


def objects():
    status, out, err = capl("small.lua", "--steps=30", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    check(status == 0 and all(isinstance(line, dict) for line in lines), "--json prints objects alone", err)
    stored = metrics("runs/small-2")
    check([line for line in lines if "loss" in line and "progress" not in line] == [row for row in stored if "loss" in row],
          "the lines of metrics.jsonl among them")
    check(0 <= lines[-1]["final"]["exact"] <= 1 and lines[-1]["final"]["n"] == 50, "and the metrics at last", str(lines[-1]))
    check(any(line.get("progress") == 1 for line in lines), "and the progress")
    check(any("keep: " in line.get("text", "") for line in lines), "and what people would read")
    with open("prints.lua", "w", encoding="utf-8") as file:
        file.write('--- capl: 1\nprint("a\\tb", 1, nil, true, "\\255\\27[2J\\n\\"")\ncapl.params {}\n')
    status, out, err = capl("prints.lua", "--json")
    check(status == 0 and json.loads(out.split("\n")[0]) == {"text": "a\tb\t1\tnil\ttrue\t\ufffd\\x1b[2J\n\""}, "print() is an object, too", out + err)


def silence():
    out = run("--steps=30", "--quiet")
    check(out.startswith("final exact=") and out.count("\n") == 1, "--quiet prints the last line", out)
    status, out, err = capl("small.lua", "--quiet", "--json")
    check(status == 1 and "--quiet and --json exclude each other" in err and out == "", "not both", out + err)


def loops_of_ones_own():
    """The loop in docs/watching.md does what it says, and writes nothing when it is only checked."""
    with open(os.path.join(ROOT, "docs/watching.md"), encoding="utf-8") as file:
        loop = file.read().split("```lua\n")[1].split("```")[0]
    with open("own.lua", "w", encoding="utf-8") as file:
        file.write("""--- capl: 1
-- A custom training loop.
local images = data.loader {
  source = data.captcha {charset = "01", length = 1, width = 24, height = 16, count = 1000, fixed = true}, role = "train", batch = 10,
}
local model = nn.Sequential {nn.AvgPool2d(4), nn.Flatten(), nn.Linear(24, 2)}
local opt = optim.AdamW(model:parameters(), {lr = 0.01})
""" + loop)
    before = sorted(os.listdir("."))
    status, out, err = capl("check", "own.lua")
    left = [name for folder, _, names in os.walk("runs/own") for name in names]
    check(status == 0 and sorted(os.listdir(".")) == before and left == [], "a check leaves no lines", out + err + str(left))
    status, out, err = capl("own.lua")
    folder = sorted(glob.glob("runs/own*"))[-1]
    check(status == 0 and metrics(folder)[-1]["step"] == 1000 and "waits" in out, "a custom training loop shows the same", out + err)
    check({"metrics.csv", "schedule.png"} <= set(os.listdir(folder)), "and leaves the same files", str(os.listdir(folder)))


def killed():
    """Whatever the moment, files end with whole lines and records; one that goes on leaves what a run never stopped leaves."""
    folder = "runs/small-4"
    child = subprocess.Popen([CAPL, "small.lua", "--max_time=2s"], stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    path = folder + "/metrics.jsonl"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (os.path.exists(path) and os.path.getsize(path) > 1000):
        time.sleep(0.02)
    child.send_signal(signal.SIGTERM)
    child.wait(30)
    before = metrics(folder)
    check(len(before) > 1, "lines are whole when a run is stopped")
    table(folder)
    run(f"--resume={folder}", "--max_time=2s")
    after = metrics(folder)
    steps = [row["step"] for row in after if "loss" in row]
    check(steps == sorted(set(steps)) and len(after) > len(before), "a run that goes on has no step twice", str(steps))
    check(any(row.get("event") == "resumed" for row in after), "and says that it went on", str([row for row in after if "event" in row]))
    table(folder)
    paths = glob.glob(folder + "/events.*")
    seen = [step for step, tag, _, _ in tfevents.read(paths[0], check_crc=False) if tag == "train/loss"]
    check(len(paths) == 1 and seen == steps, "for TensorBoard, too", str(seen))


def main():
    write_recipe()
    run("--steps=1000")
    times("runs/small")
    table("runs/small")
    events("runs/small")
    histograms()
    objects()
    silence()
    loops_of_ones_own()
    killed()


in_empty_folder(main)
