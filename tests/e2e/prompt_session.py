"""A prompt on a terminal of its own, for the tests of the prompt.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import time

import pexpect

from program import CAPL

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]|\x1b[=>]")


def plain(text):
    """What a terminal shows of it, without colours."""
    return ESCAPE.sub("", text).replace("\r", "")


class Prompt:
    def __init__(self, words=(), rows=40, columns=160, **env):
        self.env = {**os.environ, "CAPL_HISTORY": os.path.abspath("history"), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **env}
        for name in [name for name, value in self.env.items() if value is None]:
            del self.env[name]
        self.child = pexpect.spawn(CAPL, list(words), timeout=10, encoding="utf-8", env=self.env, dimensions=(rows, columns))
        self.child.delaybeforesend = 0.01
        self.wait()

    def wait(self):
        """Everything up to the next prompt; libedit draws it and then waits."""
        self.child.expect_exact("capl> ")
        return self.child.before

    def raw(self, line):
        """What a line prints, with its colours."""
        self.child.sendline(line)
        self.child.expect_exact("\r\n")
        return self.wait()

    def ask(self, line):
        return plain(self.raw(line)).strip("\n")

    def typed(self, keys, *wanted, seconds=3):
        """Types keys and looks at the screen until it shows what is wanted, or the time is over."""
        self.child.send(keys)
        text, end = "", time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                text += self.child.read_nonblocking(100000, 0.05)
            except pexpect.TIMEOUT:
                pass
            if wanted and all(word in plain(text) for word in wanted):
                break
        return plain(text)

    def clear(self):
        """Gives up the line."""
        self.child.sendintr()
        self.child.expect_exact("^C")
        self.wait()

    def leave(self):
        self.child.sendeof()
        self.child.expect(pexpect.EOF)
        self.child.close()
        return self.child.exitstatus
