"""capl doctor and capl lr: what they find in recipes with faults, in one without, and in the files of runs.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import re

from program import ROOT, capl, check, in_empty_folder

RECIPE = """--- capl: 1
local p = capl.params {
  lr = 0.02, -- the rate
  dead = false, -- a layer that never fires
  idle = false, -- a layer that takes no part
  wild = false, -- scores far too large at first
  seed_val = 9, -- of the val images
  folder = "", -- training images
  charset = "012", -- of them
  loop = false, -- one of its own
  epochs = 2,
  times = 1, -- the loss
  clip = 0, -- length of all gradients
  number = false, -- reads no text, and has a loss that cannot be 0
}
local function drawn(seed, count)
  return data.captcha {charset = "01", length = 1, width = 24, height = 24, count = count, fixed = true, seed = seed}
end
local source = p.folder ~= "" and data.folder(p.folder, {label = "_(.-)%.", charset = p.charset, length = 1}) or drawn(3, 320)
local function loader(what, role) return data.loader {source = what, role = role, batch = 16, workers = 0} end
local images = loader(source, "train")
local val = loader(p.folder ~= "" and source or drawn(p.seed_val, 64), "val")
local Net = nn.class("Net")
function Net:init()
  self.first = nn.Linear(144, 32)
  self.last = nn.Linear(32, p.number and 1 or #images.charset)
  if p.idle then self.idle = nn.Linear(2, 2) end
  self.body = nn.Sequential {nn.AvgPool2d(2), nn.Flatten(), self.first, nn.ReLU(), self.last}
end
function Net:forward(x) return self.body(x) end
local model = Net()
if p.dead then nn.init.constant(model.first.bias, -100) end
if p.wild then nn.init.normal(model.last.weight, 0, 100) end
capl.model(model, p.number and {output = "numbers"} or {output = "text", charset = images.charset, length = 1})
local opt = optim.SGD(model:parameters(), {lr = p.lr, momentum = 0.9, clip_norm = p.clip})
local function loss(output, batch)
  if p.number then return nn.mse(output, batch.target:view(-1, 1):to("f32") - 0.5) + 0.4 end
  return nn.cross_entropy(output, batch.target:view(-1)) * p.times
end
if p.loop then
  for epoch = 1, p.epochs do
    for batch in images:epoch(epoch) do opt:backward_step(loss(model(batch.image), batch)) end
  end
else
  train.fit {model = model, train = images, val = val, loss = loss, optimizer = opt, precision = "fp32", epochs = p.epochs}
end
"""


def look(*words):
    status, out, err = capl("doctor", *words, "--json")
    check(status in (0, 1) and out.startswith("{"), "doctor shows " + " ".join(words), out + err)
    found = json.loads(out)
    check((status == 1) == (found["errors"] > 0), "its exit status is 1 for errors alone", out)
    by_rule = {}
    for f in found["findings"]:
        if f["severity"] not in ("ok", "skipped"):
            by_rule.setdefault(f["rule"], []).append(f)
    return by_rule, found


def has(found, rule, severity, *words):
    those = [f for f in found.get(rule, []) if f["severity"] == severity]
    check(those, f"{rule}: {severity}", json.dumps(found, indent=1))
    text = " ".join(f"{f['text']} {f.get('where')} {f.get('write')}" for f in those)
    for word in words:
        check(word in text, f"{rule} says '{word}'", text)


def fine():
    found, everything = look("ill.lua")
    found.pop("data starvation", None)  # on a machine that others use
    check(found == {}, "a sound recipe has no faults", json.dumps(found, indent=1))
    check(len(everything["findings"]) == 12, "all rules were looked at", json.dumps(everything, indent=1))
    check(not os.path.exists("runs"), "doctor leaves no files", "")


def faults():
    found, _ = look("ill.lua", "--dead", "--seed_val=3")
    has(found, "dead units", "error", "32 of the 32 channels after body.3", "ill.lua:")
    has(found, "gradients", "error", "first.weight vanishes")
    has(found, "copies and leaks", "error", "of the first images of val are training images, too", "ill.lua:17")
    found, _ = look("ill.lua", "--lr=1000", "--idle")
    has(found, "learning rate", "error", "the loss runs away", "ill.lua:3", "--lr=")
    has(found, "gradients", "error", "idle", "takes no part in the loss")
    found, _ = look("ill.lua", "--wild")
    has(found, "first loss", "warning", "cross_entropy starts at about ln 2", "ill.lua:")


def no_text():
    """A recipe that reads no text is not advised about texts, and a loss with a floor is a question, no fault."""
    found, everything = look("ill.lua", "--number")
    check(set(found) <= {"data starvation", "overfit one batch"}, "nothing is wrong with it", json.dumps(found, indent=1))
    has(found, "overfit one batch", "note", "is that near the least that this loss can be?")
    skipped = {f["rule"]: f["text"] for f in everything["findings"] if f["severity"] == "skipped"}
    check(skipped.get("label length") == "the recipe reads no text" and "class balance" in skipped and "labels" in skipped, "", str(skipped))


def large_gradients():
    found, _ = look("ill.lua", "--times=1e6", "--lr=1e-8")
    has(found, "gradients", "note", "(and 1 other)", "perhaps clip_norm = 1")
    check(len(found["gradients"]) == 1, "said once, not for each parameter", str(found["gradients"]))
    found, _ = look("ill.lua", "--times=1e6", "--lr=1e-8", "--clip=1")
    check("gradients" not in found, "who clips gradients is not advised to", str(found))


def of_files():
    status, out, err = capl("generate", "--out=pictures", "--n=40", "--charset=01", "--length=1", "--width=24", "--height=24")
    check(status == 0, "pictures", out + err)
    for k, name in enumerate(sorted(n for n in os.listdir("pictures") if n.endswith(".png"))):
        os.rename(f"pictures/{name}", f"pictures/{k}_{name[0]}.png")
    found, _ = look("ill.lua", "--folder=pictures")
    has(found, "copies and leaks", "error", "40 of 40 val images are in the training set", "another split")
    has(found, "charset", "warning", "1 of the 3 characters of the charset occur in no training text: 2")
    for k, name in enumerate(sorted(os.listdir("pictures"))):
        if name.endswith("_1.png"):
            os.rename(f"pictures/{name}", f"pictures/{k}_{'aA'[k % 2]}.png")
    found, _ = look("ill.lua", "--folder=pictures", "--charset=0aA")
    has(found, "case", "note", "letters in both cases: A/a (", "case = \"lower\"")


def own_loop():
    found, everything = look("ill.lua", "--loop", "--epochs=8")
    found.pop("data starvation", None)
    check(found == {}, "a sound loop of one's own has no faults", json.dumps(found))
    skipped = [f["rule"] for f in everything["findings"] if f["severity"] == "skipped"]
    check(skipped == ["case", "label length", "overfit one batch"], "what cannot be looked at there is reported", str(skipped))
    found, _ = look("ill.lua", "--loop", "--epochs=8", "--lr=1000")
    has(found, "learning rate", "error", "the loss runs away", "capl lr ill.lua --steps=200 finds one")
    found, _ = look("ill.lua", "--loop", "--dead", "--idle", "--epochs=1")
    has(found, "dead units", "error", "32 of the 32 channels after body.3")
    has(found, "gradients", "error", "takes no part in the loss")
    status, out, err = capl("lr", "ill.lua", "--loop", "--epochs=8", "--steps=60", "--min_lr=1e-4", "--out=own.png")
    check(status == 0 and "--lr = " in out and os.path.exists("own.png"), "capl lr finds a rate for it", out + err)
    status, out, err = capl("lr", "ill.lua", "--loop", "--epochs=1", "--out=own.png")
    check(status == 1 and "20 steps" in out and "the recipe ended before 2 sweeps of 100 steps to 10" in out and "cannot tell: " in out,
          "a loop that is too short is reported", out + err)
    status, out, err = capl("lr", "ill.lua", "--epochs=1", "--steps=60", "--out=own.png")
    check(status == 0 and re.search(r"ill\.lua: (\d+ steps, .*; the highest learning rate was|\d+ steps, .*; from .* on the loss ran)", out),
          "train.fit is given the steps it needs", out + err)


def val_loss(recipe, words):
    status, out, err = capl(recipe, *words)
    check(status == 0, f"{recipe} {' '.join(words)} trains", out + err)
    with open(sorted(glob.glob("runs/*/metrics.jsonl"), key=os.path.getmtime)[-1], encoding="utf-8") as file:
        return [row["val_loss"] for row in map(json.loads, file) if "val_loss" in row][-1]


def obey(recipe, *words):
    """Every setting that the findings name is given, and then the recipe learns no less than as it was. -> whether there was one"""
    found, _ = look(recipe, *words)
    flags = {}
    for f in (f for findings in found.values() for f in findings):
        flags.update(re.findall(r"--(\w+)=(\S+?)(?=[\s,;)]|$)", (f.get("write") or "").split("capl ")[0]))
    if not flags:
        return False
    mine = [word for word in words if re.match(r"--(\w+)", word)[1] not in flags] + [f"--{key}={text}" for key, text in flags.items()]
    before, after = val_loss(recipe, words) if "--lr=1000" not in words else 1e9, val_loss(recipe, mine)
    check(after < before + 0.02, f"{' '.join(mine)} is no worse than {' '.join(words)}", f"{after} {before}")
    return True


def obeyed():
    check(obey("ill.lua", "--lr=1000") and obey("ill.lua", "--lr=1e-5"), "a rate that is far off gets advice, which helps", "")
    with open(ROOT + "/docs/tutorial.md", encoding="utf-8") as file:
        blocks = re.findall(r"```lua\n(.*?)```", file.read(), re.S)
    with open("digits.lua", "w", encoding="utf-8") as file:
        file.write("".join(block for block in blocks[:8] if "for epoch = " not in block))
    check(not obey("digits.lua"), "the tutorial's recipe needs no other setting", "")
    status, out, err = capl("lr", "digits.lua", "--steps=60", "--out=digits.png")
    check(status == 1 and "cannot tell: the loss fell by " in out and "this may help: --steps=120, or --min_lr=3e-05 and --max_lr=0.3" in out,
          "60 steps from 1e-6 to 10 show no rate for it", out + err)


def runs():
    status, out, err = capl("ill.lua")
    check(status == 0, "a run", out + err)
    status, out, err = capl("doctor", "runs/ill")
    check(status == 0 and "runs/ill: 0 errors" in out, "its folder is looked at", out + err)
    rows = [{"step": k, "seconds": k, "loss": 2.0 / k if k < 30 else 2.0, "wait": 0.5, "monitor": {"temperature_c": 91}}
            for k in range(1, 41)]
    rows += [{"step": k, "seconds": k, "val_loss": 1 + abs(k - 15) / 10} for k in range(5, 41, 5)]
    os.makedirs("bad")
    with open("bad/metrics.jsonl", "w", encoding="utf-8") as file:
        file.write("".join(json.dumps(row) + "\n" for row in sorted(rows, key=lambda row: row["step"])))
    with open("bad/settings.json", "w", encoding="utf-8") as file:
        file.write('{"recipe": "ill.lua", "settings": {}}')
    found, _ = look("bad")
    has(found, "loss", "warning", "first at step 30")
    has(found, "val images", "warning", "lowest at step 15 of 40", "more images")
    has(found, "loss", "warning", "or clip_norm = 1 in the optimizer")
    has(found, "data starvation", "error", "50.0 %")
    has(found, "temperature", "warning", "91 C")
    has(found, "end", "error", "killed at step 40", "--resume")
    with open("bad/settings.json", "w", encoding="utf-8") as file:
        file.write('{"recipe": "ill.lua", "settings": {}, "loop": {"clip_norm": {"value": 1}}, "data": {"train": {"generator": {"fixed": false}}}}')
    found, _ = look("bad")
    text = json.dumps(found["val images"] + found["loss"])
    check("more images" not in text and "by heart" not in text, "a generator that never repeats an image is not asked for more", text)
    check("clip_norm" not in text, "clip_norm that is there is not advised", text)


def readings():
    """Runs that read texts: one that says the same always, one that says nothing, one that knows its images by heart."""
    def run(name, counts, exact, loss, augment, of="cross_entropy", kind=("text", "exact"), said=None):
        os.makedirs(name)
        rows = [{"step": k, "loss": max(20 / k ** 2, loss * (9 if k % 13 == 0 else 1))} for k in range(1, 41)]
        rows += [{"step": k, "val_loss": 1, "val_" + kind[1]: exact} for k in (20, 40)]
        for file, content in (("settings.json", {"recipe": "ill.lua", "settings": {"augment": {"value": augment}},
                                                 "model": {"trainable": 5000}, "data": {"train": {"count": 300, "length": 4, "classes": 3}}}),
                              ("result.json", {"initial_loss": [{"loss": of}]}),
                              ("evaluation.json", said or {"kind": kind[0], kind[1]: exact, "confusion": {"labels": ["a", "b", ""], "counts": counts}})):
            with open(f"{name}/{file}", "w", encoding="utf-8") as out:
                json.dump(content, out)
        with open(f"{name}/metrics.jsonl", "w", encoding="utf-8") as out:
            out.write("".join(json.dumps(row) + "\n" for row in sorted(rows, key=lambda row: row["step"])))
        return look(name)[0]
    found = run("same", [[10, 90, 0], [5, 15, 0], [0, 0, 0]], 0.0, 1.0, True)
    has(found, "readings", "error", "collapsed to one character: 'b' is 88 % of what was read and 17 % of what was meant")
    check("small set" not in found, "which is no learning by heart", str(found))
    has(run("nothing", [[0, 0, 60], [0, 0, 60], [0, 0, 0]], 0.0, 1.0, True), "readings", "error", "0 characters of 120 were predicted")
    found = run("heart", [[50, 10, 0], [10, 50, 0], [0, 0, 0]], 0.6, 0.01, False)
    has(found, "small set", "warning", "300 training images are overfitted", "it is 60 %", "augment = true; recipes/finetune.lua", "--grid fraction=0.1,0.3,1")
    found = run("sigmoids", [[50, 10, 0], [10, 50, 0], [0, 0, 0]], 0.1, 0.1, True, "multilabel_soft_margin")
    check("small set" not in found, "a mean over 144 sigmoids is not how likely a text is", str(found))
    found = run("classes", [[10, 90, 0], [5, 15, 0], [0, 0, 0]], 0.2, 0.01, False, kind=("classification", "accuracy"))
    has(found, "readings", "error", "collapsed to one class: 'b' is 88 % of what was read and 17 % of what was meant")
    has(found, "small set", "warning", "300 training images are overfitted", "it is 20 %", "augment = true; more images")
    check("small set" not in run("pixels", [[60, 0, 0], [0, 60, 0], [0, 0, 0]], 0.2, 0.01, True, kind=("segmentation", "accuracy")), "pixels are no whole images")
    sets = {"kind": "multilabel", "n": 50, "classes": [{"name": "hat", "n": 20, "found": 0}]}
    found = run("sets", [], 0.3, 0.01, True, "bce_with_logits", ("multilabel", "exact_match"), sets)
    has(found, "readings", "error", "no class is predicted for any of 50 samples; 20 are meant", "ill.lua", "pos_weight")
    has(found, "small set", "warning", "their loss corresponds to 92 % exact accuracy, and on the val images it is 30 %")
    found = run("parts", [], 0.3, 0.01, True, "mse", ("multilabel", "exact_match"), {"kind": "several", "outputs": {"worn": sets}})
    has(found, "readings", "error", "worn: no class is predicted")
    check("small set" not in found, "another loss says nothing of them", str(found))
    for kind, numbers, rest in [("localization", 600, {"by_point": [{"name": "gap", "n": 50, "rmse": 2, "spread": 40}]}),
                                ("regression", 300, {"n": 50, "r2": 0.9}),
                                ("detection", 3000, {"n": 50, "classes": [{"name": "car", "n": 100, "found": 99, "recall": 0.9}]})]:
        found = run("few_" + kind, [], 1, 0.01, False, "mse", (kind, "mae"), {"kind": kind, **rest})
        has(found, "small set", "warning", f"300 training samples are overfitted: {numbers} numbers of 300 training samples for 5000 parameters",
            "the loss on val samples is 34.", "augment = true; more images")
        check("small set" not in run("even_" + kind, [], 1, 0.9, False, "mse", (kind, "mae"), {"kind": kind, **rest}), f"{kind}: a loss as high")
    several = {"kind": "several", "outputs": {"a": {"kind": "regression", "n": 50, "by_number": [{"name": str(i), "r2": 0.9} for i in range(17)]}}}
    check("small set" not in run("enough", [], 1, 0.01, False, "mse", ("several", "a.mae"), several), "5100 numbers for 5000 parameters")
    found = look("heart")[0]
    check("readings" not in found and "loss" not in found, "jumps of a loss that is next to nothing are none", str(found))


def refused():
    for words, text in [(["nowhere"], "cannot read recipe nowhere"), (["bad", "worse"], "takes one recipe, or the folder of one run"),
                        (["pictures"], "is not the folder of a run"), (["ill.lua", "--lrr=1"], "lrr")]:
        status, out, err = capl("doctor", *words)
        check(status != 0 and text in err, f"refused: {words}", out + err)


def main():
    with open("ill.lua", "w", encoding="utf-8") as ill:
        ill.write(RECIPE)
    fine()
    faults()
    no_text()
    large_gradients()
    of_files()
    own_loop()
    obeyed()
    runs()
    readings()
    refused()


in_empty_folder(main)
