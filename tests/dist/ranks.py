"""What the tests of ranks share: recipes in an empty folder, run by mpirun on a few ranks that share this machine.

No rank outlives its test: mpirun runs in a process group of its own, which is killed when its time is over.
SPDX-License-Identifier: Apache-2.0
"""
import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from program import CAPL, ROOT, capl, check, in_empty_folder, recipe  # noqa: E402,F401 for whoever imports this

BUILD = os.environ["CAPL_BUILD_DIR"]
# Ranks that share two processors: one compute thread each, nobody bound to a processor, nobody asking again and again.
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
if os.geteuid() == 0:
    MPIRUN.insert(1, "--allow-run-as-root")


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def need_mpi():
    """Skips the test where ranks on processors cannot be started."""
    if not shutil.which("mpirun"):
        skip("mpirun is not installed (openmpi-bin)")
    if not os.path.exists(os.path.join(BUILD, "libcapl_mpi.so")):
        skip("this build has no libcapl_mpi (libopenmpi-dev was not there)")


def finish(process, timeout):
    """Waits -> (exit status, output, error output); a process that takes longer is killed with all it started."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        sys.exit(f"FAILED: not over after {timeout} s: {' '.join(process.args)}\n{out}\n{err}")
    return process.returncode, out, err


def start(*words, env=None):
    """Starts a command whose output is kept -> the process, leader of a process group of its own."""
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})})


def mpirun(n, *words, env=None, timeout=60, options=()):
    """Runs a command on n ranks that mpirun starts itself -> (exit status, output, error output)."""
    return finish(start(*MPIRUN, *options, "-n", str(n), *words, env=env), timeout)


def on_ranks(n, *words, env=None, timeout=60, options=()):
    """Likewise capl, as one who knows mpirun starts it; words: as behind capl."""
    return mpirun(n, CAPL, *words, env=env, timeout=timeout, options=options)


def write(name, text):
    """A recipe, or any other file, in the folder of the test."""
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    return name


def succeed(n, *words, what, **options):
    """Runs capl on n ranks, which has to end well -> its output."""
    status, out, err = on_ranks(n, *words, **options)
    check(status == 0, f"{what}, on {n} rank{'s' if n > 1 else ''}", f"exit status {status}\n{out}\n{err}")
    return out
