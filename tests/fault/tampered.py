"""Checkpoints that somebody has changed and hashed anew, so that nothing but their content is wrong.

usage: tampered.py [CHANGES] [SEED]    how many (12); which (22), or random
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
failed = []
CHANGES = int(sys.argv[1]) if len(sys.argv) > 1 else 12
SEED = sys.argv[2] if len(sys.argv) > 2 else "22"
SEED = random.randrange(10**6) if SEED == "random" else int(SEED)
ENV = dict(os.environ, OMP_NUM_THREADS="1", CAPL_THREADS="1")
CHECKPOINT = "runs/resume/checkpoints/step-000004.capl"
GIVEN = CHECKPOINT.replace("runs", "given", 1)
VALUES = [None, True, -1, 0, 3, 0.5, 1e308, -1e308, 2**53, 2**31, "", "x", "../../../escaped", "/tmp/escaped", "x" * 100000, "\u0000",
          [], {}, [[[[1]]]], {"__index": 1}, [1e9] * 1000, {"step": 4}]
LOOP = ("objects", "loop")
# What once ended hours later, with a message that named no file: these come first, and are refused with their place.
KNOWN = [((*LOOP, "parts", "time", "total", "load"), {}), ((*LOOP, "parts", "best", "weights"), {}), ((*LOOP, "val"), 3)]


def check(condition, what, seen=""):
    if not condition:
        print(f"FAILED: {what} (seed {SEED})\n{seen}", flush=True)
        failed.append(what)


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


def by_hash(what):
    """Orders changes: another machine has a few more or fewer places (the monitor's), and the same order of the others."""
    return hashlib.sha256(f"{SEED} {what}".encode()).digest()


def all_changes(header, body):
    """("bytes", at, None), or (name of a tensor or "tree", path, value): a tenth are bytes, a tenth numbers of tensors."""
    tree = json.loads(header["__metadata__"]["tree"])
    tensors = [(name, path, value) for name in header if name not in ("__metadata__", "sha256")
               for _, _, path in places(header[name]) for value in VALUES]
    places_of_tree = [("tree", path, value) for _, _, path in places(tree) for value in VALUES]
    lists = [[("tree", *one) for one in KNOWN] + sorted(places_of_tree, key=by_hash), sorted(tensors, key=by_hash),
             [("bytes", int(by_hash(i).hex(), 16) % (len(body) - 40), None) for i in range(CHANGES)]]
    return [lists[{8: 1, 9: 2}.get(i % 10, 0)].pop(0) for i in range(CHANGES)]


def change(header, body, name, place, value):
    """Changes one thing; says which."""
    if name == "bytes":
        return f"bytes at {place}", body[:place] + by_hash(place)[:8] + body[place + 8:]
    tree = json.loads(header["__metadata__"]["tree"])
    container = tree if name == "tree" else header[name]
    for key in place[:-1]:
        container = container[key]
    container[place[-1]] = value
    header["__metadata__"]["tree"] = json.dumps(tree)
    return f"{name}: {place} = {str(value)[:40]}", body


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


def try_one(where, *one):
    shutil.rmtree("runs")
    shutil.copytree("given", "runs")
    header, body = read(CHECKPOINT)
    what, body = change(header, body, *one)
    write(CHECKPOINT, header, body)
    done = subprocess.run([CAPL, RECIPE, "--resume", "--steps=5"], capture_output=True, text=True, errors="replace", timeout=30,
                          env=ENV, preexec_fn=limit)
    seen = f"{what[:300]}\nexit {done.returncode}\n{done.stdout[-500:]}{done.stderr[-2000:]}"
    check(done.returncode in (0, 1), f"{where}: it ends by itself", seen)
    check("bug in capl" not in done.stderr and "traceback" not in done.stderr, f"{where}: with a message", seen)
    if one[1:] in KNOWN:
        place = ".".join(one[1])
        check(f"{CHECKPOINT} holds other state than that of this run: {place}" in done.stderr, f"{where}: that names {place}", seen)
    named = CHECKPOINT + " was changed" in done.stdout or CHECKPOINT in done.stderr
    check(named or not re.search(r"attempt to|bad argument|in the library", done.stderr), f"{where}: that names the file", seen)
    check(sorted(os.listdir(".")) == ["given", "runs"] and os.listdir("runs") == ["resume"] and not os.path.exists("/tmp/escaped"),
          f"{where}: nothing is written elsewhere", seen)
    return done.returncode


def main():
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        os.chdir(folder)
        subprocess.run([CAPL, RECIPE, "--steps=4", "--every=4"], check=True, capture_output=True, env=ENV)
        os.rename("runs", "given")
        os.mkdir("runs")
        refused = sum(try_one(f"change {i + 1}", *what) for i, what in enumerate(all_changes(*read(GIVEN))))
    print(f"{CHANGES} changes, {refused} refused, {len(failed)} wrong, the others harmless")
    sys.exit(1 if failed else 0)


main()
