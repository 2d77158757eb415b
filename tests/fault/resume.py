"""A run that is killed again and again, also while it saves, ends with the bits of one that was left alone.

usage: resume.py [KILLS] [SEED]    how many SIGKILLs (3); which (22), or random
The recipe augments images that three threads make, draws dropout masks, averages its weights and evaluates; a checkpoint is
written after every other step, in the middle of epochs too. Half of the kills are of a run that is changed by override.json.
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
SEED = sys.argv[2] if len(sys.argv) > 2 else "22"
SEED = random.randrange(10**6) if SEED == "random" else int(SEED)
FOLDER = "runs/resume"
STEPS = 60
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
    found = [tuple(line.get(key) for key in keys) for line in lines if "loss" in line or ("val_loss" in line and line["step"] > 1)]
    return sorted(found, key=lambda entry: (entry[0], entry[2] is None))


def result():
    return {"last": digest(f"{FOLDER}/last.capl/weights.safetensors"), "best": digest(f"{FOLDER}/best.capl/weights.safetensors"),
            "curve": curve()}


def newest_step():
    try:
        return max(int(name[5:11]) for name in os.listdir(f"{FOLDER}/checkpoints") if name.endswith(".capl"))
    except (OSError, ValueError):
        return 0


def half_written():
    return sum(".tmp" in name for name in os.listdir(f"{FOLDER}/checkpoints")) if os.path.isdir(f"{FOLDER}/checkpoints") else 0


def drop_override(number):
    """What a person would write, put in place at once."""
    with open("override.new", "w", encoding="utf-8") as file:
        json.dump({"lr": 0.001 / number, "augment": {"rotate": 15 + number}, "log_every": 1}, file)
    os.rename("override.new", f"{FOLDER}/override.json")


def changes_made():
    try:
        with open(f"{FOLDER}/overrides.jsonl", encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except OSError:
        return []


def alone(entries):
    """The run left alone: with no changes from its beginning, else from step 1 with changes at the steps of overrides.jsonl."""
    shutil.rmtree("runs", ignore_errors=True)
    words = [f"--steps={STEPS}"]
    if entries:
        status, out = finish(start("--steps=1"))
        check(status == 0, "a run of one step succeeds", out)
        shutil.copy("overrides.jsonl", FOLDER)
        shutil.copy("override.json", FOLDER)
        words.append("--resume")
    status, out = finish(start(*words))
    check(status == 0, "the run left alone succeeds", out)
    return result()


def piece(wait, override):
    """A piece of the run that is killed after so many seconds (None: left alone). Returns whether it ended by itself."""
    fresh = newest_step() == 0
    if fresh:
        shutil.rmtree("runs", ignore_errors=True)
    last = wait is None  # there is no other chance to change it, so the wish is there when it starts
    if override and not fresh and last:
        drop_override(override)
    child = start(f"--steps={STEPS}", *([] if fresh else ["--resume"]))
    if override and not fresh and not last:
        drop_override(override)
    if wait is not None:
        time.sleep(wait)
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    status, out = finish(child)
    finished = "is finished" in out  # it was killed when all was done
    check(status in (0, -9, 137) or finished, "a run goes on or is killed", f"{status}\n{out}")
    check(fresh or wait is not None or finished or "resumed:" in out, "a run that goes on says so", out)
    return status == 0 or finished


def killed(dice, kills, overrides):
    """A run in as many pieces as that takes; one that was done before all its kills, or its changes, begins anew."""
    shutil.rmtree("runs", ignore_errors=True)
    inside = count = 0
    while count < kills:
        if piece(dice.uniform(0.15, 0.45 if KILLS < 20 else 0.9), overrides and (count + 1) // 2 + 1):
            shutil.rmtree("runs")
            continue
        if overrides and not changes_made() and newest_step() > STEPS - 10:
            shutil.rmtree("runs")
            continue
        count += newest_step() > 0
        inside += half_written() > 0
    check(piece(None, 1 if overrides and not changes_made() else 0), "the last piece ends by itself")
    return inside


def compare(dice, kills, overrides):
    inside = killed(dice, kills, overrides)
    entries, pieces = changes_made(), result()
    for name in ("overrides.jsonl", "override.json"):
        if entries:
            shutil.copy(f"{FOLDER}/{name}", name)
    check(not half_written(), "nothing half-written is left")
    check((len(entries) > 0) == overrides, "what was changed is in overrides.jsonl", str(entries))
    whole = alone(entries)
    for key in ("curve", "best", "last"):
        check(pieces[key] == whole[key], f"{key} is that of the run left alone", f"{set(pieces[key]) ^ set(whole[key])}")
    print(f"ok: {kills} kills, {inside} of them while saving, {len(entries)} changes; {len(whole['curve'])} figures and all weights equal")
    return inside


def main():
    dice = random.Random(SEED)
    memory = "/dev/shm" if KILLS < 20 and os.path.isdir("/dev/shm") else None  # many kills have to meet a disk's fsync
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        os.chdir(folder)
        inside = compare(dice, KILLS - KILLS // 2, False) + compare(dice, KILLS // 2, True)
        check(inside > 0 or KILLS < 20, "some kills come while a checkpoint is written")


main()
