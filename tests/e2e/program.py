"""What the e2e tests share: running the program in an empty folder and checking what it says.

SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import sys
import tempfile

CAPL = os.environ["CAPL_BIN"]
ROOT = os.environ["CAPL_SOURCE_DIR"]


def capl(*words, env=None, text=None, timeout=90):
    """Runs the program -> (exit status, output, error output). One compute thread: tests run beside each other."""
    done = subprocess.run([CAPL, *words], capture_output=True, text=True, input=text, timeout=timeout,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})})
    return done.returncode, done.stdout, done.stderr


def machine(name):
    """-> the environment of a machine of tests/machines.tsv; nothing where it is set from outside, or the processor lacks its kernels."""
    with open(os.path.join(ROOT, "tests/machines.tsv"), encoding="utf-8") as file:
        facts = {line.split("\t")[0]: line.split("\t")[1] for line in file if not line.startswith("#")}
    env = {"CAPL_ASSUME": os.environ.get("CAPL_ASSUME") or facts[name]}
    return {} if "this processor has" in capl("--version", env=env)[2] else env


def recipe(name):
    return os.path.join(ROOT, "recipes", name)


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{seen}")
    print("ok", what)


def in_empty_folder(main):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
