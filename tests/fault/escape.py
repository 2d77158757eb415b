"""What native code can do in the worker of a recipe, behind the sandbox of the real program: nothing on escape.c's list.

With --trust, which has no sandbox, the same code gets at most of it, so that a refusal means the sandbox.
SPDX-License-Identifier: Apache-2.0
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile

CAPL = os.environ["CAPL_BIN"]
RECIPE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.lua")


def check(condition, what, seen):
    if not condition:
        sys.exit(f"FAILED: {what}\n{seen}")


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def prepare(place):
    put(f"{place}/home/.ssh/id", "key")
    put(f"{place}/job/runs/other/best.capl", "model")
    os.makedirs(f"{place}/tmp", exist_ok=True)
    shutil.copy(RECIPE, f"{place}/job/escape.lua")


def attempts(place, port, *words):
    """{name: allowed} of a run, and of the control."""
    prepare(place)
    env = dict(os.environ, LD_PRELOAD=os.environ["CAPL_ESCAPE_LIBRARY"], CAPL_ESCAPE=place, CAPL_ESCAPE_PORT=str(port),
               HOME=f"{place}/home", TMPDIR=f"{place}/tmp", ESCAPE_TOKEN="hunter2", OMP_NUM_THREADS="1")
    done = subprocess.run([CAPL, *words, "escape.lua", "--steps=1"], cwd=f"{place}/job", env=env, capture_output=True, text=True,
                          timeout=60)
    lines = [line.rsplit(" ", 1) for line in done.stderr.splitlines() if line.startswith(("escape: ", "control: "))]
    shutil.rmtree(f"{place}/job/runs/escape", ignore_errors=True)
    return {name: verdict == "ALLOWED" for name, verdict in lines}, done


def main():
    with tempfile.TemporaryDirectory() as place, socket.socket() as listener, socket.socket(socket.AF_UNIX) as by_path:
        place = os.path.realpath(place)
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        by_path.bind(f"{place}/socket")
        by_path.listen(8)
        port = listener.getsockname()[1]
        info = subprocess.run([CAPL, "info"], capture_output=True, text=True, timeout=60).stdout
        if "guarded by Landlock" not in info or "filtered by seccomp" not in info:
            print("skipped: this kernel has no Landlock or no seccomp")
            sys.exit(77)
        found, done = attempts(place, port)
        allowed = sorted(name for name, fine in found.items() if fine)
        check(len(found) == 22, "every attempt is made, and the worker goes on", f"{len(found)}\n{done.stdout}{done.stderr}")
        check(allowed == ["control: write its own run"], "nothing but its own run is to be had", allowed)
        check(done.returncode == 0, "the run goes on to its end", done.stdout + done.stderr)
        free, done = attempts(place, port, "--trust")
        count = sum(free.values())
        check(count >= 12, "without the sandbox the same attempts succeed", f"{free}\n{done.stderr}")
        print(f"ok: {len(found) - 1} attempts refused; without the sandbox {count - 1} of them succeed")


main()
