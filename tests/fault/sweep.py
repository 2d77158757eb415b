"""Makes every system call that writes fail, one after the other, and looks at what is left.

usage: sweep.py CALL [--every=N]    CALL: write, open, fsync, rename, mkdir or malloc (see preload.c)
The program runs once to count the calls, then once for each of them (or for every N-th), in which that one fails with
"disk full". Whatever call it was: the program ends by itself with 0 or 1; with 1 it says in a few lines what could not
be written and why; no temporary file is left; every file that is there is whole; and a model of an earlier run still
reads. tests/fault/README.md tells how to repeat one run.
SPDX-License-Identifier: Apache-2.0
"""
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile

CAPL = os.environ["CAPL_BIN"]
ROOT = os.environ["CAPL_SOURCE_DIR"]
PRELOAD = os.environ["CAPL_FAULT_LIBRARY"]
RECIPE = os.path.join(ROOT, "tests/fault/train.lua")
REASON = {errno.ENOSPC: "the disk is full (No space left on device); free some space there", errno.ENOMEM: "memory"}


def run(call, at, count=None, since=False):
    """One run of the recipe; at = 0: nothing fails. Returns the finished process. Trusted: preload.c writes what it counts."""
    env = dict(os.environ, LD_PRELOAD=PRELOAD, CAPL_FAULT_CALL=call, CAPL_FAULT_BELOW="runs/", CAPL_FAULT_AT=str(at),
               CAPL_FAULT_ERRNO=str(errno.ENOSPC), OMP_NUM_THREADS="1")
    if since:
        env["CAPL_FAULT_SINCE"] = "1"
    if count:
        env["CAPL_FAULT_COUNT"] = count
    return subprocess.run([CAPL, "--trust", RECIPE], env=env, capture_output=True, text=True, timeout=100, errors="replace")


def calls_of(call):
    """How many calls there are."""
    done = run(call, 0, os.path.abspath("count"))
    check(done.returncode == 0, "the run succeeds when nothing fails", done)
    with open("count", encoding="ascii") as file:
        n = int(file.read())
    shutil.rmtree("runs")
    return n


def check(condition, what, done):
    if not condition:
        sys.exit(f"FAILED: {what}\nexit {done.returncode}\n{done.stdout}{done.stderr}")


def files():
    return [os.path.join(folder, name) for folder, _, names in os.walk("runs") for name in names]


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
    if ".tfevents." in path: # records: length, its checksum, the bytes, theirs; the first may not have fitted
        place = 0
        while place < len(data):
            place += int.from_bytes(data[place:place + 8], "little") + 16
        return place == len(data)
    if path.endswith(".csv"):
        return data[-1:] in (b"\n", b"")
    return len(data) > 0


def check_left(done, where):
    leftovers = [p for p, folders, _ in os.walk("runs") if ".tmp" in p] + [p for p in files() if ".tmp" in p]
    check(not leftovers, f"{where}: no temporary file is left: {leftovers}", done)
    for path in files():
        try:
            check(whole(path), f"{where}: {path} is whole", done)
        except ValueError as error:
            check(False, f"{where}: {path} is whole: {error}", done)


def check_message(done, where, reason):
    lines = done.stderr.splitlines()
    check(0 < len(lines) <= 12, f"{where}: the message is short", done)
    check("bug in capl" not in done.stderr and "stack traceback" not in done.stderr, f"{where}: it is a message", done)
    check(reason in done.stderr, f"{where}: it gives the reason", done)


def check_one(call, at, since=False):
    where = f"{call} {at}{' and all later ones' if since else ''}"
    done = run(call, at, since=since)
    check(done.returncode in (0, 1), f"{where}: the program ends by itself", done)
    if done.returncode == 1:
        check_message(done, where, "emory" if call == "malloc" else REASON[errno.ENOSPC])
    check_left(done, where)
    if done.returncode == 1 and os.path.exists("runs/train/best.capl"):
        verified = verify("runs/train/best.capl")
        check(verified.returncode == 0, f"{where}: the model kept before the failure still reads", verified)
    return done.returncode


def earlier_model():
    """A model made before the disk was full."""
    done = run("none", 0)
    check(done.returncode == 0, "a run without faults succeeds", done)
    os.rename("runs/train", "runs/earlier")


def verify(path):
    return subprocess.run([CAPL, "verify", path], capture_output=True, text=True, timeout=60)


def main():
    call = sys.argv[1]
    every = int(sys.argv[2].removeprefix("--every=")) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        n = calls_of(call)
        check_left(run(call, 0), "no fault")
        shutil.rmtree("runs")
        earlier_model()
        failed = 0
        for at in range(1, n + 1, every):
            failed += check_one(call, at)
            shutil.rmtree("runs/train", ignore_errors=True)
        if call in ("write", "open"):
            for at in (1, n // 2, n):
                check(check_one(call, at, since=True) == 1 or at == n, f"a disk full from {call} {at} on is noticed", run("none", 0))
                shutil.rmtree("runs/train", ignore_errors=True)
        done = verify("runs/earlier/best.capl")
        check(done.returncode == 0, "the earlier model still reads", done)
    print(f"{call}: {n} calls, {len(range(1, n + 1, every))} made to fail, {failed} of them ended the run")


main()
