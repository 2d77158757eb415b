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


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.symlink(os.path.join(ROOT, "tests"), "tests")
        subprocess.run([CAPL, "generate", "--out=images", "--n=4"], check=True, capture_output=True)
        for below, why, expected in CASES:
            env = dict(os.environ, LD_PRELOAD=os.environ["CAPL_FAULT_LIBRARY"], CAPL_FAULT_CALL="open", CAPL_FAULT_AT="1",
                       CAPL_FAULT_BELOW=below, CAPL_FAULT_ERRNO=str(why))
            done = subprocess.run([CAPL, "--trust", RECIPE], env=env, capture_output=True, text=True, timeout=60)
            if done.returncode != 1 or done.stderr != expected:
                sys.exit(f"{below}, {os.strerror(why)}: exit {done.returncode}\n--- expected\n{expected}--- seen\n{done.stderr}")


main()
