"""A run of several ranks is one run: metrics of one process, one folder, one voice; it goes on elsewhere, and says what differs.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import shutil
import signal
import time

import ranks
from ranks import CAPL, MPIRUN, check, finish, mpirun, start, succeed, write

RECIPE = """--- capl: 1
local p = capl.params {steps = 12, batch = 8, shared = true, part = false, max_time = "none", eval_every = "auto", every = 5, slow = 0}
capl.manual_seed(3)
local function source(n, seed)
  return data.captcha{count = n, seed = seed, length = 2, charset = "AB", width = 32, height = 16, fixed = true}
end
local world = capl.distributed()
local model = nn.Sequential{nn.Conv2d(1, 4, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(4 * 4 * 8, 4)}
local shard = nil
if not p.shared then shard = false end
local train_loader = data.loader{source = source(p.part and 90 + world.rank or 200, 1), role = "train", batch = p.batch, shard = shard}
local val = data.loader{source = source(29, 2), role = "val", batch = p.batch}
capl.model(model, {output = "text", charset = "AB", length = 2})
local opt = optim.AdamW(model:parameters(), {lr = 3e-3})
local function loss(output, batch)
  local t = capl.clock()
  while capl.clock() - t < p.slow do end
  return nn.multilabel_soft_margin(output, batch.onehot)
end
if p.steps == 0 then
  -- the metrics of weights that are the same everywhere
  local meter = train.evaluate(model, val, {loss = loss})
  local r = meter:result()
  print(("metrics %.17g %.17g %.17g %d %s"):format(meter.loss, r.exact, r.confidence, r.n, meter:confusion_line()))
  for _, e in ipairs(meter:samples().wrong) do print("metrics", e.id, e.read, e.truth, e.edits) end
  for _, e in ipairs(meter:samples().right) do print("metrics", e.id, e.read) end
else
  train.fit{model = model, train = train_loader, val = val, loss = loss, optimizer = opt, steps = p.steps, max_time = p.max_time,
    eval_every = p.eval_every, checkpoint = {every = p.every}, monitor_every = 0}
  print(("rank %d is done: %s"):format(world.rank, capl.run_folder()))
end
"""

OWN_LOOP = """--- capl: 1
local p = capl.params {epochs = 1, batch = 8}
capl.manual_seed(3)
local function source(n, seed)
  return data.captcha{count = n, seed = seed, length = 2, charset = "AB", width = 32, height = 16, fixed = true}
end
local model = nn.Sequential{nn.Flatten(), nn.Linear(512, 4)}
local loader = data.loader{source = source(100, 1), role = "train", batch = p.batch}
local val = data.loader{source = source(29, 2), role = "val", batch = p.batch}
capl.model(model, {output = "text", charset = "AB", length = 2})
local opt = optim.AdamW(model:parameters(), {lr = 3e-3})
local ck = train.Checkpoint{model = model, optimizer = opt, train = loader, every = 4}
local progress = capl.progress {steps = p.epochs * loader:batches()}
ck:resume()
for epoch = math.max(1, loader:state().epoch), p.epochs do
  for batch in loader:epoch(epoch) do
    local loss = nn.multilabel_soft_margin(model(batch.image), batch.onehot)
    opt:backward_step(loss)
    progress:step(batch.count, loss, opt.lr)
    ck:after_step()
  end
end
ck:finish("epochs")
capl.save_model(capl.run_folder() .. "/own.capl", model)
train.save(capl.run_folder() .. "/state.capl", {step = 1})
local meter = train.evaluate(model, val)
print(("counted %d: %.17g"):format(meter.n, meter:result().exact))
"""


def lines_of(out, word):
    return sorted(line for line in out.splitlines() if line.split("] ")[-1].startswith(word))


def fresh(text=RECIPE):
    shutil.rmtree("runs", ignore_errors=True)
    write("r.lua", text)


def metrics(folder):
    return [json.loads(line) for line in open(f"runs/{folder}/metrics.jsonl", encoding="utf-8")]


def evaluation_is_that_of_one():
    fresh()
    one = lines_of(succeed(1, "r.lua", "--steps=0", what="an evaluation"), "metrics")
    check(len(one) > 3, "an evaluation says something", str(one))
    out = succeed(3, "r.lua", "--steps=0", what="an evaluation")
    told = sorted(re.sub(r"^\[[^]]*\] ", "", line) for line in lines_of(out, "metrics"))
    check(told == sorted(one * 3), "three ranks count to the bit what one counts", f"{told}\n{one}")


def one_folder_and_voice():
    fresh()
    out = succeed(2, "r.lua", what="a run")
    check(os.listdir("runs") == ["r"], "a run of two ranks has one folder", str(os.listdir("runs")))
    check(len(re.findall("rank . is done: runs/r$", out, re.M)) == 2, "both ranks know it", out)
    check(out.count("keep: runs/r/best.capl") == 1 and out.count("ranks 2 on 1 host (mpi): all-reduce") == 1,
          "one rank speaks for both, and tells how fast they are", out)
    result = json.load(open("runs/r/result.json", encoding="utf-8"))
    check(result["images"] == 12 * 8 * 2 and result["steps"] == 12, "images are those of both ranks", str(result))
    check(metrics("r")[-1]["val_n"] == 29, "an evaluation counts every image once", str(metrics("r")[-1]))
    return result


def pictures():
    """A picture with a path is written by the first rank; one without is returned on all."""
    fresh("""--- capl: 1
local picture = plot.lines{panels = {{series = {{y = {1, 2, 3}}}}}}
print("size " .. table.concat(picture.shape, " "))
plot.lines{path = capl.run_folder() .. "/a.png", panels = {{series = {{y = {1, 2, 3}}}}}}
""")
    out = succeed(2, "r.lua", what="pictures")
    check(len(lines_of(out, "size 1 3")) == 2, "each rank has its picture", out)


def goes_on_elsewhere():
    """The run of two ranks before, on one, with as many images a step."""
    status, out, err = finish(start(CAPL, "r.lua", "--resume", "--steps=20"), 60)
    check(status == 1 and "hint: a batch of 16 on 1 rank has the 16 images of a step that there were" in err, "half a step is refused", err)
    status, out, err = finish(start(CAPL, "r.lua", "--resume", "--steps=20", "--batch=16"), 60)
    check(status == 0 and "resumed: runs/r/checkpoints/step-000012.capl" in out and os.listdir("runs") == ["r"],
          "a run of two ranks goes on with one", f"{status}\n{out}\n{err}")
    check("resume: 1 rank, was 2" in out, "which is told", out)
    result = json.load(open("runs/r/result.json", encoding="utf-8"))
    check(result["steps"] == 20 and result["images"] == 200 + 7 * 16, "steps and images go on", str(result))


UNEVEN = """--- capl: 1
local p = capl.params {batch = 6}
local world = capl.distributed()
capl.manual_seed(3)
local x, labels, nets = capl.randn(19, 3), {}, {nn.Linear(3, 4), nn.Linear(3, 4)}
for i = 1, 19 do labels[i] = i % 4 end
for accumulate, net in ipairs(nets) do
  local source = data.tensors{input = x, target = capl.tensor(labels, {dtype = "i32"}), classes = 4}
  local images = data.loader{source = source, role = "train", batch = p.batch, workers = 0}
  local result = train.fit{model = net, train = images, val = false, epochs = 2, precision = "fp32", accumulate = accumulate,
    loss = function(output, batch) return nn.cross_entropy(output, batch.target:view(-1)) end,
    optimizer = optim.SGD(net:parameters(), {lr = 0.5})}
  for _, w in ipairs(net.weight:reshape(-1):tolist()) do world:print(("weight %.4f"):format(w)) end
  world:print("weight images", result.images)
end
"""


def last_batches_count_by_their_samples():
    """19 images in steps of 6: the last one is an image for one rank, and none for the other."""
    fresh(UNEVEN)
    status, out, err = finish(start(CAPL, "r.lua"), 60)
    one = lines_of(out, "weight")
    check(status == 0 and len(one) == 26, "a small run", f"{status}\n{out}\n{err}")
    out = succeed(2, "r.lua", "--batch=3", what="steps of unequal shares")
    check(lines_of(out, "weight") == one, "each sample counts as it does in one process", f"{lines_of(out, 'weight')}\n{one}")


def stops_together():
    fresh()
    process = start(*MPIRUN, "-n", "2", CAPL, "r.lua", "--ranks=2", "--steps=4000", "--slow=0.01", "--every=10000")
    until = time.monotonic() + 20
    while time.monotonic() < until and not os.path.exists("runs/r/metrics.jsonl"):
        time.sleep(0.05)
    time.sleep(0.7)
    children = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and parent_is(pid, process.pid)]
    for pid in children[:1]:
        os.kill(pid, signal.SIGINT)  # one rank alone was asked
    status, out, err = finish(process, 30)
    files = os.listdir("runs/r/checkpoints")
    check(status == 130 and len(files) == 1, "both ranks save and stop when one is asked", f"{status} {files}\n{out}\n{err}")
    check(out.count("r.lua --ranks=2 --resume resumes from it") == 1, "and say how to go on, on as many ranks", out)
    settings = json.load(open("runs/r/settings.json", encoding="utf-8"))
    check("r.lua --ranks=2 --steps=4000" in settings["command"], "the run's command has its ranks", settings["command"])
    step = int(re.search(r"step-(\d+)", files[0]).group(1))
    out = succeed(2, "r.lua", "--resume", f"--steps={step + 2}", "--slow=0", what="a stopped run that goes on")
    check(f"step {step} of" in out, "they go on where they stopped", out)


def parent_is(pid, wanted):
    try:
        return int(open(f"/proc/{pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()[1]) == wanted
    except (OSError, IndexError):
        return False


def differences_are_told():
    fresh()
    words = [":", "-n", "1", CAPL, "r.lua"]
    for other, text in (
            (["--batch=4"], "has another setting batch than rank 0"), (["--part"], None)):
        if text is None:
            status, out, err = mpirun(2, CAPL, "r.lua", *other)
            text = "has other train data than rank 0"
        else:
            status, out, err = mpirun(1, CAPL, "r.lua", *words, *other)
        check(status == 1 and re.search(r"preflight: rank 1 \(host [^)]+\) " + text, err + out),
              "ranks that differ are told before the first step", f"{status}\n{out}\n{err}")


def time_ends_all():
    fresh()
    out = succeed(2, "r.lua", "--shared=false", "--steps=100000", "--max_time=1s", "--every=100000", what="a run with a time box")
    check("max_time = 0:01 is over" in out, "a time box ends all ranks at one step", out)
    check("each of the 2 ranks reads all of it" in out, "a train loader that is not shared is a warning", out)


def own_loops():
    fresh(OWN_LOOP)
    out = succeed(2, "r.lua", what="a loop of the recipe's own")
    counted = set(re.findall(r"counted 29: \S+", out))
    check(len(counted) == 1 and out.count("counted 29") == 2, "its evaluation is the same on both ranks", out)
    check(sorted(os.listdir("runs/r/checkpoints")) == ["step-000004.capl", "step-000007.capl"] and os.path.isdir("runs/r/own.capl")
          and os.path.isfile("runs/r/state.capl"), "what it saves is saved once", str(os.listdir("runs/r/checkpoints")))
    status, out, err = finish(start(CAPL, "r.lua", "--resume", "--epochs=2", "--batch=16"), 60)
    check(status == 0 and "step-000007.capl, step 7" in out and "counted 29" in out, "it goes on with one rank", f"{status}\n{out}\n{err}")


def main():
    own_loops()
    pictures()
    last_batches_count_by_their_samples()
    evaluation_is_that_of_one()
    one_folder_and_voice()
    goes_on_elsewhere()
    stops_together()
    time_ends_all()
    differences_are_told()


ranks.need_mpi()
ranks.in_empty_folder(main)
