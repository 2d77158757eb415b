"""Checkpoints that somebody has changed and hashed anew, so that nothing but their content is wrong.

usage: tampered.py [CHANGES] [SEED]    how many (12)
A value of the tree becomes another, of a wrong type or absurdly large, or an offset, a shape or a number of the tensors
does. --resume then succeeds, or ends with a message: no crash, no bug, no traceback, no minutes, no gigabytes; and
nothing outside of the run's folder is written.
SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

CAPL = os.environ["CAPL_BIN"]
RECIPE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "resume.lua")
CHANGES = int(sys.argv[1]) if len(sys.argv) > 1 else 12
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
ENV = dict(os.environ, OMP_NUM_THREADS="1", CAPL_THREADS="1")
CHECKPOINT = "runs/resume/checkpoints/step-000004.capl"
VALUES = [None, True, -1, 0, 3, 0.5, 1e308, -1e308, 2**53, 2**31, "", "x", "../../../escaped", "/tmp/escaped", "x" * 100000, "\u0000",
          [], {}, [[[[1]]]], {"__index": 1}, [1e9] * 1000, {"step": 4}]


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what} (seed {SEED})\n{seen}")


def read(path):
    """-> header, the bytes behind it."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + size]), data[8 + size:]


def write(path, header, body):
    """With the hash of what is there: the last 32 bytes."""
    text = json.dumps(header).encode()
    data = struct.pack("<Q", len(text)) + text + body[:-32]
    with open(path, "wb") as file:
        file.write(data + hashlib.sha256(data).digest())


def places(value, path=()):
    """Every (container, key) of a tree."""
    if isinstance(value, (dict, list)):
        for key in (value if isinstance(value, dict) else range(len(value))):
            yield value, key, path + (key,)
            yield from places(value[key], path + (key,))


def change(dice, header, body):
    """Changes one thing; says which."""
    kind = dice.random()
    if kind < 0.1:  # bytes of a tensor
        at = dice.randrange(len(body) - 40)
        return f"bytes at {at}", body[:at] + dice.randbytes(8) + body[at + 8:]
    tree = json.loads(header["__metadata__"]["tree"])
    tensors = [name for name in header if name not in ("__metadata__", "sha256")]
    root = header[dice.choice(tensors)] if kind < 0.2 else tree
    container, key, path = dice.choice(list(places(root)))
    value = dice.choice(VALUES)
    container[key] = value
    header["__metadata__"]["tree"] = json.dumps(tree)
    return f"{path} = {str(value)[:40]}", body


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


def try_one(dice, where):
    shutil.rmtree("runs")
    shutil.copytree("given", "runs")
    header, body = read(CHECKPOINT)
    what, body = change(dice, header, body)
    write(CHECKPOINT, header, body)
    done = subprocess.run([CAPL, RECIPE, "--resume", "--steps=5"], capture_output=True, text=True, errors="replace", timeout=30,
                          env=ENV, preexec_fn=limit)
    seen = f"{what[:300]}\nexit {done.returncode}\n{done.stdout[-500:]}{done.stderr[-2000:]}"
    check(done.returncode in (0, 1), f"{where}: it ends by itself", seen)
    check("bug in capl" not in done.stderr and "traceback" not in done.stderr, f"{where}: with a message", seen)
    over = "\ntime: " in done.stdout  # the steps are done, and the final test fails: the line "resumed:" names the file
    named = over or CHECKPOINT + " was changed" in done.stdout or CHECKPOINT in done.stderr or not re.search(r"attempt to|bad argument|in the library", done.stderr)
    check(named, f"{where}: that names the file", seen)
    check(sorted(os.listdir(".")) == ["given", "runs"] and os.listdir("runs") == ["resume"] and not os.path.exists("/tmp/escaped"),
          f"{where}: nothing is written elsewhere", seen)
    return done.returncode


def main():
    dice = random.Random(SEED)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        os.chdir(folder)
        subprocess.run([CAPL, RECIPE, "--steps=4", "--every=4"], check=True, capture_output=True, env=ENV)
        os.rename("runs", "given")
        os.mkdir("runs")
        refused = sum(try_one(dice, f"change {i + 1}") for i in range(CHANGES))
    print(f"ok: {CHANGES} changes, {refused} refused, the others harmless")


main()
