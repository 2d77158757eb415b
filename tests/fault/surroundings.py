"""A machine that is not as usual: the clock jumps, the home directory cannot be written, /dev/shm is missing, the user's
share of the disk is used up. A training, generate and predict end as usual, or say what is missing.

Without /dev/shm only where this may mount (root).
SPDX-License-Identifier: Apache-2.0
"""
import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

CAPL = os.environ["CAPL_BIN"]
TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.lua")
YEARS = 10 * 365 * 86400


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{seen}")


def run(*words, before=(), env=(), **fault):
    env = dict(os.environ, OMP_NUM_THREADS="1", CAPL_THREADS="1", **dict(env))
    if fault:
        env.update(LD_PRELOAD=os.environ["CAPL_FAULT_LIBRARY"], **{f"CAPL_FAULT_{key.upper()}": str(value) for key, value in fault.items()})
    return subprocess.run([*before, CAPL, *words], capture_output=True, text=True, timeout=50, env=env, stdin=subprocess.DEVNULL)


def weights():
    with open("runs/train/last.capl/weights.safetensors", "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def as_usual(what, usual, **more):
    """The training gives the usual weights, and the commands work."""
    shutil.rmtree("runs", ignore_errors=True)
    for words in ([TRAIN], ["generate", "--out=runs/made", "--n=2"],
                  ["predict", "runs/train/best.capl", "runs/train/files"], ["-e", "print(capl.zeros{2}:sum():item())"]):
        done = run(*words, **more)
        check(done.returncode == 0 and "bug" not in done.stderr, f"{what}: {words[0]} succeeds", done.stdout + done.stderr)
    check(weights() == usual, f"{what}: the weights are the usual ones")
    print(f"ok {what}")


def no_quota():
    shutil.rmtree("runs")
    done = run(TRAIN, call="write", below="runs/", at=60, since=1, errno=errno.EDQUOT)
    check(done.returncode == 1 and "your share of the disk is used up (Disk quota exceeded)" in done.stderr, "a used-up quota is reported",
          done.stdout + done.stderr)
    left = [name for _, folders, names in os.walk("runs") for name in folders + names if ".tmp" in name]
    check(not left, "no temporary file is left", left)
    print("ok quota")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check(run(TRAIN).returncode == 0, "the usual training succeeds")
        usual = weights()
        as_usual("a clock that is set back again and again", usual, call="clock", at=2, since=2, jump=-YEARS)
        as_usual("a clock that jumps ahead", usual, call="clock", at=4, since=1, jump=YEARS)
        as_usual("a home directory that cannot be written", usual, env={"HOME": "/proc/sys", "XDG_CACHE_HOME": "/proc/sys/cache"})
        hidden = ("unshare", "-m", "sh", "-c", 'umount -l /dev/shm && exec "$@"', "sh")
        if subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode == 0:
            as_usual("no /dev/shm", usual, before=hidden)
        else:
            print("skipped: no /dev/shm: this user may not unmount it")
        no_quota()


main()
