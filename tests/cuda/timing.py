"""Where a step's time goes on a device that works after the host: marks in its queue, no waits; a recorded step is one part.

SPDX-License-Identifier: Apache-2.0
"""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["CAPL_SOURCE_DIR"], "tests/e2e"))

from program import capl, check, in_empty_folder  # noqa: E402
from small import RECIPE, metrics, read_json  # noqa: E402

SHIM = sys.argv[1]


def run(name, capture):
    with open(name + ".lua", "w", encoding="utf-8") as file:
        file.write(RECIPE.replace("precision = p.precision, steps", f"capture = {capture}, precision = p.precision, steps"))
    status, out, err = capl(name + ".lua", "--steps=40", env={"CAPL_BACKEND_PATH": SHIM, "CAPL_DEVICE": "cuda"})
    check(status == 0 and "time: " in out, f"capture = {capture}", out + err)
    rows = [row for row in metrics("runs/" + name) if "time" in row]
    seconds = rows[-1]["seconds"]
    total = sum(sum(row["time"].values()) for row in rows)
    check(total < 1.05 * seconds + 0.1, "the parts are not more than the time", f"{total} {seconds}")
    return read_json(f"runs/{name}/result.json")["time"], set(rows[-1]["time"])


def main():
    times, last = run("whole", "true")
    check(times["step"] > 0 and "forward" not in times and "step" in last, "a replayed step has no parts", str(times))
    times, last = run("plain", "false")
    parts = {"forward", "backward", "optimizer"}
    check("step" not in times and parts <= last and all(times[part] > 0 for part in parts), "a plain one has", str(times))


in_empty_folder(main)
