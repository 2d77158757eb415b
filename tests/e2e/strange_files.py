"""Files of a run that somebody has changed, or put something else in place of, and two processes that want one run.

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import json
import os
import shutil
import signal
import subprocess
import time

from program import CAPL, capl, check, in_empty_folder
from small import metrics, write_recipe

RUN = "runs/small"


def fresh():
    shutil.rmtree("runs", ignore_errors=True)
    shutil.copytree("kept", "runs")


def replace(name, make):
    path = f"{RUN}/{name}"
    if os.path.exists(path):
        os.remove(path)
    make(path)


def endless(path):
    os.symlink("/dev/zero", path)


def sparse(path):
    with open(path, "wb") as file:
        file.truncate(1 << 30)


def read_at_once(*words, status=0):
    began = time.monotonic()
    found, out, err = capl(*words, timeout=60)
    fine = found == status and "traceback" not in err and ".lua:" not in err.replace("small.lua:", "")
    check(fine, f"capl {' '.join(words)} ends with {status}", f"{found}\n{out}\n{err}")
    check(time.monotonic() - began < 30, "and does not wait for what never comes")
    return out + err


def no_files():
    for make in (os.mkfifo, endless, sparse):
        fresh()
        for name in ("settings.json", "evaluation.json", "metrics.jsonl"):
            replace(name, make)
        read_at_once("report", RUN)
    read_at_once("runs")
    why = "a pipe or a device, not a file"
    replace("settings.json", os.mkfifo)
    with open(f"{RUN}/report.html", encoding="utf-8") as file:
        check("more than the 536870912 that make sense here" in file.read(), "the page shows the size of a file")
    read_at_once("report", RUN)
    with open(f"{RUN}/report.html", encoding="utf-8") as file:
        check(why in file.read(), "and what is no file")
    fresh()
    for name in ("override.json", "metrics.jsonl"):
        replace(name, os.mkfifo)
    check("metrics.jsonl" in read_at_once("small.lua", f"--resume={RUN}", "--steps=12", status=1), "a run that cannot write its lines says so")


def write(name, text):
    with open(f"{RUN}/{name}", "wb") as file:
        file.write(text)


def damaged_lines():
    fresh()
    with open(f"{RUN}/metrics.jsonl", "rb") as file:
        lines = file.read().split(b"\n")
    row = json.loads(lines[0])
    odd = {**row, "loss": [[]], "images": {}, "val_exact": "x", "event": 5}
    fresh()
    write("metrics.jsonl", b"\n".join([json.dumps(odd).encode(), b"[1, 2]", b"\xff\xfe", b'{"loss": 1, "step": null}', *lines]))
    write("overrides.jsonl", b'{"a":' * 10000 + b"1" + b"}" * 10000)
    read_at_once("small.lua", f"--resume={RUN}", "--steps=11")
    write("overrides.jsonl", b'{"step": "x", "changes": {}}\n{"step": 1, "changes": 5}\n{"step": 11, "changes": {"lr": "x"}}\n')
    seen = read_at_once("small.lua", f"--resume={RUN}", "--steps=12")
    check("nothing changes: lr is a number from 0 on (from overrides.jsonl)" in seen, "a change that cannot be is not made", seen)


OTHER = """--- capl: 1
local trees = {
  {checkpoint = 1, objects = 5, step = 10}, {checkpoint = 1, objects = {}, step = -1, facts = {}, rng = {}}, {1, 2, 3},
  {checkpoint = 1, objects = {model = 5}, step = 10, facts = {}, rng = {seed = 1}},
  {checkpoint = 1, objects = {model = 5, loop = {span = {seconds = 1, reserve = 0, position = 0}, parts = {}}}, step = 10, facts = {},
    rng = {seed = 1}},
}
for i, tree in ipairs(trees) do train.save("other" .. i .. ".capl", tree) end
"""


def state_of_others():
    """Whole files, with the right hash, that hold something else."""
    with open("other.lua", "w", encoding="utf-8") as file:
        file.write(OTHER)
    read_at_once("--trust", "other.lua")
    fresh()
    checkpoint = f"{RUN}/checkpoints/step-000010.capl"
    for i, why in enumerate(["is no checkpoint of a run"] * 3 + ["was not saved by train.fit", "holds other state than that of this run"]):
        shutil.copy(f"other{i + 1}.capl", checkpoint)
        _, out, err = capl("small.lua", f"--resume={RUN}", "--steps=12", "--inexact")
        check(why in err, why, out + err)


def changed_settings():
    fresh()
    with open(f"{RUN}/settings.json", encoding="utf-8") as file:
        settings = json.load(file)
    settings["settings"] = {"steps": 0, "scale": [1], "\udcff": 1, "seed": {"value": {}}, "none": {"value": "\x1b[31m"}}
    write("settings.json", json.dumps(settings).encode().replace(b"\\udcff", b"\xff"))
    read_at_once("small.lua", f"--resume={RUN}", "--steps=11")
    shutil.copytree("kept/small", "runs/other")
    check("\x1b" not in read_at_once("diff", RUN, "runs/other"), "no text of a file steers the terminal")


def strange_names():
    """What a run says steers no terminal, and its commands can be pasted."""
    for name in ("my recipe; it's <b>.lua", "red\x1b[31m\n.lua"):
        shutil.copy("small.lua", name)
        status, out, err = capl(name, "--steps=2")
        check(status == 0 and "\x1b" not in out, "a recipe of any name", out + err)
        command = out[out.index("next: ") + 6:].rsplit("IMAGE.png", 1)[0]
        done = subprocess.run(["bash", "-c", command.replace(" predict ", " verify ", 1)], capture_output=True, text=True, timeout=60)
        check(done.returncode == 0, "the next command can be pasted", command + done.stderr)
    check(os.path.isdir("runs/red_[31m_"), "the folder of such a run has a plain name", str(os.listdir("runs")))
    shutil.move("runs/red_[31m_", "runs/red\x1b[31m\n")
    seen = subprocess.run(["script", "-qc", f"'{CAPL}' runs 'runs/red\x1b[31m\n'", "/dev/null"], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)
    check("\x1b" not in seen.stdout and "red" in seen.stdout, "nothing that is shown on a terminal steers it", repr(seen.stdout))


def one_at_a_time():
    """Of processes that want the same run one gets it; a run that is going on is left alone."""
    fresh()
    words = [CAPL, "small.lua", f"--resume={RUN}", "--steps=100000"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    children = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) for _ in range(3)]
    end = time.monotonic() + 60
    while sum(child.poll() is not None for child in children) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    living = [child for child in children if child.poll() is None]
    said = [child.communicate()[0] for child in children if child not in living]
    check(len(living) == 1 and all("right now" in text for text in said), "two of three are refused", "\n".join(said))
    check("is trained by" in read_at_once("small.lua", "--resume", status=1), "so is a later one")
    living[0].send_signal(signal.SIGTERM)
    out, _ = living[0].communicate(timeout=60)
    check(living[0].returncode == 143, "the one that has it goes on until it is stopped", out)
    steps = [line["step"] for line in metrics(RUN) if "loss" in line]
    check(steps == sorted(set(steps)), "its files are its own", str(steps))


def gone():
    """Of a run that was killed nobody has asked how it ended, as where process 1 is a program of one's own."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come to this process, which leaves them unasked
    fresh()
    child = subprocess.Popen([CAPL, "small.lua", "--steps=100000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + 60
    while not os.path.exists("runs/small-2/metrics.jsonl") and time.monotonic() < end:
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGKILL)
    time.sleep(0.2)
    check("running" not in read_at_once("runs"), "a process that has ended is no running one")


def main():
    write_recipe()
    status, out, err = capl("small.lua", "--steps=10")
    check(status == 0, "a run", out + err)
    os.rename("runs", "kept")
    no_files()
    damaged_lines()
    state_of_others()
    changed_settings()
    strange_names()
    one_at_a_time()
    gone()


in_empty_folder(main)
