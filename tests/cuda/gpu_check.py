"""scripts/gpu-check: what it makes of figures, refusals, a short time, signals and two records.

usage: gpu_check.py SHIM_FOLDER [slow]
A stand-in for capl answers with figures that the real one printed on this machine; the sections that take seconds on the
shim run there too, on a card of a known speed. slow: with cuDNN missing as well.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

CAPL = os.environ["CAPL_BIN"]
ROOT = os.environ["CAPL_SOURCE_DIR"]
SHIM = sys.argv[1]

RECIPE = """--- capl: 1
-- Two layers for a test.
local model = nn.Sequential {nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)}
capl.model(model)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
local x = capl.randn(32, 64)
local step = capl.capture(function()
  local loss = model(x):mean()
  opt:backward_step(loss)
  return loss
end, {strict = false})
local progress = capl.progress {steps = 100}
for _ = 1, 100 do progress:step(32, step(), 0.1) end
"""

# Writes down what it was asked, and has an answer for each.
STAND_IN = """#!/bin/sh
echo "$*" >>"{folder}/asked"
case "$*" in
  info) printf 'capl\\ncuda\\n  cuDNN     9.19.0\\n  NCCL      2.28.9\\n  cuda:0    a card\\nenvironment\\n' ;;
  -e*) echo cuda:0 ;;
  *nccl.lua*) echo '{{"ranks": 1, "checked": 75, "apart": 0, "mb": 64, "ms": 0.5, "bus_gb_s": 0}}' ;;
  *train.lua*) [ ! -e "{folder}/slow" ] || sleep 30; printf 'ms 1.5\\ncaptured %s\\nloss 1 0.5\\nweights 1 2\\n' "$(cat "{folder}/captured")" ;;
  *layers.lua*) echo '{{"layer": "lstm", "precision": "bf16", "ms": 1.5, "captured_steps": 9}}'
                echo '{{"layer": "gru", "precision": "bf16", "ms": 1.5, "captured_steps": 0, "refused": "no"}}' ;;
  *infer.lua*) echo '{{"step_ms": 0.5, "images_per_s": 2000, "steps": 6, "captured_steps": 6, "blocks_ms": [0.5, 0.5]}}' ;;
  *convs.lua*|*--steps=1\\ --warmup=1\\ --capture=false*)
    echo '{{"record": "conv2d x", "engine": 41, "candidate": 0, "workspace": 1000000, "ms": 0.5, "chosen": true}}' >>"$CAPL_DNN_ENGINES"
    echo '{{"record": "conv2d x", "engine": "own", "workspace": 0, "ms": 0.75, "chosen": false}}' >>"$CAPL_DNN_ENGINES" ;;
  bench*--ops*) cat "{folder}/ops.json" ;;
  bench*capture=false*) cat "{folder}/figures.json" ;;
  bench*) cat "{folder}/captured.json"
    for how in tuned loaded; do
      echo '{{"record": "conv2d x", "engine": 41, "workspace": 1000000, "how": "'$how'"}}' >>"$CAPL_DNN_PLANS"
    done
    echo '{{"record": "conv2d y", "engine": "own", "workspace": 0, "how": "faster"}}' >>"$CAPL_DNN_PLANS" ;;
  *) echo '{{"case": "warp", "dtype": "f32", "normalize": "unit", "ms": 1.5, "gb_s": 100.0, "floor_ms": 1.0, "ratio": 1.50}}' ;;
esac
"""

# A PyTorch with a GPU; compiled it is fastest. It needs the LD_LIBRARY_PATH of the caller.
PYTHON = """#!/bin/sh
[ "$LD_LIBRARY_PATH" = /where/libcuda/is ] || exit 1
case "$*" in
  *--layers*) echo '{"layer": "lstm", "precision": "bf16", "ms": 3.0}' ;;
  *mode*) ms=30; case "$*" in *graph*) ms=20 ;; *compile*) ms=10 ;; esac
          echo "{\\"step_ms\\": $ms, \\"min_ms\\": $ms, \\"max_ms\\": $ms}" ;;
esac
"""


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{seen}")
    print("ok", what, flush=True)


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def metrics_of(folder, *words, **env):
    """The real program's metrics of a small recipe, as it prints them."""
    done = subprocess.run([CAPL, "bench", f"{folder}/small.lua", "--warmup=4", "--json", *words], capture_output=True, text=True,
                          timeout=60, check=False, env={**os.environ, **env})
    check(done.returncode == 0, "bench " + " ".join(words), done.stdout + done.stderr)
    return json.loads(done.stdout)


