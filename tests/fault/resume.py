"""A run that is killed again and again, also while it saves, ends with the bits of one that was left alone.

usage: resume.py [KILLS] [SEED]    how many SIGKILLs (3)
The recipe augments, mixes epochs with checkpoints at every other step, draws dropout masks, evaluates, and its images are
made by three threads; an override is dropped into the folder of the first run on the way.
SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CAPL = os.environ["CAPL_BIN"]
HERE = os.path.dirname(os.path.abspath(__file__))
RECIPE = os.path.join(HERE, "resume.lua")
KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
FOLDER = "runs/resume"
ENV = dict(os.environ, OMP_NUM_THREADS="1", CAPL_THREADS="1")


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what} (seed {SEED})\n{seen}")


def start(*words):
    return subprocess.Popen([CAPL, RECIPE, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENV,
                            stdin=subprocess.DEVNULL, start_new_session=True)


def finish(child):
    out, _ = child.communicate(timeout=120)
    return child.returncode, out


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def curve():
    """What each step and evaluation gave, without what the clock has a part in."""
    with open(f"{FOLDER}/metrics.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    keys = ("step", "images", "loss", "lr", "val_loss", "val_exact", "val_chars", "val_n")
    found = [tuple(line.get(key) for key in keys) for line in lines if "loss" in line or "val_loss" in line]
    return sorted(found, key=lambda entry: (entry[0], entry[2] is None))


def result():
    return {"last": digest(f"{FOLDER}/last.capl/weights.safetensors"), "best": digest(f"{FOLDER}/best.capl/weights.safetensors"),
            "curve": curve()}


def drop_override():
    """Two changes, each journaled with the step from which it holds; returns what the journal says of them."""
    with open(f"{FOLDER}/override.json.new", "w", encoding="utf-8") as file:
        json.dump({"lr_scale": 0.5, "augment": {"rotate": 15}}, file)
    os.rename(f"{FOLDER}/override.json.new", f"{FOLDER}/override.json")


def uninterrupted(journal):
    """The run with the same changes at the same steps, left alone: its folder holds that journal from the beginning."""
    shutil.rmtree("runs", ignore_errors=True)
    status, out = finish(start("--steps=1"))
    check(status == 0, "a run of one step succeeds", out)
    shutil.copy(journal, f"{FOLDER}/journal.jsonl")
    status, out = finish(start("--resume", "--steps=90"))
    check(status == 0, "the run left alone succeeds", out)
    return result()


def newest_step():
    try:
        return max(int(name[5:11]) for name in os.listdir(f"{FOLDER}/checkpoints") if name.endswith(".capl"))
    except (OSError, ValueError):
        return 0


def killed(dice):
    """One run in as many pieces as it takes."""
    shutil.rmtree("runs", ignore_errors=True)
    kills = resumed = 0
    words, overridden = ["--steps=1"], False
    status, out = finish(start(*words))
    check(status == 0, "a run of one step succeeds", out)
    while True:
        child = start("--resume", "--steps=90")
        if kills < KILLS:
            if not overridden and newest_step() > 5:
                drop_override()
                overridden = True
            time.sleep(dice.uniform(0.1, 1.0 if KILLS < 10 else 0.6))
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        status, out = finish(child)
        check(status in (0, -9, 137), "a resumed run goes on or is killed", f"{status}\n{out}")
        resumed += "resumed:" in out
        if status == 0:
            break
        kills += 1
    return kills, resumed, result()


def main():
    dice = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        kills, resumed, one = killed(dice)
        shutil.copy(f"{FOLDER}/journal.jsonl", "journal.jsonl") if os.path.exists(f"{FOLDER}/journal.jsonl") else open("journal.jsonl", "w").close()
        other = uninterrupted("journal.jsonl")
        for key in ("curve", "best", "last"):
            check(one[key] == other[key], f"{key} is that of the run left alone", f"{one[key]}\n{other[key]}")
        with open("journal.jsonl", encoding="utf-8") as file:
            print(f"ok: {kills} kills, {resumed} resumed, {len(one['curve'])} figures and all weights equal; journal: {file.read()}")


main()
