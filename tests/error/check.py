"""Runs mistakes and compares what the user sees, letter by letter.

usage: check.py [--except NAME]... [FILE.txt...]    without files: all beside this one, as many at once as there are cores
FILE.txt holds the command behind "$ ", then all it must print (output, then error output), then "exit N":

    $ capl tests/error/unknown_setting.lua --epoch=3
    tests/error/unknown_setting.lua:4: unknown setting --epoch; did you mean --epochs?
    exit 1

The command runs in a shell, in an empty folder with links to tests/ and recipes/. A line that is just "..." stands for
any number of lines, capl VERSION for capl and the version of this one. `check.py --write FILE.txt` writes what it printed; read it before committing it.
SPDX-License-Identifier: Apache-2.0
"""
import concurrent.futures
import functools
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
os.environ.setdefault("CAPL_BIN", os.path.join(ROOT, "build/capl"))
os.environ.setdefault("CAPL_DEVICE", "cpu")


def run(command):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("tests", "recipes"):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
        shell = 'capl() { "$CAPL_BIN" "$@"; }\n' + command
        done = subprocess.run(["bash", "-c", shell], cwd=folder, capture_output=True, text=True, timeout=50)
    return done.stdout + done.stderr + f"exit {done.returncode}\n"


@functools.cache
def version():
    return subprocess.run([os.environ["CAPL_BIN"], "--version"], capture_output=True, text=True, check=True).stdout.strip()


def matches(expected, seen):
    pattern = "".join("(?:.*\n)*" if line == "...\n" else re.escape(line) for line in expected.splitlines(True))
    return re.fullmatch(pattern, seen) is not None


def parts(path):
    """The command of a file, and what it must print."""
    with open(path, encoding="utf-8") as file:
        first, _, expected = file.read().partition("\n")
    expected = expected.replace("capl VERSION", version())
    assert first.startswith("$ "), f"{path} must begin with '$ COMMAND'"
    return first, expected


def write(path):
    first, _ = parts(path)
    seen = run(first[2:])
    with open(path, "w", encoding="utf-8") as file:
        file.write(first + "\n" + seen.replace(version(), "capl VERSION"))


def failure(path):
    """What is wrong with one case; None if nothing is."""
    first, expected = parts(path)
    try:
        seen = run(first[2:])
    except subprocess.TimeoutExpired:
        seen = "(it did not end)\n"
    if matches(expected, seen):
        return None
    return f"FAILED: {os.path.relpath(path)}\n{first}\n--- expected\n{expected}--- seen\n{seen}"


def check(paths):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [text for text in pool.map(failure, paths) if text]
    print("\n".join(failures))
    print(f"{len(paths)} mistakes, {len(failures)} of them with another message")
    return bool(failures)


def main():
    words = sys.argv[1:]
    if words[:1] == ["--write"]:
        return write(words[1])
    left_out = set()
    while words[:1] == ["--except"]:
        left_out.add(words[1] + ".txt")
        del words[:2]
    paths = words or sorted(glob.glob(os.path.join(HERE, "*.txt")))
    return check([p for p in paths if os.path.basename(p) not in left_out | {"CMakeLists.txt"}])


sys.exit(main())
