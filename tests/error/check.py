"""Runs one mistake and compares what the user sees, letter by letter.

FILE.txt holds the command behind "$ ", then all it must print (output, then error output), then "exit N":

    $ capl tests/error/unknown_setting.lua --epoch=3
    tests/error/unknown_setting.lua:4: unknown setting --epoch; did you mean --epochs?
    exit 1

The command runs in a shell, in an empty folder with links to tests/ and recipes/. A line that is just "..." stands for
any number of lines. `check.py --write FILE.txt` writes what it printed; read it before committing it.
SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import subprocess
import sys
import tempfile


def run(command):
    root = os.environ["CAPL_SOURCE_DIR"]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("tests", "recipes"):
            os.symlink(os.path.join(root, name), os.path.join(folder, name))
        shell = 'capl() { "$CAPL_BIN" "$@"; }\n' + command
        done = subprocess.run(["bash", "-c", shell], cwd=folder, capture_output=True, text=True, timeout=50)
    return done.stdout + done.stderr + f"exit {done.returncode}\n"


def matches(expected, seen):
    pattern = "".join("(?:.*\n)*" if line == "...\n" else re.escape(line) for line in expected.splitlines(True))
    return re.fullmatch(pattern, seen) is not None


def main():
    write = sys.argv[1] == "--write"
    path = sys.argv[-1]
    first, _, expected = open(path, encoding="utf-8").read().partition("\n")
    assert first.startswith("$ "), f"{path} must begin with '$ COMMAND'"
    seen = run(first[2:])
    if write:
        open(path, "w", encoding="utf-8").write(first + "\n" + seen)
    elif not matches(expected, seen):
        sys.exit(f"{first}\n--- expected\n{expected}--- seen\n{seen}")


main()
