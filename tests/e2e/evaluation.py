"""What an evaluation says of a run, and that it says the truth: files, metrics of best.capl read again, locked test images.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os

from program import capl, check, in_empty_folder
from small import metrics, read_json

RECIPE = """--- capl: 1
-- A small recognizer of files, for tests.
local p = capl.params {steps = 36, val = "val", seed = 41, products = "fp32"}
local function loader(role, folder)
  local source = data.folder(folder, {charset = "0O1", length = 2, width = 48, height = 24})
  return data.loader {source = source, role = role, batch = 10, workers = 0, normalize = "unit"}
end
local images = loader("train", "train")
local model = nn.Sequential {nn.AvgPool2d(6), nn.Flatten(), nn.Linear(32, 6)}
local function loss(output, batch) return nn.cross_entropy(output:view(-1, 3), batch.target:view(-1)) end
local opt = optim.AdamW(model:parameters(), {lr = 0.05})
if p.val == "loop" then -- a loop that looks at the test images again and again
  local test = loader("test", "test")
  for epoch = 1, 2 do
    for batch in images:epoch(epoch) do opt:backward_step(loss(model(batch.image), batch)) end
    print(train.evaluate(model, test, {precision = "fp32"}):line())
  end
end
train.fit {
  model = model, train = images, val = loader(p.val == "val" and "val" or "test", p.val), test = loader("test", "test"),
  loss = loss, optimizer = opt, precision = p.products, steps = p.steps, eval_every = 2,
}
"""

# Scores that differ by less than bf16 holds: the file, which is read in fp32, reads other texts than the run.
CLOSE = """--- capl: 1
local p = capl.params {precision = "auto"}
local parts = {}
parts.train, parts.val = data.split(data.folder("train", {charset = "0O1", length = 2, width = 48, height = 24}), {val = 0.4})
local function loader(role) return data.loader {source = parts[role], role = role, batch = 8, workers = 0} end
local images, val = loader("train"), loader("val")
local model = nn.Sequential {nn.AvgPool2d(6), nn.Flatten(), nn.Linear(32, 6)}
capl.no_grad(function()
  local row = model[3].weight:narrow(1, 1, 1)
  for i = 2, 6 do model[3].weight:narrow(1, i, 1):copy_(row + 1e-5 * capl.randn(1, 32)) end
  model[3].bias:fill_(1)
end)
local function loss(output, batch) return nn.cross_entropy(output:view(-1, 3), batch.target:view(-1)) end
train.fit {
  model = model, train = images, val = val, loss = loss, optimizer = optim.SGD(model:parameters(), {lr = 1e-9}),
  precision = p.precision, steps = 1,
}
local outputs = {}
for batch in val:epoch(1) do outputs[#outputs + 1] = model(batch.image).dtype end -- without autocast
print("outputs", table.concat(outputs, " "))
"""


def is_png(path):
    with open(path, "rb") as file:
        check(file.read(8) == b"\x89PNG\r\n\x1a\n" and os.path.getsize(path) > 2000, path + " is a picture", path)


def run():
    for seed, name in enumerate(("train", "val", "test")):
        look = 'charset = "0O1", length = 2, width = 48, height = 24'
        status, _, err = capl("-e", f'data.save_captchas {{dir = "{name}", count = 40, seed = {seed}, {look}}}')
        check(status == 0, "images in " + name, err)
    status, out, err = capl("files.lua")
    check(status == 0, "a run on files", out + err)
    return "runs/files/"


def files(folder):
    """evaluation.json is all of the last evaluation, with samples that can be found again."""
    got, result = read_json(folder + "evaluation.json"), read_json(folder + "result.json")
    check(result["precision"] == "fp32" and result["seed"] not in (None, 41), "what was computed in, and the seed that was used", str(result))
    head = {key: got[key] for key in ("kind", "role", "main", "better", "n", "replaced")}
    check(head == {"kind": "text", "role": "test", "main": "exact", "better": "max", "n": 40, "replaced": 0}, "what it is", str(head))
    check(got["exact"] == got["value"] == result["test"]["exact"], "the metrics of the test", str(got))
    check(sum(row["n"] for row in got["by_position"]) == 80 and got["by_length"][0]["n"] == 40, "by position and length", str(got))
    counts, labels = got["confusion"]["counts"], got["confusion"]["labels"]
    check(labels == ["0", "O", "1", ""] and sum(map(sum, counts[:3])) == 80, "the matrix holds each character", str(counts))
    wrong = round(40 * (1 - got["exact"]))
    check(len(got["worst"]) == min(24, wrong) > 0, "the worst samples", str(got["worst"]))
    samples = got["worst"] + [sample for pair in got["pairs"] for sample in pair["samples"]]
    lost = [s for s in samples if not (os.path.exists("test/" + s["name"]) and os.path.exists(folder + s["image"]))]
    check(not lost, "each sample has a file and an image", str(lost))
    check(all(sample["name"].startswith(sample["truth"] + "_") for sample in got["worst"]), "the truth is that of the file", str(got["worst"]))
    for name in ("confusion.png", "samples.png"):
        is_png(folder + name)
    return got


def evaluated(source):
    status, out, err = capl("eval", "runs/files/best.capl", "--data=" + source, "--json", "--precision=fp32")
    check(status == 0, "eval of " + source, out + err)
    return json.loads(out)


def best(folder):
    """The recorded score of the best weights is what best.capl scores, and the best of its history."""
    result = read_json(folder + "result.json")
    history = [row["val_exact"] for row in metrics(folder.rstrip("/")) if "val_exact" in row]
    check(len(history) == 18 and len(set(history)) > 2, "evaluations that differ", str(history))
    check(result["best"]["exact"] == max(history), "the best of the history is recorded", str(history))
    again = evaluated("val")
    check(abs(again["exact"] - max(history)) < 1e-9, "best.capl scores on val what was recorded", str(again["exact"]))
    check(again["confusions"] == result["best"]["confusions"], "with the same mistakes", str(again["confusions"]))


def eval_command(of_run):
    """capl eval says of the same images what the run has said."""
    got = evaluated("test")
    missing = set(of_run) - set(got) - {"role", "loss"}
    check(not missing, "its object has the form of evaluation.json", str(missing))
    for key in ("exact", "low", "chars", "edit_distance", "cer", "by_position", "by_length", "confusion", "confusions", "merged", "n"):
        check(got[key] == of_run[key], "the same " + key, f"{got[key]} {of_run[key]}")
    check([sample["name"] for sample in got["worst"]] == [sample["name"] for sample in of_run["worst"]], "the same worst samples", str(got))
    _, out, _ = capl("eval", "runs/files/best.capl", "--data=test", "--out=seen")
    seen = read_json("seen/evaluation.json")
    check(seen["exact"] == of_run["exact"] and os.path.exists("seen/" + seen["worst"][0]["image"]), "--out leaves what a run leaves", str(seen))
    for name in ("confusion.png", "samples.png"):
        is_png("seen/" + name)
    check("edit distance: " in out and "look-alikes: " in out and "by position: " in out and "mistakes: " in out, "in words", out)


def locked():
    status, _, err = capl("files.lua", "--val=test")
    check(status == 1 and 'val is a loader with role = "test": what is chosen on the test images cannot be tested any more' in err,
          "choosing on the test images is refused", err)
    status, _, err = capl("files.lua", "--val=loop")
    check(status == 1 and "files.lua:16: train.evaluate: the test images were read at step 4 already, with other weights" in err,
          "and so is looking at them while training", err)
    check('hint: choose on a loader with role = "val"' in err, "with what to do", err)


def goes_on():
    """A checkpoint knows the precision that train.fit was called with, whatever the recipe calls its setting."""
    status, _, err = capl("files.lua", "--resume=runs/files", "--steps=40", "--products=bf16")
    check(status == 1 and "precision: bf16, was fp32" in err, "going on in another precision is refused", err)
    status, out, err = capl("bench", "files.lua", "--steps=2", "--warmup=1", "--json", "--products=bf16")
    got = json.loads(out) if status == 0 else {}
    check((got.get("precision"), got.get("workers")) == ("bf16", 0), "bench shows it, and the threads of its loader", out + err)


def other_precision():
    """What bf16 has read is read again in fp32, and a loop without autocast reads the same loader."""
    with open("close.lua", "w", encoding="utf-8") as recipe:
        recipe.write(CLOSE)
    status, out, err = capl("close.lua", "--precision=bf16")
    check(status == 0 and "\nfinal exact=" in out, "a run in bf16 ends well where its file reads other texts", out + err)
    check("outputs\tf32 f32" in out, "batches are f32, whatever the settings are called", out)
    read = {sample["read"] for sample in read_json("runs/close/evaluation.json")["worst"]}
    check(len(read) == 1, "in bf16 all scores are equal", str(read))


def main():
    with open("files.lua", "w", encoding="utf-8") as recipe:
        recipe.write(RECIPE)
    folder = run()
    metrics = files(folder)
    best(folder)
    eval_command(metrics)
    locked()
    goes_on()
    other_precision()


in_empty_folder(main)
