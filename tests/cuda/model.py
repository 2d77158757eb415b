"""predict, eval and verify leave the GPU alone unless asked, and say on it what they say on the processor.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import subprocess
import sys
import tempfile

CAPL = os.environ["CAPL_BIN"]
SHIM = sys.argv[1]  # folder of the backend with the stand-in for CUDA
RECIPE = """--- capl: 1
-- A model of a few weights.
capl.manual_seed(3)
local loader = data.loader {
  source = data.captcha {charset = "0-9", length = 3, width = 96, height = 40, count = 32}, role = "train", batch = 16,
}
local model = nn.Sequential {
  nn.Conv2d(1, 8, 3, {stride = 4, bias = false}), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 10 * 24, 30),
}
local opt = optim.AdamW(model:parameters(), {lr = 1e-3})
for batch in loader:epoch(1) do
  opt:backward_step(nn.cross_entropy(model(batch.image):view(-1, 10), batch.target:view(-1)))
end
capl.save_model("model.capl", model)
data.save_captchas{dir = "images", count = 40, seed = 9, charset = "0-9", length = 3, width = 96, height = 40}
"""


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{seen}")
    print("ok", what)


def capl(*words, **variables):
    """Runs the program -> (exit status, output, whether it started the GPU)."""
    report = os.path.abspath("report")
    if os.path.exists(report):
        os.remove(report)
    env = {**os.environ, "CAPL_BACKEND_PATH": SHIM, "CAPL_SHIM_REPORT": report, "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run([CAPL, *words], env=env, capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, done.stdout + done.stderr, os.path.exists(report)


COMMANDS = {
    "predict": ("predict", "model.capl", "images", "--precision=fp32"),
    "eval": ("eval", "model.capl", "--data=images", "--precision=fp32"),
    "verify": ("verify", "model.capl"),
}


def words_only(out):
    """Texts and figures, without speed and the last digits."""
    out = re.sub(r"\d+ images per second", "", out)
    return [re.sub(r"\d\.\d+$", lambda number: f"{float(number[0]):.3f}", line) for line in out.splitlines()]


def same_everywhere(name, words):
    status, here, started = capl(*words, CAPL_DEVICE="cuda")
    check(status == 0 and not started, f"{name} leaves the GPU alone, whatever CAPL_DEVICE says", here)
    status, there, started = capl(*words, "--device=cuda")
    check(status == 0 and started, f"{name} --device=cuda uses it", there)
    if name == "verify":
        check("8 of 8 texts the same: ok" in there, "the golden pairs are the same on the GPU", there)
    else:
        check(words_only(there) == words_only(here), f"{name} says the same on both", here + there)


def main():
    with open("recipe.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE)
    status, out, _ = capl("--trust", "recipe.lua", CAPL_DEVICE="cpu")
    check(status == 0, "a model is made", out)
    for name, words in COMMANDS.items():
        same_everywhere(name, words)
    status, out, _ = capl("verify", "model.capl", "--device=cuda", "--json")
    check(status == 0 and json.loads(out)["ok"], "as JSON", out)
    status, out, _ = capl("predict", "model.capl", "images", "--device=gpu")
    check(status == 1 and "gpu" in out and "cuda" in out, "an unknown device is refused with the names of those there are", out)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
