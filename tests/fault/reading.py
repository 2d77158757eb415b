"""Files that cannot be read, as a user sees it: no permission, a failing disk, too many open files.

The library of preload.c plays them, so that it works for root too.
SPDX-License-Identifier: Apache-2.0
"""
import errno
import os
import subprocess
import sys
import tempfile

CAPL = os.environ["CAPL_BIN"]
ROOT = os.environ["CAPL_SOURCE_DIR"]
RECIPE = "tests/error/read_images.lua"
HINT = '  hint: on_error = "skip" of the loader takes other files in place of bad ones\n'

CASES = [
    # what cannot be opened, why, the words of the message
    ("OGNU_1.png", errno.EACCES, f"{RECIPE}:11: images/OGNU_1.png: cannot be read: Permission denied\n  sample 2, epoch 1\n{HINT}"),
    ("OGNU_1.png", errno.EIO, f"{RECIPE}:11: images/OGNU_1.png: cannot be read: Input/output error\n  sample 2, epoch 1\n{HINT}"),
    ("OGNU_1.png", errno.EMFILE,
     f"{RECIPE}:11: images/OGNU_1.png: cannot be read: Too many open files; see ulimit -n\n  sample 2, epoch 1\n{HINT}"),
    ("read_images.lua", errno.EACCES, f"cannot read recipe {RECIPE}: Permission denied\n"),
]


RESUME = "tests/fault/resume.lua"
# Of a run that is there, but not to be seen, nobody says that it is not there.
UNSEEN = [
    ("runs", "cannot list folder runs: Too many open files; see ulimit -n\n"),
    ("runs/resume/settings.json", "runs/resume/settings.json: Too many open files; see ulimit -n\n"),
    ("runs/resume/checkpoints", "cannot list folder runs/resume/checkpoints: Too many open files; see ulimit -n\n"),
]


def run(words, below, why, since=0):
    env = dict(os.environ, LD_PRELOAD=os.environ["CAPL_FAULT_LIBRARY"], CAPL_FAULT_CALL="open", CAPL_FAULT_AT="1",
               CAPL_FAULT_SINCE=str(since), CAPL_FAULT_BELOW=below, CAPL_FAULT_ERRNO=str(why))
    return subprocess.run([CAPL, *words], env=env, capture_output=True, text=True, timeout=60)


def check(done, expected, what):
    if done.returncode != 1 or not done.stderr.endswith(expected):
        sys.exit(f"{what}: exit {done.returncode}\n--- expected\n{expected}--- seen\n{done.stderr}")


def unseen_runs():
    os.makedirs("runs/resume/checkpoints")
    with open("runs/resume/settings.json", "w", encoding="utf-8") as file:
        file.write('{"settings": {}, "recipe": "resume.lua"}')
    for below, expected in UNSEEN:
        check(run(["--trust", RESUME, "--resume"], below, errno.EMFILE, 1), expected, below)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.symlink(os.path.join(ROOT, "tests"), "tests")
        subprocess.run([CAPL, "generate", "--out=images", "--n=4"], check=True, capture_output=True)
        for below, why, expected in CASES:
            check(run(["--trust", RECIPE], below, why), expected, f"{below}, {os.strerror(why)}")
        unseen_runs()


main()
