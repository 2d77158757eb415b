"""A Python that has PyTorch for the tests that compare with it: this one, or that of a venv, which then runs the script.

The venv is $CAPL_TORCH_VENV, by custom ~/.cache/capl/venv_torch. No test makes it: PyTorch's wheels fill 5.5 GB.
SPDX-License-Identifier: Apache-2.0
"""
import importlib.util
import os
import sys

VENV = os.environ.get("CAPL_TORCH_VENV") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "capl", "venv_torch")


def need(*modules):
    """Goes on where the modules are here; else runs the script by the venv's Python, or ends it as skipped."""
    lacking = [name for name in modules if importlib.util.find_spec(name) is None]
    if not lacking:
        return
    python = os.path.join(VENV, "bin", "python")
    if os.path.exists(python) and not sys.executable.startswith(VENV + os.sep):
        os.execv(python, [python, *sys.argv])
    print(f"skipped: NOTHING WAS COMPARED WITH PYTORCH: {sys.executable} lacks {' and '.join(lacking)}, and so does {VENV}: "
          f"python3 -m venv {VENV} && {VENV}/bin/pip install {' '.join(modules)}")
    sys.exit(77)
