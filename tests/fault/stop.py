"""Ctrl-C and its kin at every moment of a run, from the first millisecond to the last.

usage: stop.py [MOMENTS]    how many moments of each program are tried (8)
Whatever the moment: the program ends within seconds with the signal's status (or had already ended by itself), no
process of it lives on, the terminal is as it was, no temporary file is left, and the models that are there can be read.
SPDX-License-Identifier: Apache-2.0
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time

import pexpect

CAPL = os.environ["CAPL_BIN"]
ROOT = os.environ["CAPL_SOURCE_DIR"]
MOMENTS = int(sys.argv[1]) if len(sys.argv) > 1 else 8
TRAIN = os.path.join(ROOT, "tests/fault/train.lua")
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}

PROGRAMS = {
    "training": [TRAIN, "--steps=12"],
    "generate": ["generate", "--out=runs/images", "--n=400"],
    "eval": ["eval", "model.capl", "--data=images"],
    "predict": ["predict", "model.capl", "images"],
}


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{seen}")


def session_of(pid):
    """Processes, zombies aside, whose session is pid: the program was started as the leader of one."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == pid and fields[0] != "Z":
            found.append(entry)
    return found


def temporary_files():
    return [os.path.join(folder, name) for folder, names, files in os.walk("runs") for name in names + files if ".tmp" in name]


def start(words):
    return pexpect.spawn(CAPL, words, timeout=60, encoding="utf-8", env=dict(os.environ, OMP_NUM_THREADS="1"))


def end(child):
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus if child.exitstatus is not None else 128 + child.signalstatus


def duration(words):
    started = time.monotonic()
    child = start(words)
    status = end(child)
    check(status == 0, f"capl {' '.join(words)} ends well when left alone", child.before)
    return time.monotonic() - started


def send(child, which):
    """A terminal gives Ctrl-C to both processes; kill reaches the supervisor alone."""
    if which == signal.SIGINT:
        child.sendintr()
    else:
        os.kill(child.pid, which)


def stop_at(name, words, moment, which):
    where = f"{which.name} {moment * 1000:.0f} ms into {name}"
    shutil.rmtree("runs", ignore_errors=True)
    child = start(words)
    child.delaybeforesend = None
    before = termios.tcgetattr(child.child_fd)
    time.sleep(moment)
    try:
        send(child, which)
    except (OSError, ProcessLookupError):
        pass  # it has ended
    sent = time.monotonic()
    status = end_and_look(child, before, where)
    check(status in (0, STATUS[which]), f"{where}: the status is {STATUS[which]}, or 0 when it was done", f"{status}\n{child.before}")
    check(time.monotonic() - sent < 20, f"{where}: it ends soon")
    check(not session_of(child.pid), f"{where}: no process lives on", session_of(child.pid))
    check(not temporary_files(), f"{where}: no temporary file is left", temporary_files())
    check("bug in capl" not in child.before and "traceback" not in child.before, f"{where}: no crash", child.before)
    if status == 130:
        check("interrupted" in child.before or moment < 0.1, f"{where}: it says so", child.before)
    check(child.before.count("\x1b[?25l") <= child.before.count("\x1b[?25h"), f"{where}: the cursor is shown", child.before)
    for model in ("runs/train/best.capl", "runs/train/last.capl"):
        if os.path.exists(model):
            done = subprocess.run([CAPL, "verify", model], capture_output=True, text=True, timeout=60)
            check(done.returncode == 0, f"{where}: {model} is whole", done.stdout + done.stderr)
    return status


def end_and_look(child, modes, where):
    child.expect(pexpect.EOF)
    try:
        check(termios.tcgetattr(child.child_fd)[:4] == modes[:4], f"{where}: the terminal's modes are as they were")
    except (OSError, termios.error):
        pass  # the terminal went with its last process
    child.close()
    return child.exitstatus if child.exitstatus is not None else 128 + child.signalstatus


def sweep(name, words):
    whole = duration(words)
    stopped = 0
    for which in STATUS:
        moments = MOMENTS if which == signal.SIGINT else max(2, MOMENTS // 4)
        for i in range(moments):
            stopped += stop_at(name, words, whole * (i + 0.5) / moments, which) != 0
    print(f"ok {name}: {stopped} runs of {whole:.2f} s stopped")


def nobody_reads():
    """`capl RECIPE | head -n 1`: ends quietly, leaves nothing behind."""
    shutil.rmtree("runs", ignore_errors=True)
    line = f"set -o pipefail; '{CAPL}' '{TRAIN}' | head -n 1 > first; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    check(done.stdout == "141\n" and done.stderr == "", "a closed pipe ends a run quietly with 141", done.stdout + done.stderr)
    check(not temporary_files(), "a closed pipe leaves no temporary file", temporary_files())
    print("ok closed pipe")


def nohup():
    """A run started by nohup lives on when its terminal goes."""
    shutil.rmtree("runs", ignore_errors=True)
    done = subprocess.Popen(["nohup", CAPL, TRAIN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(0.2)
    done.send_signal(signal.SIGHUP)
    out, err = done.communicate(timeout=60)
    check(done.returncode == 0 and "final exact=" in out, "nohup keeps a run alive", out + err)
    print("ok nohup")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([CAPL, TRAIN], check=True, capture_output=True)
        os.rename("runs/train/best.capl", "model.capl")
        subprocess.run([CAPL, "-e", "data.save_captchas {dir = 'images', count = 300, seed = 1, charset = '0-9', length = 2, "
                        "width = 40, height = 20}"], check=True, capture_output=True)
        for name, words in PROGRAMS.items():
            sweep(name, words)
        nobody_reads()
        nohup()


main()
