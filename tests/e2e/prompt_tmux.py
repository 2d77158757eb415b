"""The prompt inside tmux: the screen as somebody sees it, with its colours.

SPDX-License-Identifier: Apache-2.0
"""
import os
import shutil
import subprocess
import sys
import time

from program import CAPL, check, in_empty_folder

SOCKET = "capl-test-%d" % os.getpid()


def tmux(*words):
    env = {name: value for name, value in os.environ.items() if name != "TMUX"}
    done = subprocess.run(["tmux", "-L", SOCKET, "-f", "/dev/null", *words], capture_output=True, text=True, timeout=20,
                          env={**env, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "CAPL_HISTORY": os.path.abspath("history")})
    return done.stdout


def screen(*wanted, colours=False):
    """What the screen shows, once it shows all that is wanted."""
    for _ in range(100):
        text = tmux("capture-pane", "-p", *(["-e"] if colours else []))
        if all(word in text for word in wanted):
            return text
        time.sleep(0.05)
    return text


def main():
    if not shutil.which("tmux"):
        print("skipped: no tmux here (scripts/packages lists it)")
        sys.exit(77)
    tmux("new-session", "-d", "-x", "80", "-y", "24", CAPL)
    try:
        check("capl>" in screen("capl>"), "the prompt comes up", screen())
        tmux("send-keys", "nn.Sequential{nn.Linear(2, 3), nn.ReLU()}", "Enter")
        text = screen("9 parameters, train()")
        check("├─ 0: Linear(2 -> 3)  9" in text and "└─ 1: ReLU()" in text, "a network is a tree on the screen", text)
        tmux("send-keys", "6 * 7", "Enter")
        text = screen("\x1b[36m42", colours=True)
        check("\x1b[36m42" in text, "numbers have their colour", repr(text))
        tmux("send-keys", "show(capl.rand(3, 8, 8))", "Enter")
        text = screen("▀▀▀▀▀▀▀▀", colours=True)
        check("▀" in text and "\x1b[38;" in text, "images are drawn", text)
        tmux("send-keys", "while true do end", "Enter")
        time.sleep(0.2)
        tmux("send-keys", "C-c")
        text = screen("interrupted")
        check("interrupted" in text, "Ctrl-C stops a loop", text)
    finally:
        tmux("kill-server")


in_empty_folder(main)
