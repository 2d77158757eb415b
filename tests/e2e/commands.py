"""Commands and what they print: help, info, ops, generate, -e.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re

from program import ROOT, capl, check, in_empty_folder, recipe


def help_and_version():
    status, out, _ = capl("--help")
    check(status == 0 and "\n  check  " in out and all(len(line) <= 80 for line in out.splitlines()), "--help lists the commands", out)
    status, out, _ = capl("--version")
    check(status == 0 and re.fullmatch(r"capl \d+\.\d+\.\d+\n", out), "--version", out)
    for command in ("check", "bench", "preview", "info", "ops", "generate", "eval"):
        status, out, _ = capl(command, "--help")
        check(status == 0 and f"capl {command}" in out, f"{command} --help", out)
    status, out, _ = capl("bench", "--help")
    check("--warmup=N" in out, "bench --help lists its options", out)


def recipe_help():
    for name in ("captcha.lua", "captcha_cnn.lua"):
        status, out, err = capl(recipe(name), "--help")
        check(status == 0, f"{name} --help", err)
        check("--batch=64" in out and "images per step" in out, f"{name}: settings with default and meaning", out)
        check("--preset=quick" in out, f"{name}: presets", out)
        check("SPDX" not in out and "--- capl" not in out, f"{name}: only what a reader wants", out)


def info_and_ops():
    status, out, err = capl("info")
    check(status == 0 and "processors" in out and "meta" in out, "info", out + err)
    status, out, err = capl("ops")
    check(status == 0, "ops", err)
    listed = {line.split()[0] for line in out.splitlines()[1:] if line}
    with open(os.path.join(ROOT, "include/capl/ops.def"), encoding="utf-8") as file:
        expected = set(re.findall(r"^OP\((\w+)\)", file.read(), re.M))
    check(expected <= listed, "ops lists every op of ops.def", str(expected - listed))
    columns = out.splitlines()[0].split()[3:]
    check(columns == ["cpu", "cuda", "ref"], "a column for each backend that computes", str(columns))
    cells = dict(zip(columns, re.search(r"^relu +keep +yes +(.*)$", out, re.M).group(1).split("  ")))
    missing = re.search(r"^cuda: device cuda is not available: \S", out, re.M)
    check(("?" in out) == bool(missing), "what is not known of a backend is said with the reason", out[-400:])
    check(cells["cpu"].startswith("f32"), "the kernels of a backend, by dtype", str(cells))
    status, out, err = capl("ops", "conv2d")
    check(status == 0 and "conv2d(x, weight, bias?)" in out and "stride" in out, "ops NAME", out + err)


def generate():
    status, out, err = capl("generate", "--out=a/b", "--n=6", "--seed=3", "--charset=A-C", "--length=5")
    check(status == 0, "generate", err)
    names = sorted(os.listdir("a/b"))
    check(len(names) == 6 and all(re.fullmatch(r"[A-C]{5}_\d+\.png", name) for name in names), "files", str(names))
    capl("generate", "--out=c", "--n=6", "--seed=3", "--charset=A-C", "--length=5", "--workers=0")
    same = all(open(f"a/b/{n}", "rb").read() == open(f"c/{n}", "rb").read() for n in names)
    check(same, "the same seed gives the same files for any number of threads")


def code():
    status, out, err = capl("-e", "print(1 + 1)")
    check(status == 0 and out == "2\n", "-e", out + err)
    status, out, err = capl("-e", "print(capl.ones(2, 3):sum():item())")
    check(status == 0 and out == "6\n", "-e with tensors", out + err)
    status, out, err = capl("-e", "for i = 1, 2 do capl.op.max_pool2d(capl.ones({1, 1, 2, 2}, {dtype = 'f16'}), {kernel = 2}) end")
    note = "note: max_pool2d: no cpu kernel for (1,1,2,2) f16 cpu, the slow reference runs instead\n"
    check(status == 0 and err == note, "falling to the reference is said, once", err)
    status, out, err = capl("-e", "error('no')")
    check(status == 1 and "no" in err, "an error gives status 1", out + err)
    names = "io os debug package ffi jit dofile loadfile getfenv setfenv newproxy"
    status, out, err = capl("-e", f"for w in ('{names}'):gmatch('%a+') do if _G[w] then print(w) end end")
    check(status == 0 and out == "", "what a recipe cannot see", out + err)


SERIES = """--- capl: 1
--- needs: minutes=1
print("words of the recipe")
local series = data.series(data.pm25{days = 90}, {target = "pm25", features = {"pm25"}, window = 4})
local loader = data.loader{source = series.train, batch = 8, role = "train"}
local Net = nn.class("Net")
function Net:init()
  self.lstm = nn.LSTM(1, 8, {batch_first = true})
  self.fc = nn.Sequential{nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(128, 1)}
end
function Net:forward(x) return self.fc((self.lstm(x)):unsqueeze(2)) end
local model = Net()
capl.model(model, {output = "numbers"})
local opt = optim.SGD(model:parameters(), {lr = 0.01})
for epoch = 1, 9 do
  for batch in loader:epoch(epoch) do
    opt:backward_step(nn.mse(model(batch.input):view(-1), batch.value:view(-1)))
  end
end
"""


def check_and_bench():
    with open("series.lua", "w", encoding="utf-8") as f:
        f.write(SERIES)
    status, out, err = capl("check", "series.lua")
    check(status == 0 and re.search(r"lstm +LSTM\(1 -> 8, batch first\) +\(8,4,8\)", out), "check shows the layers of a recipe of series", out + err)
    status, out, err = capl("check", "series.lua", "--json")
    check(status == 0 and json.loads(out)["batch"] == 8, "check --json prints JSON alone", out)
    check("words of the recipe" in err, "the recipe's own words go to standard error", err)
    few, more = (json.loads(capl("bench", "series.lua", "--ops", "--json", f"--steps={n}", "--warmup=2")[1]) for n in (2, 6))
    check(few["fused_ops"] == more["fused_ops"] > 0, "bench counts fused ops by the step", f"{few['fused_ops']} {more['fused_ops']}")
    layers = [row["ms"] for row in more["ops"] if row["op"] == "linear"]
    sums = {row["op"]: row for row in more["by_op"]}
    check(len(layers) > 1 and abs(sums["linear"]["ms"] - sum(layers)) < 1e-9, "bench --ops sums each op over the layers", str(sums))


def main():
    help_and_version()
    recipe_help()
    info_and_ops()
    generate()
    code()
    check_and_bench()


in_empty_folder(main)
