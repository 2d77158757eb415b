"""What has threads of its own, under ThreadSanitizer: a training with its loader, visits to it, the monitor, a prompt, ranks.

usage: races.py, by scripts/test --tsan, which reads the reports. Ctrl-C is not among it: ThreadSanitizer holds signals back until
the next call of a library, and a loop of compiled Lua makes none. SPDX-License-Identifier: Apache-2.0
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

CAPL = os.environ["CAPL_BIN"]
RECIPE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "resume.lua")
ENV = {**os.environ, "CAPL_SANDBOX": "trust", "CAPL_HISTORY": "", "OMP_NUM_THREADS": "1"}  # reports are files


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{seen}")


def start(*words):
    return subprocess.Popen([CAPL, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=ENV)


def end(process, what, text=""):
    out = process.communicate(text, timeout=120)[0]
    check(process.returncode == 0, what, f"exit status {process.returncode}\n{out}")
    return out


def looked_at():
    """A run with three loader threads, two visits at once, and the monitor beside it."""
    run = start(RECIPE, "--steps=150", "--monitor_every=0.1")
    until = time.monotonic() + 60
    while not os.path.exists("runs/resume/metrics.jsonl") and time.monotonic() < until and run.poll() is None:
        time.sleep(0.02)
    monitor = start("monitor", "--every=0.2", "--count=3", "--json")
    for _ in range(3):
        visits = [start("attach", "runs/resume"), start("attach", "runs/resume")]
        for visit in visits:  # the second may be told that the first is inside
            out = visit.communicate("lr()\nstep(1);\nprint(1)\n", timeout=60)[0]
            check("detached" in out or "already attached" in out or "no run" in out or "ended" in out, "a visit", out)
    end(monitor, "the monitor")
    end(run, "the run ends well")


def main():
    ENV["XDG_RUNTIME_DIR"] = os.getcwd()
    looked_at()
    out = end(start(), "a prompt", "x = capl.randn({3, 3})\nx:sum():item() < 100\nfor i = 1, 3 do print(i) end\n")
    check("true" in out, "a prompt answers", out)
    if shutil.which("mpirun"):
        shutil.rmtree("runs")
        end(start(RECIPE, "--steps=20", "--ranks=2"), "two ranks")
        end(start(os.path.join(os.path.dirname(RECIPE), "../dist/collectives.lua"), "--ranks=2"), "collectives of two ranks")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
