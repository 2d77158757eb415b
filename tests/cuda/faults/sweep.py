"""Makes call after call of CUDA's runtime fail while a tiny network trains, and looks at how the run ends.

usage: sweep.py CODE [--often|--all]    CODE: 2 (out of memory), 700 (illegal address) or 719 (launch failure)
A run without failures counts the calls; then the n-th fails, for n = 1, 2, ... at first and ever further apart later
(--often: less far; --all: for every n, half an hour). The shim of tests/cuda plays the GPU: 700 and 719 last for ever, as on a real one; 2 is given once
and from the n-th on. Whatever call it was: the program ends by itself with 0, 1 or 75; with 1 or 75 it says in a few lines what
failed and what to do; no temporary file is left, every file is whole, and the best model kept before still reads.
Repeat one run: CAPL_DEVICE=cuda CAPL_BACKEND_PATH=build/cuda-shim CAPL_SHIM_FAIL=CODE:N build/capl tests/fault/train.lua
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

CAPL = os.environ["CAPL_BIN"]
RECIPE = os.path.join(os.environ["CAPL_SOURCE_DIR"], "tests/fault/train.lua")
MODEL = "runs/train/best.capl"
NAMES = {700: "an illegal memory access was encountered (CUDA error 700)", 719: "unspecified launch failure (CUDA error 719)"}

# The last calls of a run only let go of things. They are some 60, and a run makes up to 60 more or fewer before them, as a
# block of memory that the GPU still reads cannot be used again yet.
CLEANING = 120


def run(fail=""):
    env = dict(os.environ, CAPL_DEVICE="cuda", CAPL_SHIM_FAIL=fail, CAPL_SHIM_REPORT=os.path.abspath("count"),
               OMP_NUM_THREADS="1")
    return subprocess.run([CAPL, RECIPE], env=env, capture_output=True, text=True, timeout=100, errors="replace")


def check(condition, what, done):
    if not condition:
        sys.exit(f"FAILED: {what}\nexit {done.returncode}\n{done.stdout}{done.stderr}")


def result_of(done):
    """The figures of a run, without its speed."""
    last = done.stdout.splitlines()[-1].split()
    return [word for word in last if not word.startswith(("seconds=", "images_per_s="))]


def check_message(code, done, where):
    lines = done.stderr.splitlines()
    check(0 < len(lines) <= 12, f"{where}: the message is short", done)
    check("bug in capl" not in done.stderr and "stack traceback" not in done.stderr, f"{where}: it is a message", done)
    check("train.lua:" in lines[0], f"{where}: it names the line of the recipe", done)
    if code == 2:
        check("memory" in done.stderr, f"{where}: it says that memory is missing", done)
        return
    check(NAMES[code] in done.stderr, f"{where}: it gives CUDA's reason", done)
    if "device cuda is not available" in lines[0]:
        return  # it was lost before it was there
    check("cuda:0" in lines[0], f"{where}: it names the GPU", done)
    check("start again from the last checkpoint" in done.stderr, f"{where}: it says what to do", done)


def whole(path):
    """Whether a file ends where its kind ends."""
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".png"):
        return data[-8:-4] == b"IEND"
    if path.endswith(".json"):
        json.loads(data)
    if path.endswith(".jsonl"):
        for line in data.splitlines():
            json.loads(line)
        return data[-1:] in (b"\n", b"")
    return len(data) > 0


def check_files(done, where):
    paths = [os.path.join(folder, name) for folder, _, names in os.walk("runs") for name in names]
    check(not [p for p in paths if ".tmp" in p], f"{where}: no temporary file is left", done)
    for path in paths:
        try:
            check(whole(path), f"{where}: {path} is whole", done)
        except ValueError as error:
            check(False, f"{where}: {path} is whole: {error}", done)


def check_model(where):
    done = subprocess.run([CAPL, "verify", MODEL], capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, f"{where}: the model kept before the failure still reads", done)


class Sweep:
    """One code; counts how the runs ended."""

    def __init__(self, code):
        self.code, self.failed, self.kept = code, 0, 0
        done = run()
        check(done.returncode == 0, "the run succeeds when nothing fails", done)
        self.result = result_of(done)
        with open("count", encoding="ascii") as file:
            calls, allocations = map(int, file.read().split())
        self.count = allocations if code == 2 else calls
        shutil.rmtree("runs")

    def one(self, fail):
        done = run(fail)
        check(done.returncode in (0, 1, 75), f"{fail}: the program ends by itself", done) # 75: the GPU is lost
        if done.returncode == 0:
            cleaning = not fail.endswith("+") and int(fail.split(":")[1]) > self.count - CLEANING  # all figures are known
            check(self.code == 2 or cleaning, f"{fail}: a lost GPU ends the run", done)
            check(result_of(done) == self.result, f"{fail}: a run that went on has the same result", done)
        else:
            self.failed += 1
            check_message(self.code, done, fail)
        check_files(done, fail)
        if done.returncode != 0 and os.path.exists(MODEL):
            self.kept += 1
            check_model(fail)
        shutil.rmtree("runs", ignore_errors=True)

    def places(self, closeness):
        """Which calls: all at first, then ever further apart, and the last ones."""
        at, places = 1, {self.count - 1, self.count}
        while at <= self.count:
            places.add(at)
            at += max(1, at // closeness)
        return sorted(places)


def main():
    code = int(sys.argv[1])
    few = 3 if code == 2 else 6  # of 2 each place is two runs
    closeness = 1 << 30 if "--all" in sys.argv else 12 if "--often" in sys.argv else few
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sweep = Sweep(code)
        places = sweep.places(closeness)
        for at in places:
            sweep.one(f"{code}:{at}")
            if code == 2:
                sweep.one(f"{code}:{at}+")
    check_ends(sweep)
    print(f"{code}: {sweep.count} calls, {len(places)} made to fail; {sweep.failed} ended the run, {sweep.kept} after a model was kept")


def check_ends(sweep):
    """The sweep saw what it is for."""
    if sweep.failed < 10 or sweep.kept < 2:
        sys.exit(f"FAILED: only {sweep.failed} runs ended early, {sweep.kept} of them with a model")


main()
