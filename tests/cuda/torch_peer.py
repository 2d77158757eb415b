"""bench/gpu/torch_peer.py on a processor, where some Python here has PyTorch: every kind of case prints its figures.

$PYTHON or this Python; else python3. Without PyTorch nothing is checked, which is said.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys

PEER = os.path.join(os.environ["CAPL_SOURCE_DIR"], "bench", "gpu", "torch_peer.py")
SMALL = ["--device=cpu", "--steps=1", "--rounds=2", "--batches=2"]
LAYERS = {"lstm", "gru", "ctc", "layer_norm", "attention", "depthwise", "transposed", "conv_first", "conv_first_5x5", "conv_first_8"}


def with_torch():
    """A Python that imports torch; None without one."""
    for python in filter(None, (os.environ.get("PYTHON"), sys.executable, "python3")):
        if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
            return python
    return None


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{seen}")
    print("ok", what, flush=True)


def cases(python, *words):
    done = subprocess.run([python, PEER, *SMALL, *words], capture_output=True, text=True, check=False)
    check(done.returncode == 0, " ".join(words), done.stdout + done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    python = with_torch()
    if not python:
        print("torch_peer.py: NOT CHECKED: no Python here has PyTorch")
        return 77
    for words in (["--data"], ["--infer"]):
        found = cases(python, "--precisions=fp32,bf16", "--modes=eager", *words)
        check(len(found) == 4 if words == ["--data"] else len(found) == 2, "a line for each case", found)
        check(all("error" not in f and f["step_ms"] > 0 and len(f["blocks_ms"]) == 2 for f in found), "with figures", found)
    layers = cases(python, "--precisions=fp32", "--layers", "--small")
    check({f["layer"] for f in layers} == LAYERS, "all layers", layers)
    failed = [f for f in layers if "error" in f and not (f["layer"] == "attention" and "has no attribute" in f["error"])]
    check(not failed, "with figures, but for attention before PyTorch 2.0", failed)
    return 0


sys.exit(main())
