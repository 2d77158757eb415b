"""Completion: what TAB does in a real bash (and zsh, where there is one).

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import shutil

import pexpect

from program import CAPL, capl, check, in_empty_folder


def refusals():
    status, out, err = capl("completion", "fish")
    check(status == 1 and "bash|zsh" in err, "another shell gets the list of those there are", out + err)


class Shell:
    """A shell in a terminal: what a line becomes at TAB."""

    def __init__(self, command, setup):
        env = {**os.environ, "PATH": os.path.dirname(CAPL) + ":" + os.environ["PATH"], "TERM": "dumb", "PS1": "$ ", "INPUTRC": "/dev/null",
               "HISTFILE": "", "OMP_NUM_THREADS": "1"}
        self.shell = pexpect.spawn(command[0], command[1:], env=env, encoding="utf-8", timeout=30, dimensions=(40, 200))
        self.shell.sendline(setup + "; echo read''y")
        self.shell.expect("ready\r\n")

    def tab(self, line, wanted):
        """The line after TAB; waits for what is wanted, so that a slow machine does not fail."""
        self.shell.send("\x15" + line + "\t")
        try:
            self.shell.expect("\a?".join(re.escape(letter) for letter in wanted)) # zsh may ring in the middle of a word
            found = True
        except pexpect.TIMEOUT:
            found = False
        check(found, f"TAB makes '{wanted.strip()}' of '{line}'", repr(self.shell.before))

    def close(self):
        self.shell.close(force=True)


def in_shell(shell, comp):
    os.makedirs("a folder", exist_ok=True)
    open("pic.png", "w", encoding="utf-8").write("")
    shell.tab("capl verif", "verify ")
    shell.tab("capl bench mine.lua --st", "--steps=")
    shell.tab("capl generate --form", "--format=")
    shell.tab("capl data stat pi", "pic.png")
    shell.tab("capl generate --out a", "a\\ folder")
    shell.close()
    print("ok", comp)


def main():
    refusals()
    in_shell(Shell(["bash", "--norc", "--noprofile", "-i"], "bind 'set enable-bracketed-paste off'; source <(capl completion bash)"), "bash")
    zsh = os.environ.get("CAPL_ZSH") or shutil.which("zsh")
    if not zsh:
        print("skipped: no zsh here")
        return
    start = "unsetopt zle_bracketed_paste; PS1='$ '; autoload -Uz compinit; compinit -u -D; source <(capl completion zsh)"
    in_shell(Shell([zsh, "-f", "-i"], os.environ.get("CAPL_ZSH_SETUP", "true") + "; " + start), "zsh")


in_empty_folder(main)
