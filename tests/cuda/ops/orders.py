"""What the last block of a launch joins (engine/backend/cuda/kernels/join.h) has the same bits whichever block comes last, at
the first call and at later ones.

SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import sys
import tempfile

CAPL, SHIM = os.path.abspath(os.environ["CAPL_BIN"]), os.path.abspath(sys.argv[1])
RESULTS = 8 * 9 + 2 * 2 + 3
RECIPE = """--- capl: 1
-- Statistics, sums and losses of many blocks, bit by bit, each twice.
local op = capl.op
local function show(name, results)
  for call = 1, 2 do
    for k, t in ipairs {results()} do
      local words = {}
      for _, v in ipairs(t:to("ref"):float():reshape(-1):tolist()) do words[#words + 1] = ("%a"):format(v) end
      print(("%s %d: %s"):format(name, k, table.concat(words, " ")))
    end
  end
end
local function random(dtype, ...) return (capl.randn(..., {device = "cuda"}) * 1.7 + 0.3):to(dtype) end
capl.manual_seed(5)
for _, size in ipairs {{5, 33, 30, 31}, {6, 64, 30, 31}, {4, 520, 6, 9}, {3, 8, 5, 5}} do
  for _, dtype in ipairs {"f32", "bf16"} do
    local x, dy, weight, bias = random(dtype, size), random(dtype, size), random("f32", {size[2]}), random("f32", {size[2]})
    local name = ("norm of %d %s"):format(size[2], dtype)
    show(name, function() return op.batch_norm(x, weight, bias, weight * 0, weight * 0 + 1, {training = true}) end)
    local _, mean, invstd = op.batch_norm(x, weight, bias, weight * 0, weight * 0 + 1, {training = true})
    for _, act in ipairs {"relu", "silu"} do
      show(name .. " gradient " .. act, function()
        return op.bn_act_grad(x, dy, weight, bias, mean, invstd, {training = true, act = act})
      end)
    end
  end
end
for _, dtype in ipairs {"f32", "bf16"} do
  local x, dy = random(dtype, {9, 1, 40, 60}), random(dtype, {9, 40, 40, 60})
  show("thin " .. dtype, function() return op.conv2d_grad_w(x, dy, {kernel = {3, 3}, padding = {1, 1}}) end)
end
local x, target = random("f32", {400, 36}), random("f32", {400, 36}):sigmoid()
local labels = (random("f32", {400}):sigmoid() * 35):to("i32")
show("soft margin", function() return op.multilabel_soft_margin(x, target) end)
show("squares", function() return op.mse(x, target) end)
show("cross-entropy", function() return op.cross_entropy(x, labels) end)
"""


def output(order, folder):
    done = subprocess.run([CAPL, "joins.lua"], capture_output=True, text=True, cwd=folder, stdin=subprocess.DEVNULL, env={
        **os.environ, "CAPL_BACKEND_PATH": SHIM, "CAPL_DEVICE": "cuda", "CAPL_SHIM_ORDER": order, "CAPL_SHIM_MULTIPROCESSORS": "16"})
    lines = [line.split(": ") for line in done.stdout.splitlines() if ": 0x" in line or ": -0x" in line]
    if done.returncode or len(lines) != 2 * RESULTS:
        sys.exit(f"FAILED: {len(lines)} results\n{done.stdout[-2000:]}{done.stderr}")
    return lines


def main():
    seen = {}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "joins.lua"), "w", encoding="utf-8") as file:
            file.write(RECIPE)
        for name, values in output("fwd", folder) + output("rev", folder):
            seen.setdefault(name, set()).add(values)
    wrong = [name for name, values in seen.items() if len(values) > 1]
    if wrong:
        sys.exit(f"FAILED: the bits are not always the same: {wrong}")
    print(f"ok {len(seen)} results, the same bits in both orders and twice in a process")


main()
