"""What a run reports and writes costs less than 40 us of thread CPU time a step, over 10,000 steps; 100 with a point in each.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys
import tempfile

LIMIT_US = 40
LIMIT_EACH_US = 100  # with a point, thus a write, in each step: 52 to 63 us on a virtual machine whose writes are slow


def measure(folder, *words):
    recipe = os.path.join(os.environ["CAPL_SOURCE_DIR"], "bench/logging.lua")
    command = [os.environ["CAPL_BIN"], "bench", recipe, "--logging", "--json", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        sys.exit(f"FAILED: {command}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for words in ((), ("--log_every=1",)):
            metrics = measure(folder, *words)
            text = ", ".join(f"{entry['name']} {entry['us']:.2f}" for entry in metrics["by"])
            print(f"{' '.join(words) or 'as it comes'}: {metrics['us']:.2f} us a step ({text}), others {metrics['others_us']:.2f}")
            if metrics["steps"] != 10000 or {entry["name"] for entry in metrics["by"]} < {"progress", "curve", "time", "monitor"}:
                sys.exit(f"FAILED: not everything was measured: {metrics}")
            with open(os.path.join(folder, metrics["folder"], "metrics.jsonl"), encoding="utf-8") as file:
                lines = sum(1 for line in file)
            if lines < (10000 if words else 200):
                sys.exit(f"FAILED: the run wrote {lines} lines only")
            limit = LIMIT_EACH_US if words else LIMIT_US
            if not 0 < metrics["us"] + metrics["others_us"] < limit:
                sys.exit(f"FAILED: {metrics['us']} + {metrics['others_us']} us a step, wanted: less than {limit}")


main()
