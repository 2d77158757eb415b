"""`capl export` against ONNX Runtime, onnx.checker and ddddocr: every op, the model of every recipe, images of any size and kind,
2,000 captchas read by ddddocr.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import math
import os
import random
import shutil
import subprocess

import onnx_venv
from page import blocks
from program import ROOT, capl, check, in_empty_folder, recipe

E2E = os.path.dirname(os.path.abspath(__file__))
# Ops that training alone needs, and the shapes of others that docs/deploy.md names.
NOT_WRITTEN = {"argsort", "remainder", "batch_norm", "bn_act", "bn_act_pool", "bce_with_logits", "conv_transpose2d", "cross_entropy", "ctc_loss", "dice_sums", "dropout",
               "grad_norm", "gru", "interpolate", "lstm", "mse", "multilabel_soft_margin", "pointwise", "scaled_dot_product_attention",
               "sigmoid_focal", "smooth_l1"}
NEVER_WRITTEN = {"argsort", "remainder", "bce_with_logits", "cross_entropy", "ctc_loss", "dice_sums", "dropout", "grad_norm", "mse", "multilabel_soft_margin",
                 "sigmoid_focal", "smooth_l1"}
RECIPES = {
    "captcha": ["captcha.lua", "--samples=512", "--val=64", "--test=64", "--files=8"],
    "captcha_cnn": ["captcha_cnn.lua", "--epochs=1", "--samples=64", "--batch=32", "--val=32", "--test=32"],
    "crnn_ctc": ["crnn_ctc.lua", "--data=wide", "--steps=6", "--batch=8", "--warmup=2"],
    "classify": ["classify.lua", "--data=icons", "--epochs=1", "--preset=small", "--width=4", "--size=32", "--batch=16"],
    "slider": ["slider.lua", "--epochs=1", "--epoch=8", "--val=2", "--test=2", "--width=4", "--fpn=8", "--batch=4", "--max_time=none"],
    "face_parsing": ["face_parsing.lua", "--data=faces", "--preset=small", "--size=64", "--batch=8", "--epochs=1", "--augment=minimal"],
    "pm25_lstm": ["pm25_lstm.lua", "--days=400", "--epochs=2", "--hidden=8", "--layers=1", "--dropout=0", "--permutations=1"],
}
DATA = [["--out=wide", "--n=59", "--seed=4", "--charset=0-9", "--length=3-6"], ["--preset=faces", "--out=faces", "--n=20", "--width=64"],
        ["--preset=icons", "--format=folders", "--out=icons", "--n=120", "--charset=ABC", "--grain=0"]]


def compare(*words):
    done = subprocess.run([PYTHON, os.path.join(E2E, "onnx_compare.py"), *words], capture_output=True, text=True, check=False)
    check_quietly(done.returncode == 0, "onnx_compare.py " + words[0], done.stdout[-2000:] + done.stderr[-2000:])
    return done.stdout


def check_quietly(condition, what, seen=""):
    if not condition:
        check(condition, what, seen)


def run(*words):
    status, out, err = capl(*words, timeout=600)
    check(status == 0, "capl " + " ".join(words[:3]), out[-2000:] + err[-2000:])
    return out


def every_op():
    os.mkdir("ops")
    build = os.environ["CAPL_BUILD_DIR"]
    env = {**os.environ, "LUA_CPATH": build + "/?.so;;", "LUA_PATH": ROOT + "/tests/?.lua;;"}
    done = subprocess.run(["luajit", os.path.join(E2E, "onnx_ops.lua"), "ops"], capture_output=True, text=True, check=False, env=env)
    check(done.returncode == 0, "the cases of tests/op are written", done.stderr[-2000:])
    with open("ops/list", "w", encoding="utf-8") as file:
        file.write(done.stdout)
    rows = [line.split("\t", 2) for line in done.stdout.splitlines()]
    refused = {row[1] for row in rows if row[0] == "-"}
    check(refused <= NOT_WRITTEN, "refused ops are those that are known", str(refused - NOT_WRITTEN))
    out = compare("ops", "ops").splitlines()
    check(not out[:-1], "ONNX Runtime gives the same for every case", "\n".join(out[:-1]))
    missing = {row[1] for row in rows} - NEVER_WRITTEN - set(json.loads(out[-1]))
    check(not missing and len(rows) > 800, f"{len(json.loads(out[-1]))} ops in {len(rows)} cases", str(missing))


def model_of(name):
    found = glob.glob(f"runs/{name}/best.capl") + glob.glob(f"runs/{name}-[0-9]*/best.capl") # not those of captcha_cnn
    return max(found, key=os.path.getmtime)


def every_recipe():
    for words in DATA:
        run("generate", *words)
    for name, words in RECIPES.items():
        run(recipe(words[0]), *words[1:], "--precision=fp32", "--quiet", *([] if name == "pm25_lstm" else ["--workers=1"]))
        out = run("export", model_of(name), "--format=onnx", f"--out={name}.onnx")
        check("allowed): ok" in out, f"golden pairs of {name}", out)
        check("allowed): ok" in run("verify", f"{name}.onnx"), "and verify", out)
    compare("check", *(name + ".onnx" for name in RECIPES))


def draw(path, width, height, channels, rng):
    """A PNG file of levels that change slowly, by Pillow."""
    values = [[[rng.randrange(256) for _ in range(channels)] for _ in range(width // 8 + 2)] for _ in range(height // 8 + 2)]
    code = ("import sys, json, numpy as np; from PIL import Image; v, w, h, path = json.load(sys.stdin); a = np.uint8(v); "
            "a = a[..., 0] if a.shape[2] == 1 else a; Image.fromarray(a).resize((w, h), Image.BICUBIC).save(path)")
    subprocess.run([PYTHON, "-c", code], input=json.dumps([values, width, height, path]), text=True, check=True)


def softmax_best(scores, count):
    """Greatest softmax value of each row of `count`."""
    rows = [scores[i:i + count] for i in range(0, len(scores), count)]
    return [1 / sum(math.exp(x - max(row)) for x in row) for row in rows]


def images_of_any_kind():
    """Gray, RGB and alpha, larger and smaller: the confidences of capl predict."""
    rng = random.Random(7)
    os.mkdir("any")
    for i in range(24):
        draw(f"any/{i:02d}.png", rng.choice([160, rng.randint(20, 500)]), rng.choice([60, rng.randint(12, 200)]), i % 4 + 1, rng)
    for name, count in (("captcha", 36), ("classify", 3), ("letterbox", 3)):
        said = {json.loads(line)["path"]: json.loads(line) for line in
                run("predict", model_of(name), "any", "--json", "--precision=fp32").splitlines()}
        for line in compare("images", name + ".onnx", "any").splitlines():
            got = json.loads(line)
            confidence = math.prod(softmax_best(got["scores"], count))
            wanted = said["any/" + got["name"]]["confidence"]
            check_quietly(abs(confidence - wanted) <= 1e-3 * wanted, f"{name} of {got['name']}", f"{confidence}, not {wanted}")
        check(len(said) == 24, f"{name}: images of any size and kind")


def with_letterbox():
    """The model of classify with another resize in its meta.json: the network does not mind."""
    os.makedirs("runs/letterbox")
    shutil.copytree(model_of("classify"), "runs/letterbox/best.capl")
    with open("runs/letterbox/best.capl/meta.json", "r+", encoding="utf-8") as file:
        meta = json.load(file)
        meta["resize"] = {"mode": "letterbox", "position": "center", "fill": [10, 200, 90]}
        file.seek(0)
        json.dump(meta, file)
        file.truncate()
    run("export", "runs/letterbox/best.capl", "--format=onnx", "--out=letterbox.onnx")


def documented():
    """The Python of docs/deploy.md."""
    run("export", model_of("captcha"), "--format=onnx", "--out=reader.onnx")
    run("export", model_of("captcha"), "--format=ddddocr", "--out=reader")
    os.mkdir("images")
    shutil.copy(sorted(glob.glob("read_captcha/*.png"))[0], "images/image.png")
    with open(ROOT + "/docs/deploy.md", encoding="utf-8") as file:
        shown = [block.lines for block in blocks(file.read()) if block.kind == "py"]
    for lines in shown:
        done = subprocess.run([PYTHON, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
        check(done.returncode == 0, lines[0], done.stdout + done.stderr)
    check(len(shown) == 2, "the Python of docs/deploy.md")


def read_by_ddddocr(name, count, words):
    """All images of a folder have the height of the model: no resizing by others."""
    run("generate", "--out=read_" + name, f"--n={count}", "--seed=99", *words)
    run("export", model_of(name), "--format=ddddocr", "--out=dd_" + name)
    said = run("predict", model_of(name), "read_" + name, "--json", "--precision=fp32")
    texts = {one["path"]: one["text"] for one in map(json.loads, said.splitlines())}
    got = dict(map(json.loads, compare("ddddocr", "dd_" + name, *sorted(texts)).splitlines()))
    other = {path: (text, got[path]) for path, text in texts.items() if got[path] != text}
    check(not other and len(got) == count, f"{count} texts of {name} by ddddocr", str(list(other.items())[:5]))
    twice = sum(any(a == b for a, b in zip(text, text[1:])) for text in texts.values())
    check(twice > 0, f"{twice} of them with a letter twice in a row")


def main():
    every_op()
    every_recipe()
    with_letterbox()
    images_of_any_kind()
    run(recipe("captcha.lua"), "--samples=10000", "--val=64", "--test=64", "--files=8", "--precision=fp32", "--quiet")
    read_by_ddddocr("captcha", 1400, [])
    documented()
    run(recipe("crnn_ctc.lua"), "--data=wide", "--steps=120", "--batch=16", "--precision=fp32", "--quiet")
    read_by_ddddocr("crnn_ctc", 600, ["--charset=0-9", "--length=3-6"])


PYTHON = onnx_venv.python()
os.environ["CAPL_PYTHON"] = PYTHON
in_empty_folder(main)
