"""train.fit on a terminal, and runs that end early: the live line, Ctrl-C, the time limit, a kill.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import signal
import subprocess
import time

import pexpect

from program import CAPL, capl, check, in_empty_folder
from small import metrics, newest, read_json, write_recipe


def live(columns, **environment):
    env = {**os.environ, "TERM": "xterm", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", **environment}
    env = {key: value for key, value in env.items() if value is not None}
    return pexpect.spawn(CAPL, ["small.lua", "--max_time=2s"], timeout=30, encoding="utf-8", env=env, dimensions=(24, columns))


def bar():
    for columns in (100, 40):
        child = live(columns, NO_COLOR=None)
        started = time.monotonic()
        child.expect(pexpect.EOF)
        took = time.monotonic() - started
        child.close()
        drawn = re.findall(r"\r([^\r\n]+)\x1b\[K", child.before)
        check(child.exitstatus == 0 and len(drawn) > 3, f"a terminal of {columns} columns gets a live line", child.before)
        check(max(map(len, drawn)) < columns, "which fits", max(drawn, key=len))
        check(len(drawn) <= 10 * took + 5, "and is not drawn too often", f"{len(drawn)} in {took}")
        check(all("left" in line and "%" in line for line in drawn), "it shows what is left", drawn[-1])
        after = re.sub(r"\r[^\r\n]*\x1b\[K", "", child.before)
        check("\x1b" not in after and "\nfinal exact=" in after, "nothing of it stays", after)
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb", "NO_COLOR": None}):
        child = live(80, **environment)
        child.expect(pexpect.EOF)
        child.close()
        check("\x1b" not in child.before and "step " in child.before, f"plain lines with {environment}", child.before)


def stopped():
    child = live(100, NO_COLOR=None)
    child.expect(r"val \d")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    folder = newest()
    check(child.exitstatus == 130, "Ctrl-C gives 130", f"{child.exitstatus} {child.before}")
    check(f"saved: {folder}/last.capl" in child.before and "interrupted" in child.before, "says what it saved", child.before)
    check({"last.capl", "curves.png", "metrics.jsonl", "result.json"} <= set(os.listdir(folder)), "and saves it", str(os.listdir(folder)))
    check(read_json(folder + "/result.json")["ended"] == "interrupted", "result.json says why it ended")
    check(len(metrics(folder)) > 0, "the metrics are whole")
    status, out, err = capl("verify", folder + "/last.capl")
    check(status == 0, "the model is whole", out + err)


def out_of_time():
    status, out, err = capl("--minutes=0.03", "small.lua", "--steps=100000000")
    check(status == 124 and "stopped after 0.03 minutes" in err, "the header's limit ends it too", f"{status} {err}")
    check(os.path.exists(newest() + "/last.capl"), "and what was learned is saved", out)
    status, out, err = capl("--minutes=30", "small.lua", "--max_time=1h")
    check(status == 1 and "max_time = 1:00:00 is no less than the 30 minutes after which this run is stopped" in err
          and "hint: capl --minutes=73 small.lua" in err, "a time box that cannot end is refused", err)


def killed():
    child = subprocess.Popen([CAPL, "small.lua", "--max_time=20s"], stdout=subprocess.PIPE, text=True, start_new_session=True)
    for line in child.stdout:
        if line.startswith("val"):
            break
    time.sleep(0.3)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate(timeout=10)
    check(len(metrics(newest())) > 0, "a killed run leaves whole lines")


def main():
    write_recipe()
    bar()
    stopped()
    out_of_time()
    killed()


in_empty_folder(main)
