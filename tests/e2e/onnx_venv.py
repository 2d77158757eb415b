"""Python with packages of PyPI, for what is compared with ONNX Runtime and ddddocr; shared by the slow tests of capl export.

SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import sys

PACKAGES = ["onnx", "onnxruntime", "ddddocr"]


def imports(python):
    return subprocess.run([python, "-c", "import onnx, onnxruntime, ddddocr"], capture_output=True, check=False).returncode == 0


def install(folder):
    """-> why it failed, "" if it did not."""
    for words in ([sys.executable, "-m", "venv", folder], [folder + "/bin/python", "-m", "pip", "install", "-q", *PACKAGES]):
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode != 0:
            return (done.stdout + done.stderr).strip().split("\n")[-1]
    return ""


def python():
    """The interpreter in $CAPL_ONNX_VENV, by custom venv_onnx in the build folder, which is made once. Without it the test is skipped."""
    folder = os.environ.get("CAPL_ONNX_VENV") or os.path.join(os.environ["CAPL_BUILD_DIR"], "venv_onnx")
    program = folder + "/bin/python"
    if os.path.exists(program) and imports(program):
        return program
    why = install(folder)
    if why or not imports(program):
        print(f"SKIPPED, NOTHING WAS COMPARED WITH ONNX RUNTIME: {' '.join(PACKAGES)} cannot be installed in {folder}: {why}")
        sys.exit(77)
    return program
