"""recipes/slider.lua in tiny sizes: the network of the preset full, drawn sliders, somebody's own, its model file, clear refusals.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re

from program import capl, check, in_empty_folder, recipe

TINY = ["--width=4", "--unseen=2", "--fpn=8", "--batch=4", "--max_time=none", "--workers=0", "--precision=fp32"]
OWN = ["--size=64x32", "--optimizer=adamw", "--warmup=4", "--adam_lr=0.01", "--ema=0.8", *TINY]


def run(*words):
    return capl(recipe("slider.lua"), *words)


def has_its_sizes():
    for preset, count in {"full": "3,284,846", "small": "738,846"}.items():
        status, out, err = capl("check", recipe("slider.lua"), "--preset=" + preset)
        check(status == 0 and re.search(rf"^total +{count} ", out, re.M), f"{count} parameters of {preset}", out[-500:] + err)


LETTERBOX = {"mode": "letterbox", "position": "center", "fill": [255, 255, 255]}


def resize_of(path):
    with open(path + "/meta.json", encoding="utf-8") as file:
        return json.load(file)["resize"]


def draws():
    """The pictures of small, two steps."""
    status, out, err = run("--epochs=1", "--epoch=8", "--val=2", "--test=2", "--ema_compare=true", *TINY)
    check(status == 0 and re.search(r"^gap: +MAE .* within 1 px .* within 2.5 px ", out, re.M), "drawn sliders", out + err)
    check(re.search(r"^unseen_style: +MAE .* n 2$", out, re.M), "a style that training never saw", out)
    with open("runs/slider/result.json", encoding="utf-8") as file:
        check(json.load(file)["tests"]["unseen_style"]["n"] == 2, "and in the result")
    check(os.path.isfile("runs/slider/samples.png") and os.path.isfile("runs/slider/tests/unseen_style/samples.png"), "the worst are drawn")
    status, out, err = capl("report", "runs/slider")
    with open("runs/slider/report.html", encoding="utf-8") as file:
        check("Test set unseen_style, 2 samples: " in file.read(), "in the report", out + err)
    status, out, err = capl("verify", "runs/slider/best.capl")
    check(status == 0 and "allowed): ok" in out, "verify", out + err)
    check(resize_of("runs/slider/best.capl") == LETTERBOX, "the model file has the letterbox of drawn sliders", "")


def own_pictures():
    status, out, err = capl("generate", "--preset=slider", "--n=20", "--seed=3", "--width=240", "--height=150", "--out=own")
    check(status == 0, "generate", out + err)
    status, out, err = run("--data=own/labels.jsonl", "--epochs=8", *OWN)
    losses = [float(x) for x in re.findall(r"^val +\d+  loss ([\d.]+)", out, re.M)]
    check(status == 0 and losses[-1] < 0.97 * losses[0], "the loss falls", out + err)
    check("never read by the recipe: held_out" not in out, "a part is held out", out)
    check(resize_of("runs/slider-2/best.capl") == LETTERBOX, "the model file has the letterbox of own pictures", "")


PIXELS = """local source = data.folder('%s', {channels = 3})
for batch in data.loader{source = source, role = 'val', batch = 1, normalize = 'unit', workers = 0}:epoch(1) do
  local at = batch.image:select(1, 1):narrow(2, %d, 1):narrow(3, %d, 1)
  print('rgb ' .. table.concat(at:reshape(3):float():tolist(), ' ')) break
end"""


def pixel(folder, x, y):
    status, out, err = capl("-e", PIXELS % (folder, y + 1, x + 1))
    check(status == 0, "a pixel is read", out + err)
    return [float(x) for x in re.search(r"^rgb (.*)$", out, re.M)[1].split()]


def draws_what_it_finds():
    status, out, err = capl("predict", "runs/slider-2/best.capl", "own", "--json", "--overlay=over")
    check(status == 0, "predict", out + err)
    found = json.loads(out.splitlines()[0])["points"]
    for name in ("gap", "piece"):
        x, y = (round(v - 0.5) for v in found[name])
        check(0 <= x < 240 and 0 <= y < 150, name + " is in the picture", str(found))
        check(pixel("over", x, y) != pixel("own", x, y), f"a mark where {name} is", str(found))
    check(pixel("over", 239, 0) == pixel("own", 239, 0), "and none elsewhere", str(found))


def rewritten(name, change):
    with open("own/labels.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    for i, row in enumerate(rows):
        change(i, row)
    with open("own/" + name, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return "--data=own/" + name


def hide(k):
    def change(i, row):
        if i == 1:
            row["points"][k] = [0, 0, 0]
    return change


def refusals():
    none, no_angle = rewritten("none.jsonl", lambda _, row: row.pop("points")), rewritten("flat.jsonl", lambda _, row: row.pop("angle"))
    one = rewritten("one.jsonl", lambda _, row: row.update(points=row["points"][:1]))
    for words, expected in {
            (none,): 'own/none.jsonl:1: has no key "points"', (no_angle,): 'own/flat.jsonl:1: has no key "angle"',
            (one,): "own/one.jsonl: a picture has 1 point; the first is to be the gap, the second the piece",
            (rewritten("gap.jsonl", hide(0)),): "own/gap.jsonl: 01.png has no gap (visible = 0); remove it from the list",
            (rewritten("piece.jsonl", hide(1)),): "own/piece.jsonl: 01.png has no piece (visible = 0); remove it from the list",
            ("--size=60x32",): "--size=60x32: two multiples of 32 are wanted"}.items():
        status, out, err = run("--epochs=1", *OWN[words[0].startswith("--size"):], *words)
        check(status == 1 and expected in err, f"refuses {words}", out + err)
    two = rewritten("two.jsonl", lambda _, row: (row.pop("angle"), row.update(points=row["points"][:2])))
    status, out, err = run("--epochs=1", *OWN, two, "--angle=0")
    check(status == 0, "neither decoys nor angles", out + err)


def main():
    has_its_sizes()
    draws()
    own_pictures()
    draws_what_it_finds()
    refusals()


in_empty_folder(main)
