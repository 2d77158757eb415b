"""Completion: what `capl completion --at` answers, and what TAB does in a real bash (and zsh, where there is one).

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import shutil

import pexpect

from program import CAPL, capl, check, in_empty_folder

RECIPE = """--- capl: 1
local p = capl.params {
  lr = 0.1, -- the rate, e.g. {1, 2}
  mode = capl.choice {"fast", "slow"}, -- how
  augment = true,
  name = "a, b = {",
  device = "cpu",
  presets = {quick = {lr = 1}, long_one = {lr = 2, name = "x"}},
}
error("a recipe is not run for its completion")
"""


def answer(*words):
    """The candidates for the last of these words, and the ends of files that fit as well."""
    status, out, err = capl("completion", f"--at={len(words)}", "--", *words)
    check(status == 0 and not err, f"completion of {words}", err)
    lines = [line.split("\t")[0] for line in out.splitlines() if not line.startswith(":files")]
    files = re.search(r"^:files\t(.*)$", out, re.M)
    return lines, files.group(1) if files else None


def expect(words, wanted, files=None):
    lines, ends = answer(*words)
    check(lines == wanted and ends == files, f"'{' '.join(words)}' may be {wanted or 'a file'}", f"{lines} {ends}")


def answers():
    open("mine.lua", "w", encoding="utf-8").write(RECIPE)
    os.makedirs("runs/one/best.capl")
    first, files = answer("")
    check({"check", "new", "list", "completion", "captcha"} <= set(first) and "eval-code" not in first and files == ".lua", "the first word",
          str(first))
    expect(["verif"], ["verify"], ".lua")
    expect(["--min"], ["--minutes="])
    expect(["mine.lua", "--l"], ["--lr="])
    expect(["run", "--lr", "2", "mine.lua", "--mo"], ["--mode=", "--monitor_every="])
    expect(["mine.lua", "--mode="], ["--mode=fast", "--mode=slow"])
    expect(["mine.lua", "--mode", "s"], ["slow"])
    expect(["mine.lua", "--preset="], ["--preset=quick", "--preset=long_one"])
    expect(["mine.lua", "--augment", "--no-a"], [])
    expect(["mine.lua", "--no-a"], ["--no-augment"])
    expect(["mine.lua", "--lr=2", "--lr"], [])
    expect(["bench", "mine.lua", "--st"], ["--steps="])
    expect(["bench", "mine.lua", "--na"], ["--name="])
    expect(["predict", "runs/"], ["runs/one/best.capl"], "/")
    expect(["predict", "runs/one/best.capl", "x"], [], ".png .jpg .jpeg .PNG .JPG .JPEG")
    expect(["report", "runs/o"], ["runs/one"], "/")
    expect(["data", ""], ["stat", "check", "pack"])
    expect(["data", "stat", ""], [], "")
    expect(["generate", "--preset=lep"], ["--preset=lepture", "--preset=lepture-0.7.1"])
    expect(["generate", "--form"], ["--format="])
    expect(["ops", "lstm"], ["lstm"] + [name for name in answer("ops", "lstm_")[0]])
    expect(["help", "ex"], ["exit"])
    expect(["completion", ""], ["bash", "zsh"])
    expect(["--minutes", "5", "verif"], ["verify"], ".lua")
    open("odd.lua", "w", encoding="utf-8").write("capl.params {" + "{" * 300 + 'a = "')
    expect(["odd.lua", "--see"], [])
    status, out, err = capl("completion", "fish")
    check(status == 1 and "bash|zsh" in err, "another shell is told what there is", out + err)


def speed():
    """Processor time: how busy others are must not matter."""
    before = os.times()
    for _ in range(5):
        answer("mine.lua", "--mo")
    after = os.times()
    seconds = (after.children_user + after.children_system - before.children_user - before.children_system) / 5
    check(seconds < 0.05, "a TAB takes less than 50 ms of a processor", f"{seconds:.3f} s")


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
    shell.tab("capl mine.lua --mod", "--mode=")
    shell.tab("capl mine.lua --mode=f", "--mode=fast")
    shell.tab("capl mine.lua --mode s", "slow")
    shell.tab("capl report runs/o", "runs/one")
    shell.tab("capl mine.lua --init_from=pi", "pic.png")
    shell.tab("capl generate --out a", "a\\ folder")
    shell.tab("capl check min", "mine.lua")
    shell.close()
    print("ok", comp)


def main():
    answers()
    speed()
    in_shell(Shell(["bash", "--norc", "--noprofile", "-i"], "bind 'set enable-bracketed-paste off'; source <(capl completion bash)"), "bash")
    zsh = os.environ.get("CAPL_ZSH") or shutil.which("zsh")
    if not zsh:
        print("skipped: no zsh here")
        return
    start = "unsetopt zle_bracketed_paste; PS1='$ '; autoload -Uz compinit; compinit -u -D; source <(capl completion zsh)"
    in_shell(Shell([zsh, "-f", "-i"], os.environ.get("CAPL_ZSH_SETUP", "true") + "; " + start), "zsh")


in_empty_folder(main)
