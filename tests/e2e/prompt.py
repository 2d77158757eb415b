"""The prompt, on a terminal and through a pipe.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import select
import signal
import subprocess
import time

import pexpect

from program import CAPL, ROOT, capl, check, in_empty_folder


def ask(child, line, answer, what):
    child.sendline(line)
    child.expect_exact(answer)
    child.expect_exact("capl> ")
    print("ok", what)


def terminal():
    history = os.path.abspath("history")
    env = dict(os.environ, CAPL_HISTORY=history, TERM="xterm", NO_COLOR="1")
    child = pexpect.spawn(CAPL, [], timeout=30, encoding="utf-8", env=env, dimensions=(40, 120))
    child.expect_exact("capl> ")
    ask(child, "1 + 2", "3", "expressions print")
    ask(child, "_ * 2", "6", "_ is the last value")
    ask(child, "{b = 1, 'x', {2}}", "{\"x\", {2}, b = 1}", "tables print sorted, with strings in quotes")
    ask(child, "nil, false", "false", "several values, nil among them")
    child.sendline("for i = 1, 2 do")
    child.expect_exact("    > ")
    child.sendline("print('line', i)")
    child.expect_exact("    > ")
    ask(child, "end", "line\t2", "statements go over several lines")
    ask(child, "error('boom')", "boom", "errors come back to the prompt")
    ask(child, "return +", "near", "syntax errors too")
    ask(child, "?capl.no_grad", "without keeping a graph", "?name explains a function")
    ask(child, "?conv2d", "2-d convolution", "?name explains an op")
    ask(child, "capl.ones(2, 3)", "(2,3)", "tensors print with their shape")
    child.send("capl.zer\t")
    ask(child, "(7):numel()", "\r\n7\r\n", "TAB completes fields")
    child.send("capl.\t\t")
    child.expect_exact("autocast")
    time.sleep(0.5)  # a Ctrl-C while names are being completed is dropped, as it ends no line and no program
    child.sendintr()
    child.expect_exact("^C")
    child.expect_exact("capl> ")
    print("ok TAB lists what fits")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    check(child.exitstatus == 0, "Ctrl-D leaves with status 0", str(child.exitstatus))
    with open(history, encoding="utf-8") as file:
        text = file.read()
    check("1\\040+\\0402" in text or "1 + 2" in text, "lines are remembered", text)


def gone_terminal():
    """A terminal that is closed under a program which has to ignore that signal, as nohup does."""
    env = dict(os.environ, CAPL_HISTORY="", TERM="xterm")
    child = pexpect.spawn(CAPL, [], timeout=30, encoding="utf-8", env=env, ignore_sighup=True)
    child.expect_exact("capl> ")
    ended = os.pidfd_open(child.pid)
    os.close(child.child_fd)
    ready, _, _ = select.select([ended], [], [], 10)
    if not ready:
        os.kill(child.pid, signal.SIGKILL)
    check(bool(ready), "a prompt ends when its terminal is gone", "it runs on")


def pipe():
    status, out, err = capl(text="1 + 1\nfor i = 1, 2 do\nprint(i)\nend\n")
    check(status == 0 and out == "2\n1\n2\n", "piped lines run without a prompt", out + err)
    status, out, err = capl(text="x = 1\nfor i = 1, 2 do\n  x = x + nothing\nend\n")
    check(status == 1 and "stdin:3:" in err and "'nothing' was never set" in err, "an error names the line of the input", out + err)
    for word in ("exit", "quit()"):
        status, out, err = capl(text=f"print('on')\n{word}\nprint('no more')\n")
        check(status == 0 and out == "on\n", f"{word} leaves", out + err)
    status, out, err = capl(text="\ncapl.ones(3):get(4)\n")
    check("stdin:2: bad argument #1 to 'get'" in err, "an error in an expression names its line, too", out + err)
    status, out, err = capl(text="error('bad')\nprint('on')\n")
    check(status == 1 and out == "on\n" and "bad" in err, "an error shows in the status", out + err)
    for name, told in (("data.loader", "on_error"), ("data.split", "group"), ("data.series", "horizon"), ("data.tensors", "boxes"),
                       ("augment.schedule", "ramp"), ("data.pm25", "features = true"), ("data.pm25_features", "dew gap")):
        status, out, err = capl(text=f"?{name}\n")
        check(status == 0 and told in out and "See lua/" not in out, f"?{name} lists the options, wherever they are written", out + err)
    with open(os.path.join(ROOT, "lua", "capl", "train", "init.lua"), encoding="utf-8") as file:
        names = ["train." + name for name in re.findall(r"^  (\w+) = ", file.read(), re.M)]
    check(len(names) > 20, "train has many parts", str(names))
    names += ["capl.progress", "capl.checkpoint", "nn.Ensemble", "optim.groups", "optim.lr_factor"]
    out = capl(text="".join(f"?{name}\nprint('----')\n" for name in names))[1]
    for name, page in zip(names, out.split("----\n")):
        check(page.startswith(name) and len(page.split("\n")) > 2, f"?{name} has a page of its own", page)
    status, out, err = capl(text="print(1)\nprint(2) \0 print(3)\nprint(4)\n")
    check(status == 1 and out == "1\n4\n" and "stdin:2:" in err and "zero byte" in err, "a zero byte hides nothing", out + err)
    with open(os.devnull, "w", encoding="utf-8") as unreadable:
        done = subprocess.run([CAPL], stdin=unreadable, capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 1 and "cannot be read" in done.stderr, "input that cannot be read is reported", done.stdout + done.stderr)
    status, out, err = capl(text="for i = 1, 2 do\n")
    check(status == 1 and "inside the statement that starts in line 1" in err, "an unfinished statement is an error", out + err)


def main():
    terminal()
    gone_terminal()
    pipe()


in_empty_folder(main)
