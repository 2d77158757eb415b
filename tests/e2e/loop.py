"""Everything that a training loop may be asked for at once: what a run says of it, what it leaves, and that it goes on to the bit.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import re

import tfevents
from program import ROOT, capl, check, in_empty_folder

RECIPE = """--- capl: 1
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {steps = 24, seed = 7, patience = 50, lr = 1e-2, overfit = 0, broken = false}
capl.manual_seed(p.seed)
local function loader(role, count)
  return data.loader {
    source = data.captcha {charset = "0-9", length = 2, width = 40, height = 20, count = count, seed = 3, fixed = true},
    role = role, batch = 4, workers = 0, augment = role == "train" and {noise = 0.1} or nil, shuffle = role == "train",
  }
end
local model = nn.Sequential {
  nn.Conv2d(1, 4, 3, {stride = 2, padding = 1}), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 10 * 20, 20),
}
local rate = optim.schedule.warmup(optim.schedule.plateau {lr = p.lr, factor = 0.5, patience = 1, eps = 0}, {steps = 3})
train.fit {
  model = model, train = loader("train", 40), val = loader("val", 12), test = loader("test", 8),
  loss = function(y, batch)
    if p.broken and not model.training then error("evaluation is broken") end
    return nn.cross_entropy(y:view(-1, 10), batch.target:view(-1))
  end,
  optimizer = optim.AdamW(optim.groups(model, {lr = rate, layer_decay = 0.5, no_decay = true})), precision = "fp32",
  steps = p.steps, eval_every = 3, log_every = 1, checkpoint = {every = 50},
  accumulate = 2, clip_norm = 0.05, lr_rule = "sqrt", base_batch = 2, ema = {decay = 0.8, every = 2}, ema_compare = true,
  early_stop = {patience = p.patience, min_delta = 1e-4}, metric = "loss", top_k = 2, freeze = {names = {"0", "1"}, epochs = 2},
  limit_batches = p.overfit == 0 and {train = 9, val = 2} or nil, overfit = p.overfit > 0 and p.overfit or nil, sanity = 1,
}
"""


def run(*flags, status=0):
    code, out, err = capl("loop.lua", *flags)
    check(code == status, "loop.lua " + " ".join(flags), out + err)
    return out + err


def files(folder):
    """Weights of all models of a run, by their names."""
    out = {}
    for path in sorted(glob.glob(f"{folder}/*.capl/weights.safetensors")):
        with open(path, "rb") as file:
            out[os.path.basename(os.path.dirname(path))] = file.read()
    return out


def evaluations(folder):
    with open(f"{folder}/metrics.jsonl", encoding="utf-8") as file:
        points = [json.loads(line) for line in file]
    return [(point["step"], point["val_loss"]) for point in points if "val_loss" in point]


def says_what_it_does(text):
    for line in (
        r"train\.fit \(recipe\): precision fp32, steps 24, eval_every 3, limit_batches \{train: 9, val: 2\}, freeze .*, accumulate 2, .* ema \{decay: 0\.8, every: 2\}",
        r"train\.fit \(auto\): tensorboard (true|false)$",
        r"train\.fit \(default\): on_oom stop, keep best, monitor_every 1, override true$",
        r"AdamW \(recipe\): weight_decay \[0\.01, 0\]$",
        r"AdamW \(default\): betas \[0\.9, 0\.999\], eps 1e-08$",
        r"limit_batches: 9 of 10 train batches",
        r"limit_batches: 2 of 3 val batches: its metrics are of a part of the set",
        r"freeze: 0, 1: 48 parameters, for 2 epochs; batch norm keeps its statistics",
        r"accumulate: a step sums 2 batches of 4: 8 images; batch norm sees 4 at a time",
        r"lr_rule: sqrt: 8 images per step, the learning rate is for 2: times 2; at the first step 0\.00025 x 2 = 0\.0005",
        r"ema: decay 0\.8, less at first; 8 tensors, buffers included; evaluations and saved models are of the averages",
        r"early_stop: after 50 evaluations without a better one",
        r"note: early_stop cannot end this run: patience is 50 evaluations, and there are 8",
        r"sanity: 4 val samples are read",
        r"step 11: unfrozen: 0, 1",
        r"report: sanity = 1: 4 val samples read before the first step",
        r"clip_norm = 0\.05: the gradients of \d+ of 24 steps were longer",
        r"report: accumulate = 2: \d+ batches whose gradients were summed",
        r"report: freeze: 10 steps with frozen parameters",
        r"report: ema = 0\.8: 12 updates of the averages",
        r"report: lr_rule = sqrt: 24 steps at the scaled learning rate",
        r"report: schedule\.plateau: 8 reported metrics",
        r"report: early_stop: 8 evaluations watched",
    ):
        check(re.search("^" + line, text, re.M), "says: " + line, text)


def settings_in_effect():
    """What the header says is in settings.json, with where it came from."""
    with open("runs/loop/settings.json", encoding="utf-8") as file:
        found = json.load(file)
    origins = {key: found["loop"][key]["origin"] for key in ("ema", "top_k", "keep", "overfit", "tensorboard", "monitor_every")}
    check(origins == {"ema": "recipe", "top_k": "recipe", "keep": "default", "overfit": "default", "tensorboard": "auto",
                      "monitor_every": "default"}, "train.fit's own settings", str(found["loop"]))
    check(found["loop"]["overfit"]["value"] is False and found["loop"]["ema"]["value"] == {"decay": 0.8, "every": 2}, "and values", str(found["loop"]))
    check(found["optimizers"][0]["options"]["eps"] == {"value": 1e-8, "origin": "default"}, "and the optimizer's", str(found["optimizers"]))
    settings = found["settings"]
    check(settings["lr"]["origin"] == "recipe" and settings["quiet"]["origin"] == "default", "what the recipe does not name is a default", str(settings))


def goes_on_to_the_bit():
    says_what_it_does(run("--steps=24"))
    settings_in_effect()
    run("--steps=12")
    resumed = run("--resume=runs/loop-2", "--steps=24")
    check("resumed:" in resumed, "the shorter run goes on", resumed)
    check(re.search(r"^train\.fit \(as before\): monitor_every 1$", resumed, re.M), "with settings as before", resumed)
    for line in (r"clip_norm = 0\.05: the gradients of \d+ of 24 steps", r"report: lr_rule = sqrt: 24 steps", r"report: ema = 0\.8: 12 updates",
                 r"report: freeze: 10 steps", r"report: early_stop: 8 evaluations", r"report: ema_compare: 8 evaluations"):
        check(re.search("^" + line, resumed, re.M), "counts go on: " + line, resumed)
    one, two = files("runs/loop"), files("runs/loop-2")
    check(len([name for name in one if name.startswith("best-")]) == 2, "two models are the top two", str(one.keys()))
    check(one.keys() == two.keys() and "last.capl" in one and "best.capl" in one, "the same models", f"{one.keys()} {two.keys()}")
    for name in one:
        check(one[name] == two[name], name + " is the same to the bit")
    check(evaluations("runs/loop") == evaluations("runs/loop-2"), "so are all evaluations", str(evaluations("runs/loop-2")))
    least = min(loss for _, loss in evaluations("runs/loop"))
    step = max(step for step, loss in evaluations("runs/loop") if loss == least)
    with open("runs/loop/result.json", encoding="utf-8") as file:
        result = json.load(file)
    check(result["best_step"] == step and one[f"best-{step:06}.capl"] == one["best.capl"], "best.capl is that of the least loss",
          str(evaluations("runs/loop")))
    check(result["plain"]["best_step"] and "plain_val_loss" in open("runs/loop-2/metrics.jsonl", encoding="utf-8").read(),
          "the weights as they are trained have metrics of their own", str(result["plain"]))
    tags = {tag for path in glob.glob("runs/loop/events*") for _, tag, _, _ in tfevents.read(path)}
    check(not tags or "plain_val/exact" in tags and "train/plain_val_exact" not in tags, "TensorBoard shows them beside the others", str(tags))
    check(result["val"]["partial"] == {"batches": 2, "of": 3}, "metrics of a part are marked", str(result["val"]))


def stops_early():
    text = run("--patience=2", "--lr=0")
    check(re.search(r"^early stop of loss: no better value in 2 evaluations", text, re.M), "a run that does not learn stops", text)
    with open(sorted(glob.glob("runs/loop-*/result.json"))[-1], encoding="utf-8") as file:
        check(json.load(file)["ended"] == "early_stop", "and says so in its result")
    folder = sorted(glob.glob("runs/loop-*"))[-1]
    text = run(f"--resume={folder}", "--patience=2", "--lr=0", status=1)
    check("ended early" in text, "it does not go on as it was", text)
    text = run(f"--resume={folder}", "--patience=50", "--lr=0")
    check(re.search(r"^all steps are done: 24 steps", text, re.M), "with more patience it does", text)


def leaves_nothing_of_a_dry_run():
    before = sorted(os.listdir("runs"))
    text = run("--dry_run")
    check("dry run: one step, evaluation, saving and the report went well" in text, "a dry run goes through all", text)
    check(sorted(os.listdir("runs")) == before, "and leaves nothing", str(os.listdir("runs")))
    text = run("--dry_run", "--broken=true", status=1)
    check("evaluation is broken" in text and sorted(os.listdir("runs")) == before, "also when it fails", text)


def tries_evaluation_first():
    text = run("--broken=true", status=1)
    check("evaluation is broken" in text and "step " not in text, "what is wrong with evaluation shows before the first step", text)


def does_what_the_page_shows():
    with open(os.path.join(ROOT, "docs", "training.md"), encoding="utf-8") as file:
        own = next(block for block in re.findall(r"```lua\n(.*?)```", file.read(), re.S) if block.startswith("--- capl: 1"))
    with open("own.lua", "w", encoding="utf-8") as file:
        file.write(own)
    status, out, err = capl("own.lua")
    check(status == 0, "the loop of docs/training.md runs", out + err)
    check(max(float(metric) for metric in re.findall(r"^epoch .* exact ([\d.]+) %", out, re.M)) > 90, "and learns", out)
    for line in (r"train\.EMA: \d+ updates", r"train\.EarlyStopping: \d+ evaluations watched", r"train\.freeze: 48 values"):
        check(re.search("^report: " + line, out, re.M), "its objects count for themselves: " + line, out)
    status, out, err = capl("doctor", "own.lua", "--json")
    errors = [finding["rule"] for finding in json.loads(out)["findings"] if finding["severity"] == "error"]
    check(errors == [], "nothing is wrong with it, frozen layers and all", out + err)
    with open("idle.lua", "w", encoding="utf-8") as file:
        file.write(own.replace("    ema:update()\n", "").replace("p.epochs do", "1 do"))
    status, out, err = capl("idle.lua")
    check(status == 1 and "train.EMA was asked for, but the run counted 0 updates of the averages" in err, "averages that are never updated", out + err)
    status, out, err = capl("own.lua", "--dry_run")
    check(status == 1 and "--dry_run is for train.fit, and this recipe has a custom training loop" in err, "which knows no dry run", out + err)
    status, out, err = capl("own.lua", "--init_from=runs/own")
    check(status == 1 and "this recipe has a custom training loop, which has not loaded these weights" in err and "epoch  1" not in out,
          "and takes no weights that it does not load", out + err)


def main():
    does_what_the_page_shows()
    with open("loop.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE)
    goes_on_to_the_bit()
    stops_early()
    leaves_nothing_of_a_dry_run()
    tries_evaluation_first()
    text = run("--overfit=8", "--steps=200")
    check(re.search(r"^overfit: learned: loss \S+ of 8 samples at step \d+", text, re.M), "eight samples are learned by heart", text)


in_empty_folder(main)
