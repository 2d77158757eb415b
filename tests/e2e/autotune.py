"""autotune = true on a processor: timing chooses the algorithms of convolutions, a checkpoint keeps them, and without it none is timed.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import shutil

from program import capl, check, in_empty_folder

RECIPE = """--- capl: 1
local p = capl.params {steps = 12, conv = true}
local images = data.loader {source = data.captcha {charset = "01", length = 2, width = 48, height = 24, count = 80}, role = "train",
  batch = 8, workers = 1}
local model = nn.Sequential {nn.AvgPool2d(2), nn.Conv2d(1, 32, 3, {padding = 1}), nn.ReLU(), nn.Conv2d(32, 32, 3, {padding = 1}),
  nn.AvgPool2d(6), nn.Flatten(), nn.Linear(256, 4)}
if not p.conv then model = nn.Sequential {nn.AvgPool2d(2), nn.Flatten(), nn.Linear(288, 4)} end
capl.model(model, {output = "text", charset = images.charset, length = 2})
train.fit {
  model = model, train = images, val = false, optimizer = optim.SGD(model:parameters(), {lr = 0.1}), precision = "fp32", steps = p.steps,
  loss = function(output, batch) return nn.cross_entropy(output:view(-1, 2), batch.target:view(-1)) end,
  checkpoint = {every = 4, keep = 3},
}
for name, x in model:named_parameters() do print(("bits %s %.17g %.17g"):format(name, x:sum():item(), (x * x):sum():item())) end
"""
RUN = "runs/net"
REPORT = re.compile(r"report: autotune: (\d+) shapes of convolutions: (.*); (\d+) calls")


def bits(out):
    found = [line for line in out.splitlines() if line.startswith("bits ")]
    check(len(found) == 6, "bits of all weights", out)
    return found


def run(*words):
    status, out, err = capl("net.lua", *words)
    check(status == 0, "net.lua " + " ".join(words), out + err)
    return out


def forget_the_end():
    """As if the run had been killed behind its second checkpoint."""
    os.remove(f"{RUN}/checkpoints/step-000012.capl")
    os.remove(f"{RUN}/result.json")


def resume(what):
    shutil.rmtree("runs")
    shutil.copytree("killed", "runs")
    status, out, err = capl("net.lua", "--resume")
    check(status == 0 and "step 8 of 12" in out, what, out + err)
    return out


def edit(change):
    """Changes each choice of the checkpoint in the folder killed."""
    path = "killed/net/checkpoints/step-000008.capl"
    status, out, err = capl("-e", f'local t = train.load("{path}") local n = 0 for _, a in ipairs(t.algorithms) do {change} n = n + 1 end '
                            f'train.save("{path}", t) print(n)')
    check(status == 0 and int(out) > 0, "a checkpoint has choices: " + change, out + err)


def kept():
    whole = run("--autotune=true")
    shapes, _, calls = REPORT.search(whole).groups()
    # Forward, dx and dw of the second one; the first one has few channels, for which some processors have a kernel of their own.
    check(int(shapes) >= 3 and int(calls) >= 33, "3 convolutions of 12 steps, timed in the first", whole)
    forget_the_end()
    shutil.copytree("runs", "killed")
    resumed = resume("a killed run resumes")
    check(bits(resumed) == bits(whole), "with the same bits", resumed)
    check(int(REPORT.search(resumed).group(3)) >= 12, "all convolutions of its 4 steps by the choices of the checkpoint", resumed)
    check(not re.search(r"^autotune: .* x=8,", resumed, re.M), "which are not timed again", resumed)
    planted = {}
    for name in ("onednn", "winograd"):
        edit(f'a.algorithm = a.call:find("w=32,32", 1, true) and "{name}" or "onednn"')
        planted[name] = bits(resume("with choices that were put there"))
    check(planted["onednn"] != planted["winograd"], "they are what computes", str(planted))
    edit('a.algorithm = "winogard"')
    shutil.rmtree("runs")
    shutil.copytree("killed", "runs")
    status, out, err = capl("net.lua", "--resume")
    check(status == 1 and "there is no algorithm 'winogard'" in err and "did you mean winograd?" in err, "unknown ones are refused", out + err)
    edit('a.algorithm = 1')
    status, out, err = capl("net.lua", "--resume")
    check(status == 1 and "algorithm" in err, "and what is no text", out + err)


def only_when_asked():
    status, out, err = capl("net.lua", "--resume", "--autotune=false")
    check(status == 1 and "autotune: none, was true" in out + err, "a resume without it would not be bit-exact", out + err)
    shutil.rmtree("runs")
    first, second = run(), run()
    check("autotune" not in first and bits(first) == bits(second), "by default nothing is timed and a seed gives the same bits", first)
    status, out, err = capl("net.lua", "--autotune=true", "--conv=false")
    check(status == 1 and "autotune = true was asked for, but the run counted 0 shapes of convolutions" in err, "a network without any", out + err)


def main():
    with open("net.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE)
    kept()
    only_when_asked()


in_empty_folder(main)
