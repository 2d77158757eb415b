"""capl monitor, and what a run notes of the machine, with NVIDIA's management library played by tests/unit/fake/nvml.c.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import signal
import subprocess
import time

from program import CAPL, capl, check, in_empty_folder
from small import metrics, newest, read_json, write_recipe

FAKE = os.path.join(os.environ["CAPL_BUILD_DIR"], "tests", "fake")

OWN_LOOP = """--- capl: 1
-- A custom training loop.
local p = capl.params {steps = 200}
local model = nn.Linear(64, 64)
capl.model(model, {output = "numbers"})
local opt = optim.SGD(model:parameters(), {lr = 1e-3})
capl.run_folder()
for _ = 1, p.steps do
  opt:backward_step(model(capl.randn {64, 64}):mean())
  opt:zero_grad()
end
"""


def look(*words, faults="", library=FAKE):
    status, out, err = capl("monitor", *words, "--json", "--every=0.05", env={"LD_LIBRARY_PATH": library, "CAPL_FAKE_NVML": faults})
    check(status == 0, f"capl monitor {' '.join(words)} {faults}", out + err)
    return [json.loads(line) for line in out.splitlines()]


def gpus():
    seen = look("--count=2")
    first, second = seen[0]["gpus"]
    check((first["name"], second["name"]) == ("Fake 100", "Fake 200"), "all GPUs of the driver are shown")
    check((second["power_w"], second["power_limit_w"], second["utilization"], second["temperature_c"]) == (250, 700, 0.8, 60),
          "with their metrics", str(second))
    check(0 <= seen[1]["machine"]["cpu_machine"] <= 1 and "cpu" not in seen[1]["machine"], "and the machine, not capl monitor", str(seen))
    seen = look("--count=2", faults="nvmlDeviceGetUtilizationRates:3,nvmlDeviceGetTemperature:15:2")
    check("utilization" not in seen[0]["gpus"][1] and seen[0]["gpus"][1]["power_w"] == 250, "what is not supported is left out")
    check(seen[1]["gpus"][0] == {"index": 0, "name": "Fake 100", "lost": True, "power_w": 60, "power_limit_w": 500,
                                 "memory_used": 1 << 20, "memory_total": 1 << 30}, "a lost GPU is reported", str(seen[1]))
    seen = look("--count=1", library=os.path.join(FAKE, "old"))
    check("power_limit_w" not in seen[0]["gpus"][1] and seen[0]["gpus"][1]["power_w"] == 250, "an old driver shows what it can")


def lines():
    status, out, err = capl("monitor", "--count=1", env={"LD_LIBRARY_PATH": FAKE, "CAPL_FAKE_NVML": "temperature=91"})
    check(status == 0 and "GPU 1  Fake 200  power 250 of 700 W  busy 80 %  memory 5 of 8 MB  91 C  SM 1500 MHz" in out,
          "lines for people", out + err)
    check(re.search(r"CPU    busy \d+ %", out), "processors", out)
    status, out, err = capl("monitor", "--count=1", env={"LD_LIBRARY_PATH": FAKE, "CAPL_FAKE_NVML": "nvmlInit_v2:18"})
    check(status == 0 and out.startswith("no GPU: NVIDIA's library and the loaded driver are of different versions"),
          "why there is no GPU", out + err)


def running():
    run = subprocess.Popen([CAPL, "small.lua", "--max_time=2s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           stdin=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    while not os.path.exists("runs/small/metrics.jsonl") and run.poll() is None:
        time.sleep(0.02)
    all_runs = look("--count=1")
    seen = look("small")
    run.wait()
    check([one["name"] for one in all_runs[0]["runs"]] == ["runs/small"], "runs that are going on are found", str(all_runs))
    alive = [one["run"] for one in seen if one["run"]["state"] == "running"]
    check(len(alive) >= 3 and seen[-1]["run"]["state"] == "finished", "a run is watched to its end", str(seen[-1]))
    check(all(one.get("rss", 1e7) > 1e6 for one in alive) and "rss" in alive[0] and any(one.get("cpu", 0) > 0 for one in alive), "with its process", str(alive[-1]))
    check(seen[-1]["run"]["step"] > alive[0]["step"] and alive[-1]["images_per_s"] > 0, "and its metrics", str(alive[-1]))
    check(0 <= alive[-1]["left_seconds"] <= 1.2, "and what is left of it", str(alive[-1]))


def recorded():
    means = [row["monitor"] for row in metrics("runs/small") if "monitor" in row]
    result = read_json("runs/small/result.json")["monitor"]
    check(means and all(m["rss"] > 1e6 and "power_w" not in m for m in means), "means are noted, unknown ones left out", str(means[:2]))
    check(result["samples"] >= len(means) and result["least"]["rss"] <= result["rss"] <= result["most"]["rss"] and
          0 < result["cpu"] <= 1, "and those of the whole run", str(result))
    status, out, err = capl("small.lua", "--steps=5", "--monitor_every=0")
    check(status == 0 and not [row for row in metrics(newest()) if "monitor" in row] and
          "monitor" not in read_json(newest() + "/result.json"), "monitor_every = 0 takes no readings", out + err)


def own_loop():
    with open("own.lua", "w", encoding="utf-8") as file:
        file.write(OWN_LOOP)
    status, out, err = capl("own.lua", "--monitor_every=0.05")
    found = read_json("runs/own/result.json")["monitor"]
    check(status == 0 and found["samples"] > 0 and found["most"]["rss"] > 1e6, "a custom training loop is sampled, too", out + err)
    check(re.search(r"^report: monitor_every = 0.05: \d+ readings of the machine$", out, re.M) and
          re.search(r"^report: machine: processors \d+ % busy$", out, re.M), "and its report says so", out)
    status, out, err = capl("own.lua", "--monitor_every=0")
    check(status == 0 and "machine" not in out and "monitor" not in read_json("runs/own-2/result.json"), "unless asked not to", out)


def written_after(path, moment):
    """Whether a file was written after a moment; a folder that is being made has none yet."""
    try:
        return os.path.getmtime(path) > moment
    except FileNotFoundError:
        return False


def stop_soon(*words):
    """Starts a run, stops it after some steps, and returns what its folder has the machine."""
    run = subprocess.Popen([CAPL, "small.lua", "--max_time=1h", "--monitor_every=0.05", *words], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    started = time.time()
    while not written_after(newest() + "/settings.json", started):  # after the first step
        time.sleep(0.02)
    time.sleep(0.3)
    run.send_signal(signal.SIGINT)
    run.wait()
    return read_json(newest() + "/result.json")["monitor"]


def stopped():
    first = stop_soon()
    check(first["samples"] > 0 and first["seconds"] > 0, "a run that is stopped shows its totals", str(first))
    folder = newest()
    both = stop_soon("--resume=" + folder)
    check(newest() == folder and both["samples"] > first["samples"] and both["seconds"] > first["seconds"] and
          both["most"]["rss"] >= first["most"]["rss"] and both["least"]["rss"] <= first["least"]["rss"],
          "and those of all its parts when it goes on", f"{first} {both}")


def mistakes():
    for words, message in (
            (["nothing"], "nothing is not the folder of a run: there is no such folder"),
            (["--every=0"], "--every is a number of seconds from 0.05 to 3600, not 0"),
            (["a", "b"], "capl monitor shows one run"),
            (["--evry=1"], "unknown option --evry; did you mean --every?")):
        status, out, err = capl("monitor", *words)
        check(status == 1 and err.startswith(message), message, out + err)
    status, out, err = capl("small.lua", "--steps=5", "--monitor_every=0.001")
    check(status == 1 and "monitor_every is a number of seconds from 0.05 on, or 0 for none, got 0.001" in err, "too often", err)


def main():
    write_recipe()
    gpus()
    lines()
    running()
    recorded()
    own_loop()
    stopped()
    mistakes()


in_empty_folder(main)
