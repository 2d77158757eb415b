"""What a run on a GPU notes of it: found by its bus, not by its number; heat told once; energy; variants of bench --ab.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys
import tempfile

CAPL = os.environ["CAPL_BIN"]
SHIM = sys.argv[1]  # folder of the backend with the stand-in for CUDA; its GPU is at 0000:01:00.0
FAKE = os.path.join(os.environ["CAPL_BUILD_DIR"], "tests", "fake")  # NVIDIA's management library, which counts that GPU second
RECIPE = """--- capl: 1
-- A small recognizer for tests.
local p = capl.params {scale = 1, steps = 40}
local function loader(role, count)
  return data.loader {
    source = data.captcha {charset = "01", length = 1, width = 16, height = 16, count = count, fixed = true}, role = role, batch = 8,
  }
end
local model = nn.Sequential {nn.AvgPool2d(4), nn.Flatten(), nn.Linear(16, 2)}
train.fit {
  model = model, train = loader("train", 64), val = false, steps = p.steps, precision = "fp32", log_every = 1,
  loss = function(output, batch) return nn.cross_entropy(output, batch.target:view(-1)) * p.scale end,
  optimizer = optim.AdamW(model:parameters(), {lr = 1e-3}),
}
"""


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{seen}")
    print("ok", what)


def capl(*words, faults=""):
    done = subprocess.run([CAPL, *words], capture_output=True, text=True, timeout=50, stdin=subprocess.DEVNULL, env={
        **os.environ, "CAPL_BACKEND_PATH": SHIM, "CAPL_DEVICE": "cuda", "LD_LIBRARY_PATH": FAKE, "CAPL_FAKE_NVML": faults,
        "OMP_NUM_THREADS": "1"})
    check(done.returncode == 0, "capl " + " ".join(words), done.stdout + done.stderr)
    return done.stdout


def run(*words, faults=""):
    out = capl("gpu.lua", "--monitor_every=0.05", *words, faults=faults)
    folder = max((os.path.join("runs", name) for name in os.listdir("runs")), key=os.path.getmtime)
    with open(folder + "/metrics.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    with open(folder + "/result.json", encoding="utf-8") as file:
        return out, rows, json.load(file)["monitor"]


def main():
    with open("gpu.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE)
    out, rows, total = run(faults="temperature=90")
    check("monitor: every 0.05 s: Fake 200, at most 700 W, 5 of 8 MB taken" in out, "the header names the GPU of the run", out)
    heat = "the GPU is at 90 C, above 85 C: it will throttle or age; check its cooling"
    check(out.count("warning: " + heat) == 1 and [row["event"] for row in rows if "event" in row] == [heat], "heat is told once", out)
    means = [row["monitor"] for row in rows if "monitor" in row]
    check(means and all(m["power_w"] == 250 and m["utilization"] == 0.8 and m["rss"] > 0 for m in means), "means per point", str(means))
    check((total["gpu"], total["power_w"], total["most"]["temperature_c"], total["energy_wh"], total["energy_from"]) ==
          ("Fake 200", 250, 90, 0, "counted"), "totals", str(total))
    out, rows, total = run(faults="nvmlDeviceGetTotalEnergyConsumption:3,nvmlDeviceGetTemperature:15:3")
    check("warning: the driver has lost the GPU: its metrics end here" in out, "a GPU that is lost does not end the run", out)
    check(total["energy_from"] == "estimated" and total["energy_wh"] < 250 * total["seconds"] / 3600,
          "energy without a counter is estimated, and ends with the readings", str(total))
    variants = json.loads(capl("bench", "gpu.lua", "--ab", "scale=1,2", "--rounds=2", "--steps=2", "--warmup=1", "--json"))["variants"]
    check(all(abs(variant["power_w"] - 250) < 1e-6 and abs(variant["utilization"] - 0.8) < 1e-6 and variant["memory_used"] == 5 << 20 and
              variant["estimated"] == ["wh_per_1000_images"] for variant in variants), "power, load and memory of each variant", str(variants))
    check(all(variant["captured"] and variant["precision_counts"]["fp32"] > 0 for variant in variants), "and products of replayed steps", str(variants))


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