class Check:
    """scripts/gpu-check with the stand-ins of a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.env = {**os.environ, "CAPL_BUILD_DIR": folder, "PYTHON": f"{folder}/python", "LD_LIBRARY_PATH": "/where/libcuda/is"}

    def __call__(self, out, *words):
        done = subprocess.run([f"{ROOT}/scripts/gpu-check", f"--out={self.folder}/{out}", *words], env=self.env, capture_output=True,
                              text=True, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr

    def rows(self, out):
        with open(f"{self.folder}/{out}/report.json", encoding="utf-8") as file:
            return {(row["section"], row["what"]): row for row in json.load(file)["rows"]}


def refusals(folder, gpu_check):
    """A bench, and steps, of which nothing was captured."""
    status, text = gpu_check("refused", "bench", "graph", "--precisions=bf16", "--batches=1024", "--modes=captured", "--quick")
    check(status == 1 and "passed " in text, "gpu-check reports", text)
    row = gpu_check.rows("refused")["bench", "bf16-1024 captured"]
    check(status == 1 and row["status"] == "failed" and "CUDA error 900" in row["value"], "a refused capture fails with its text", text)
    write(f"{folder}/captured", "0")
    status, text = gpu_check("none", "graph", "sandbox", "--precisions=bf16")
    statuses = {row["status"] for row in gpu_check.rows("none").values()}
    check(status == 1 and statuses == {"failed"}, "rows of captured steps fail where none was", text)
    write(f"{folder}/captured", "8")


def everything(folder, gpu_check, ops):
    sections = ["info", "sandbox", "graph", "bench", "engines", "infer", "torch", "layers", "data", "nccl"]
    status, text = gpu_check("out", *sections, "--precisions=bf16", "--batches=1024", "--steps=3", "--rounds=2")
    rows = gpu_check.rows("out")
    value = {key: row["value"] for key, row in rows.items()}
    check(status == 1 and "all passed" not in text, "a target that is not met is not green", text)
    check(rows["bench", "bf16-1024 floor"]["ms"] == ops["floor_sum_ms"], "the floor is the sum of all ops", value)
    check(rows["bench", "bf16-1024 captured"]["metrics"]["captured_steps"] == 6, "captured steps are in the row", value)
    check(value["bench", "bf16-1024 captured"].endswith("; engines: 1 loaded, 1 faster"), "plans that were tuned or loaded", value)
    engines = [(plan["record"], plan["engine"]) for plan in rows["bench", "bf16-1024 captured"]["metrics"]["plans"]]
    check(engines == [("conv2d x", 41), ("conv2d y", "own")], "each record's engine is in the row", engines)
    check(rows["torch", "bf16-1024 with data graph"]["ms"] == 20 and ("torch", "ratio, bf16-1024 with data") in rows,
          "PyTorch is asked with data, too", value)
    check("target: 60 % of the summed floor" in str(rows), "targets are rows", value)
    check("*41 0.5000 ms, 1 MB; own 0.7500 ms" in value["engines", "conv2d x"], "engines, the chosen one marked", value)
    check(rows["engines", "convolution + GENSTATS"]["status"] == "not run", "what cannot run is not green", value)
    check(value["torch", "ratio, bf16-1024 step"].split(":")[0].endswith("10.0000 ms"), "held against PyTorch's best mode", value)
    check(rows["infer", "bf16-64"]["ms"] == 0.5 and "20.00 times" in value["torch", "ratio, infer bf16-64"], "inference, too", value)
    check(rows["layers", "bf16 gru"]["status"] == "failed", "a layer that was not captured fails", value)
    check("2.00 times" in value["layers", "ratio, bf16 lstm"], "layers are held against PyTorch's", value)
    check(value["data", "warp, f32, unit"].endswith("1.50 times the floor"), "and the ratio is told", value)
    with open(f"{folder}/asked", encoding="utf-8") as file:
        asked = file.read()
    given = asked.split("--copy_gb_s=")[-1].split()[0]
    check(abs(float(given) / ops["rates"]["gb_per_s"] - 1) < 1e-6, "augmentation is held against the rate of a copy", given)
    check(os.path.exists(f"{folder}/out.tar.gz"), "one archive has all")


def too_short(gpu_check):
    status, text = gpu_check("short", "info", "bench", "nccl", "--seconds=6", "--precisions=bf16", "--batches=1024")
    rows = gpu_check.rows("short")
    check(status == 3 and rows["bench", "bf16-1024 captured"]["status"] == "not run" and rows["info", "device"]["status"] == "passed",
          "what no longer fits is named, and not green", text)


def asked_for(folder, word):
    with open(f"{folder}/asked", encoding="utf-8") as file:
        return word in file.read()


def killed(folder, gpu_check, how, out):
    """Killed while a program runs: rows that were finished are there, nothing goes on."""
    write(f"{folder}/slow", "")
    write(f"{folder}/asked", "")
    started = subprocess.Popen([f"{ROOT}/scripts/gpu-check", "info", "graph", f"--out={folder}/{out}", "--precisions=bf16"],
                               env=gpu_check.env, stdout=subprocess.DEVNULL)
    deadline = time.time() + 30
    while not asked_for(folder, "train.lua"):
        if time.time() > deadline:
            sys.exit("FAILED: gpu-check does not begin")
        time.sleep(0.05)
    started.send_signal(how)
    started.wait(30)
    os.remove(f"{folder}/slow")
    if how == signal.SIGKILL:
        done = subprocess.run([f"{ROOT}/scripts/gpu-check", f"--report={folder}/{out}"], env=gpu_check.env, capture_output=True,
                              text=True, timeout=30, check=False)
        check(done.returncode == 3 and "did not end by itself: killed" in done.stdout, "--report after SIGKILL", done.stdout + done.stderr)
    rows = gpu_check.rows(out)
    check(rows["info", "device"]["status"] == "passed", f"{how.name}: finished rows are kept", rows)
    if how == signal.SIGTERM:
        check(rows["graph", "bf16"]["status"] == "not run" and started.returncode == 3, "what was cut off is not green", rows)


def compared(folder, gpu_check):
    done = subprocess.run([f"{ROOT}/scripts/gpu-check", "--compare", f"{folder}/out/report.json", f"{folder}/refused/results.jsonl"],
                          env=gpu_check.env, capture_output=True, text=True, timeout=30, check=False)
    line = [text for text in done.stdout.splitlines() if "bf16-1024 captured" in text]
    check(done.returncode == 1 and line and line[0].endswith("passed | failed: DIFFERS"), "--compare names other outcomes", done.stdout)
    same = subprocess.run([f"{ROOT}/scripts/gpu-check", "--compare", f"{folder}/out/report.json", f"{folder}/out/results.jsonl"],
                          env=gpu_check.env, capture_output=True, text=True, timeout=30, check=False)
    check(same.returncode == 0 and "ratio 1.000" in same.stdout, "and equal ones", same.stdout + same.stderr)


def on_shim(folder, sections, **env):
    """The real program on the shim."""
    done = subprocess.run([f"{ROOT}/scripts/gpu-check", f"--out={folder}/shim", "--quick", *sections], text=True, timeout=400,
                          env={**os.environ, "CAPL_BACKEND_PATH": SHIM, **env}, capture_output=True, check=False)
    return done.returncode, done.stdout + done.stderr


def slow(folder):
    status, text = on_shim(folder, ["info", "sandbox"])
    check(status == 0 and "all passed" in text, "passes on the shim", text)
    status, text = on_shim(folder, ["graph"], CAPL_FAKE_DNN="none")
    check(status == 0, "passes without engines of cuDNN", text)
    status, text = on_shim(folder, ["graph"], CAPL_SHIM_CAPTURE="0")
    check(status == 1 and "no step was captured: " in text and "CUDA error 900" in text, "a driver that refuses captures fails it", text)


def main(folder):
    write(f"{folder}/small.lua", RECIPE)
    card = {"CAPL_BACKEND_PATH": SHIM, "CAPL_DEVICE": "cuda", "CAPL_SHIM_LAUNCH_US": "10"}
    ops = metrics_of(folder, "--steps=3", "--ops")
    captured = metrics_of(folder, "--steps=6", "--blocks=2", **card)
    blocks = captured["blocks_ms"]
    check(captured["captured_steps"] == 6 and len(blocks) == 2, "a captured bench says so", captured)
    check(abs(blocks[0] - blocks[1]) < 1e-6 and abs(blocks[0] / 0.01 - round(blocks[0] / 0.01)) < 1e-3,
          "blocks take the time of the card's launches", blocks)
    refused = metrics_of(folder, "--steps=6", "--blocks=2", CAPL_SHIM_CAPTURE="0", **card)
    check(refused["captured_steps"] == 0 and "CUDA error 900" in refused["capture_refused"], "a refused one says why", refused)
    write(f"{folder}/ops.json", json.dumps(ops))
    write(f"{folder}/figures.json", json.dumps(refused))
    write(f"{folder}/captured.json", json.dumps(refused))
    write(f"{folder}/captured", "8")
    write(f"{folder}/capl", STAND_IN.format(folder=folder), 0o755)
    write(f"{folder}/python", PYTHON, 0o755)
    gpu_check = Check(folder)
    refusals(folder, gpu_check)
    write(f"{folder}/captured.json", json.dumps(captured))
    everything(folder, gpu_check, ops)
    too_short(gpu_check)
    killed(folder, gpu_check, signal.SIGTERM, "term")
    killed(folder, gpu_check, signal.SIGKILL, "kill")
    compared(folder, gpu_check)


with tempfile.TemporaryDirectory() as scratch:
    if sys.argv[2:] == ["slow"]:
        slow(scratch)
    else:
        main(scratch)
