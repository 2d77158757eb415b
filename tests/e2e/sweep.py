"""capl sweep: a grid with trials that fail, a sweep that is killed and goes on, Ctrl-C, draws, and successive halving.

SPDX-License-Identifier: Apache-2.0
"""
import csv
import glob
import json
import os
import re
import signal
import subprocess
import time

from program import CAPL, capl, check, in_empty_folder
from small import read_json, write_recipe


def results(folder):
    with open(folder + "/results.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def rows(folder):
    with open(folder + "/results.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def val_losses(folder):
    with open(folder + "/metrics.jsonl", encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    return [row["val_loss"] for row in found if "val_loss" in row]


def living(folder):
    """Processes that name the folder in their environment: trials of that sweep."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                text = file.read()
        except OSError:
            continue
        if f"CAPL_RUN_FOLDER={folder}/".encode() in text:
            out.append(pid)
    return out


def is_gone(folder, seconds):
    started = time.monotonic()
    while living(folder) and time.monotonic() - started < seconds:
        time.sleep(0.02)
    return not living(folder)


def grid():
    status, out, err = capl("sweep", "small.lua", "--grid", "steps=4,60", "--grid=scale=1,1e39", "--precision=fp32", "--jobs=2", "--memory=1MB")
    check(status == 0, "a sweep some of whose trials fail ends well", out + err)
    found = results("runs/sweep-small")
    failed = [r for r in found if r["status"] == "failed"]
    check(len(found) == 4 and len(failed) == 2, "each trial has a line, the failed ones too", out)
    check(all("the loss of step 1 is" in r["error"] for r in failed), "with the error of the run", str(failed))
    best = rows("runs/sweep-small")[0]
    modes = {r["mode"] for r in found if r["status"] == "done"}
    check(len(modes) == 1 and "cpu" in modes.pop(), "how the trials were computed is recorded, and the same for all", str(modes))
    check(best["steps"] == "60" and best["scale"] == "1", "the longer run is best", out)
    check(f"best: trial {best['trial']}, val_exact" in out and "2 of 4 trials failed" in out, "the screen says so", out)
    check("note: trials waited for memory; one takes up to" in out, "where memory is short they run one after the other", out)
    check("test" not in read_json(best["folder"] + "/result.json"), "no trial reads test images")
    with open("runs/sweep-small/report.html", encoding="utf-8") as file:
        page = file.read()
    outside = re.findall(r'(?:src|href)="(?!data:|#)([^"]*)"', page)
    check(all(os.path.exists("runs/sweep-small/" + link) for link in outside) and "http" not in page, "the page needs no network", str(outside))
    check(page.count("<tr>") >= 5 and 'class="dot s1"' in page and "<td class=\"n\">failed</td>" in page, "and has them all", page[-3000:])
    check({"report.html", "results.csv"} <= set(os.listdir("runs/sweep-small")), "there is a page of it")
    settings = read_json(best["folder"] + "/settings.json")["settings"]
    check(settings["steps"] == {"value": 60, "origin": "flag"} and settings["precision"]["origin"] == "flag", "a trial is an ordinary run", str(settings))
    command = out.rsplit("next: ", 1)[1].strip()
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 0, "its command runs", done.stdout + done.stderr)
    check(val_losses("runs/small") == val_losses(best["folder"]), "and gives the same metrics, bit for bit")


def killed():
    words = [CAPL, "sweep", "small.lua", "--grid", "steps=20..23", "--out=S", "--jobs=2"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        started = time.monotonic()
        while not (os.path.exists("S/results.jsonl") and os.path.getsize("S/results.jsonl") and living("S")) and time.monotonic() - started < 30:
            time.sleep(0.01)
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL) # the process that watches the trials
    check(is_gone("S", 20), "a sweep that is killed takes its trials with it", str(living("S")))
    before = {r["trial"]: os.stat(r["folder"] + "/result.json").st_mtime_ns for r in results("S")}
    check(0 < len(before) < 4, "which was in the middle", str(before))
    with open("S/results.jsonl", "a", encoding="utf-8") as file:
        file.write('{"trial": 4, "rung": 1, "sta')
    status, out, err = capl("sweep", "--resume", "S")
    after = results("S")
    check(status == 0 and sorted(r["trial"] for r in after) == [1, 2, 3, 4], "--resume runs the rest, also after a line that was cut", out + err)
    check(all(os.stat(r["folder"] + "/result.json").st_mtime_ns == before[r["trial"]] for r in after if r["trial"] in before),
          "and none that had ended")
    with open("small.lua", "a", encoding="utf-8") as file:
        file.write("-- other\n")
    status, out, err = capl("sweep", "--resume=S/")
    check(status == 1 and "has changed since the start of the sweep" in err, "a changed recipe is no longer the same sweep", out + err)
    write_recipe()


def stopped():
    # One at a time: a second one that is stopped before it can save would begin anew, in a folder of its own.
    words = [CAPL, "sweep", "small.lua", "--grid", "steps=3000,3001", "--jobs=1", "--out=T"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        started = time.monotonic()
        while not glob.glob("T/trial-*/metrics.jsonl") and time.monotonic() - started < 30:
            time.sleep(0.01)
        status, out, err = capl("sweep", "--resume", "T")
        check(status == 1 and "works on the sweep in T" in err, "no two sweeps work in one folder", out + err)
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=40)[0]
    check(process.returncode == 130 and "continue with:" in out and "sweep --resume T" in out, "Ctrl-C says how to go on", out)
    check(is_gone("T", 5), "and leaves no trial behind", str(living("T")))
    status, out, err = capl("sweep", "--resume", "T")
    logs = "".join(open(path, encoding="utf-8").read() for path in glob.glob("T/*.log"))
    check(status == 0 and "resumed: T/trial-" in logs, "trials that were stopped go on from their checkpoints", out + err + logs)
    check({r["folder"] for r in results("T")} == {"T/trial-001", "T/trial-002"}, "in their folders", out)


def draws():
    def commands(seed):
        words = ["--grid", "scale=0.5..2:log", "--grid", "steps=4..9", "--random=20", f"--sweep_seed={seed}", "--dry"]
        status, out, err = capl("sweep", "small.lua", *words)
        check(status == 0 and out.count("\n") == 20, f"--dry lists what seed {seed} draws", out + err)
        return re.findall(r"--scale=(\S+) --steps=(\S+)", out)
    one, same, other = commands(1), commands(1), commands(2)
    check(one == same and one != other and len(set(one)) == 20, "the seed decides what is drawn, and nothing twice", f"{one} {same} {other}")
    check(all(0.5 <= float(scale) <= 2 and steps in "456789" for scale, steps in one), "from the ranges", str(one))
    check({steps for _, steps in one} == set("456789"), "and all over them", str(one))
    check(not os.path.exists("runs/sweep-small-2"), "nothing has run")


def halving():
    status, out, err = capl("sweep", "small.lua", "--grid", "scale=1..4:log:3", "--halving=3", "--steps=15", "--out=H")
    check(status == 0, "successive halving", out + err)
    found = results("H")
    check([sum(r["rung"] == rung for r in found) for rung in (1, 2)] == [3, 1], "3 trials, then the best of them", out)
    check({(r["rung"], r["steps"]) for r in found} == {(1, 5), (2, 15)}, "with three times the steps", out)
    best = min((r for r in found if r["rung"] == 1), key=lambda r: (-r["value"], r["trial"]))
    check([r["trial"] for r in found if r["rung"] == 2] == [best["trial"]], "which goes on", out)


def seeds():
    with open("small.lua", encoding="utf-8") as file:
        text = file.read()
    with open("seeded.lua", "w", encoding="utf-8") as file:
        file.write(text.replace("local function loader", "capl.manual_seed(p.seed)\nlocal function loader"))
    status, out, err = capl("sweep", "seeded.lua", "--grid", "seed=1,2", "--grid", "steps=3", "--metric=val_loss", "--out=E")
    check(status == 0 and "over the seeds:" in out, "several seeds are put together", out + err)
    values = [r["value"] for r in results("E")]
    row = out.split("over the seeds:\n")[1].split("\n")[1].split()
    check(values[0] != values[1] and row[:2] == ["3", "2"] and abs(float(row[2]) - sum(values) / 2) < 1e-3, "as their mean", out)
    check(abs(float(row[3]) - abs(values[0] - values[1]) / 2 ** 0.5) < 1e-3, "and deviation", out)


def judged_by_others():
    with open("small.lua", encoding="utf-8") as file:
        text = file.read()
    with open("other.lua", "w", encoding="utf-8") as file:
        file.write(text.replace("count = count, fixed", "count = count, seed = p.seed, fixed"))
    status, out, err = capl("sweep", "other.lua", "--grid", "seed=1,2", "--steps=2", "--metric=val_loss", "--at=last")
    check(status == 0 and "have different val images" in out, "trials with other val images are not comparable", out + err)
    found = rows("runs/sweep-other")
    check([float(r["val_loss"]) for r in found] == sorted(float(r["val_loss"]) for r in found), "of losses the least is best", out)


def none_is_best():
    with open("small.lua", encoding="utf-8") as file:
        text = file.read()
    with open("hard.lua", "w", encoding="utf-8") as file:  # 36^4 texts, which a step does not teach
        file.write(text.replace('charset = "0O1", length = 2', 'charset = "0-9A-Z", length = 4').replace("nn.Linear(32, 6)", "nn.Linear(32, 144)")
                   .replace("length = 2}", "length = 4}").replace("view(-1, 3)", "view(-1, 36)"))
    status, out, err = capl("sweep", "hard.lua", "--grid", "scale=1,2", "--steps=1", "--out=N")
    said = "no trial is better than another: val_exact is 0.00 % in all 2; no trial has learned anything that this metric shows"
    check(status == 0 and said in out and "best: trial" not in out and "doctor hard.lua" in out, "a sweep without a best trial says so", out + err)
    with open("N/report.html", encoding="utf-8") as file:
        page = file.read()
    check("No best trial" in page and "Best: trial" not in page, "and so does its page", page[:2000])


def other_metrics():
    with open("small.lua", encoding="utf-8") as file:
        text = file.read()
    text = text.replace("nn.Linear(32, 6)", "nn.Linear(32, 1)").replace(
        '{output = "text", charset = images.charset, length = 2}', '{output = "numbers"}').replace(
        "nn.cross_entropy(output:view(-1, 3), batch.target:view(-1)) * p.scale",
        'nn.mse(output, batch.target:narrow(2, 1, 1):to("f32")) * (p.halved and 0.5 or 1)').replace(
        '  seed = 42,', '  seed = 42,\n  halved = true, -- the loss').replace(
        'train.fit {', """local function numbers()
  local meter = train.RegressionMeter {}
  local add = meter.add
  function meter.add(self, output, batch)
    batch.value = batch.target:narrow(2, 1, 1):reshape(-1):to("f32")
    return add(self, output:view(-1), batch)
  end
  return meter
end
train.fit {
  meter = numbers,""").replace('test = loader("test", 50),', '')
    with open("numbers.lua", "w", encoding="utf-8") as file:
        file.write(text)
    status, out, err = capl("sweep", "numbers.lua", "--grid", "steps=2,9", "--metric=val_rmse", "--no-halved", "--out=R")
    check(status == 0 and "best: trial" in out, "a metric that there is only from the first sample on is one to choose by", out + err)
    found = sorted(r["value"] for r in results("R"))
    check(f"val_rmse {found[0]:.5g}" in out, "the least rmse is best", out)
    check("--no-halved" in out, "--no-KEY goes to the trials as the recipe reads it", out)
    status, out, err = capl("sweep", "numbers.lua", "--grid", "steps=2,9", "--metric=val_rmsee", "--out=Q")
    check(status == 1 and "did you mean val_rmse?" in err, "one that the runs do not have is still refused", out + err)
    status, out, err = capl("sweep", "numbers.lua", "--grid", "halved=true,false", "--no-halved", "--steps=2")
    check(status == 1 and "halved is both fixed and in --grid: --no-halved" in err, "also where it is in --grid", out + err)


def main():
    write_recipe()
    grid()
    killed()
    stopped()
    draws()
    halving()
    seeds()
    none_is_best()
    other_metrics()
    judged_by_others()


in_empty_folder(main)
