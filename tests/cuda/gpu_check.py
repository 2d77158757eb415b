"""What scripts/gpu-check reads out of `capl bench --ops --json`: a stand-in for capl answers with figures that the real
one printed on this machine.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys
import tempfile

CAPL = os.environ["CAPL_BIN"]
ROOT = os.environ["CAPL_SOURCE_DIR"]

RECIPE = """--- capl: 1
-- Two layers for a test.
local model = nn.Sequential {nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)}
capl.model(model)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
local x = capl.randn(32, 64)
for _ = 1, 10 do opt:backward_step(model(x):mean()) end
"""

# Writes down what it was asked, and has two answers.
STAND_IN = """#!/bin/sh
echo "$*" >>"{folder}/asked"
case "$*" in
  */layers.lua*) echo '{{"layer": "lstm", "precision": "bf16", "ms": 1.5000}}' ;;
  bench*) cat "{folder}/figures.json" ;;
  *) echo '{{"case": "warp", "dtype": "f32", "normalize": "unit", "ms": 1.5, "gb_s": 100.0, "floor_ms": 1.0, "ratio": 1.50}}' ;;
esac
"""

# A PyTorch with a GPU, and one layer's time.
PYTHON = """#!/bin/sh
case "$*" in
  *--layers*) echo '{"layer": "lstm", "precision": "bf16", "ms": 3.0}' ;;
esac
"""


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{seen}")
    print("ok", what)


def figures_of(folder):
    """The real program's figures of a small recipe, as it prints them."""
    with open(f"{folder}/small.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE)
    done = subprocess.run([CAPL, "bench", f"{folder}/small.lua", "--steps=3", "--warmup=1", "--ops", "--json"],
                          capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 0, "bench --ops --json", done.stdout + done.stderr)
    with open(f"{folder}/figures.json", "w", encoding="utf-8") as file:
        file.write(done.stdout)
    return json.loads(done.stdout)


def main(folder):
    figures = figures_of(folder)
    with open(f"{folder}/capl", "w", encoding="utf-8") as file:
        file.write(STAND_IN.format(folder=folder))
    with open(f"{folder}/python", "w", encoding="utf-8") as file:
        file.write(PYTHON)
    for program in ("capl", "python"):
        os.chmod(f"{folder}/{program}", 0o755)
    done = subprocess.run([f"{ROOT}/scripts/gpu-check", "bench", "layers", "data", "torch", f"--out={folder}/out", "--rounds=1"],
                          env={**os.environ, "CAPL_BUILD_DIR": folder, "PYTHON": f"{folder}/python"}, capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 0, "gpu-check passes", done.stdout + done.stderr)
    with open(f"{folder}/out/report.json", encoding="utf-8") as file:
        rows = {(row["section"], row["what"]): row["value"] for row in json.load(file)["rows"]}
    floor = rows["bench", "bf16-1024 floor"]
    check(float(floor.split()[0]) == figures["floor_sum_ms"] and floor.endswith(" ms summed over all ops"), "the floor is the sum of all ops", floor)
    with open(f"{folder}/asked", encoding="utf-8") as file:
        asked = [line for line in file if "augment.lua" in line][0]
    given = asked.split("--copy_gb_s=")[-1].strip()
    check(float(given) == figures["rates"]["gb_per_s"], "augmentation is held against the rate of a copy", asked)
    check(rows["layers", "bf16, lstm"] == "1.5000 ms", "layers are measured", rows)
    check(rows["torch", "bf16, lstm"].endswith("3.000 ms: 2.00 times"), "and held against PyTorch's", rows)
    check(rows["data", "warp, f32, unit"].endswith("1.50 times the floor"), "and the ratio is told", rows)


with tempfile.TemporaryDirectory() as scratch:
    main(scratch)
