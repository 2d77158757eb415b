"""The Python package: its structures are those of the C headers, and what it says of images is what `capl predict` says.

Needs NumPy and Pillow, which Debian's python3 has (python3-numpy, python3-pil).
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import glob
import json
import os
import subprocess
import sys
import warnings

from program import ROOT, capl, check, in_empty_folder

DEBIANS = "/usr/bin/python3"
try:
    import numpy as np
    import PIL.Image
except ImportError as why:
    if sys.executable != DEBIANS and os.path.exists(DEBIANS):
        os.execv(DEBIANS, [DEBIANS, *sys.argv])
    print(f"skipped: the Python package is not tested: {why}; apt-get install python3-numpy python3-pil")
    sys.exit(77)

sys.path.insert(0, os.path.join(ROOT, "python"))
sys.dont_write_bytecode = True
os.environ.setdefault("CAPL_LIBRARY", os.path.join(os.environ["CAPL_BUILD_DIR"], "libcapl.so.0"))
import capl as package  # noqa: E402
from capl import _library  # noqa: E402

# A captcha reader, a model with an output of every kind, and one with inputs beside the image; not trained.
MODELS = """
capl.manual_seed(7)
local size = {width = 64, height = 40, channels = 3, normalize = "unit"}
local function meta(keys) for k, v in pairs(size) do keys[k] = v end return keys end
local reader = nn.Sequential{nn.Conv2d(3, 4, 5, {stride = 4}), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 9 * 15, 30)}
capl.io.save_model("text.capl", reader, capl.zeros(1, 3, 40, 64), meta{output = "text", charset = "0123456789", length = 3},
  (capl.rand(4, 3, 40, 64) * 255):to("u8"))
local All = nn.class("All")
function All:init()
  self.conv, self.head, self.pixels = nn.Conv2d(3, 6, 4, {stride = 4}), nn.Linear(6 * 160, 64), nn.Conv2d(6, 3, 1)
end
function All:forward(x)
  local h = self.conv(x):relu()
  local y = self.head(h:reshape(-1, 6 * 160))
  return {text = y:narrow(2, 1, 30), class = y:narrow(2, 1, 3), set = y:narrow(2, 1, 3) * 4, mask = self.pixels(h),
    points = y:narrow(2, 1, 6):reshape(-1, 2, 3) * 20, boxes = y:narrow(2, 31, 12):reshape(-1, 2, 6) * 9, numbers = y:narrow(2, 1, 2),
    steps = y:narrow(2, 1, 6):reshape(-1, 3, 2), picture = self.pixels(h)}
end
capl.io.save_model("all.capl", All(), capl.zeros(1, 3, 40, 64), meta{outputs = {
  {name = "text", kind = "text", charset = "жукéñ01234", length = 3}, {name = "class", kind = "class", classes = {"猫", "dog", "fox"}},
  {name = "set", kind = "classes", classes = {"a", "b", "c"}}, {name = "mask", kind = "mask", classes = {"bg", "x", "y"}},
  {name = "points", kind = "points", points = {"gap", "piece"}},
  {name = "boxes", kind = "boxes", boxes = {"one", "two"}, threshold = 0.01, overlap = 1},
  {name = "numbers", kind = "numbers", numbers = {"u", "v"}, mean = {1, 2}, std = {2, 3}},
  {name = "steps", kind = "series", series = {"p", "q"}, steps = 3}, {name = "picture", kind = "image", image = 3}}})
local Both = nn.class("Both")
function Both:init() self.head = nn.Linear(7, 2) end
function Both:forward(x) return {sum = self.head(capl.cat({x.image:mean({3, 4}), x.row}, 2))} end
capl.io.save_model("both.capl", Both(), {image = capl.zeros(1, 3, 40, 64), row = capl.zeros(1, 4)}, {
  inputs = {{name = "image", kind = "image", width = 64, height = 40, channels = 3, normalize = "unit"},
    {name = "row", kind = "numbers", numbers = {"a", "b", "c", "d"}}},
  outputs = {{name = "sum", kind = "numbers", numbers = {"s", "t"}}}})
"""

STRUCTURES = {"ErrorRecord": "capl_error", "Options": "capl_model_options", "Field": "capl_model_field", "Letterbox": "capl_letterbox", "Info": "capl_model_info",
              "Decoding": "capl_text_decoding", "Sample": "capl_model_sample", "ClassScore": "capl_class_score",
              "Output": "capl_output", "Reading": "capl_reading", "Verdict": "capl_model_verdict"}


def layout():
    lines, ours = [], []
    for name, of in STRUCTURES.items():
        structure = getattr(_library, name)
        lines.append(f'printf("{of} %zu\\n", sizeof({of}));')
        ours.append(f"{of} {ctypes.sizeof(structure)}")
        for field, *_ in structure._fields_:
            lines.append(f'printf("{of}.{field} %zu\\n", offsetof({of}, {field}));')
            ours.append(f"{of}.{field} {getattr(structure, field).offset}")
    with open("layout.c", "w", encoding="utf-8") as file:
        file.write("#include <capl/model.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n" + "\n".join(lines) +
                   f'\nprintf("%d\\n", CAPL_MODEL_FIELDS_MAX);\nreturn 0;\n}}\n')
    subprocess.run([os.environ.get("CC", "cc"), "-I", os.path.join(ROOT, "include"), "layout.c", "-o", "layout"], check=True)
    theirs = subprocess.run(["./layout"], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    wrong = [pair for pair in zip(ours + [str(_library.FIELDS_MAX)], theirs) if pair[0] != pair[1]]
    check(not wrong, f"{len(theirs)} sizes and offsets are those of the headers", str(wrong))
    check(capl("--version")[1].split()[-1] == package.__version__, "the version is the library's", package.__version__)


def near(a, b, what):
    check_quietly(np.allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), atol=2e-4), what, f"{a}\n{b}")


def check_quietly(is_right, what, seen):
    if not is_right:
        check(False, what, seen)


def same(one, said, picture):
    """A reading of all.capl against a line of `capl predict --json` and the pictures of --out, PICTURE_NAME.png."""
    text, boxes = one["text"], one["boxes"]
    check_quietly(text.text == said["text"]["text"], "text", f"{text} {said['text']}")
    near([text.confidence, *text.characters], [said["text"]["confidence"], *said["text"]["chars"]], "confidence of texts")
    top = [(s.name, round(s.probability, 4)) for s in one["class"].top]
    check_quietly(one["class"].name == said["class"]["class"] == top[0][0] and len(top) == 3, "class", f"{top} {said['class']}")
    near([s.probability for s in one["class"].top], [s["confidence"] for s in said["class"]["top"]], "top classes")
    check_quietly(one["set"].names == [s["class"] for s in said["set"]["classes"]], "classes", str(said["set"]))
    near(one["set"].confidence, said["set"]["confidence"], "their confidence")
    check_quietly(list(one["mask"].shares) == ["bg", "x", "y"], "names of a mask", str(one["mask"].shares))
    near([*one["mask"].shares.values()], [said["mask"]["mask"][name] for name in ("bg", "x", "y")], "shares")
    near(one["mask"].classes, PIL.Image.open(picture + "_mask.png"), "mask")
    near(one["points"].xy, [said["points"]["points"][name] for name in one["points"].names], "points")
    near(one["points"].visible, [said["points"]["visible"][name] for name in one["points"].names], "visible")
    check_quietly(boxes.names == [b["class"] for b in said["boxes"]["boxes"]] and len(boxes.names) > 0, "boxes", str(said["boxes"]))
    near(boxes.xyxy, [[b["box"][k] for k in ("left", "top", "right", "bottom")] if isinstance(b["box"], dict) else b["box"]
                      for b in said["boxes"]["boxes"]], "boxes")
    near(boxes.confidence, [b["confidence"] for b in said["boxes"]["boxes"]], "confidence of boxes")
    near(one["numbers"].values, [said["numbers"]["numbers"][name] for name in ("u", "v")], "numbers")
    near(one["steps"].values, [[row["p"], row["q"]] for row in said["steps"]["series"]], "series")
    near(one["picture"].pixels, PIL.Image.open(picture + "_picture.png"), "picture")


def every_kind(paths):
    status, out, err = capl("predict", "all.capl", "images", "--json", "--out=said", "--top=3", "--precision=fp32")
    check(status == 0, "predict", out + err)
    lines = [json.loads(line) for line in out.splitlines()]
    model = package.load("all.capl", precision="fp32")
    read = model(paths)
    check(len(read) == len(lines) == len(paths), "a reading for each image")
    for one, said in zip(read, lines):
        same(one, said, "said/" + os.path.basename(said["path"])[:-4])
    check(True, "text, class, classes, mask, points, boxes, numbers, series, image are those of capl predict")
    check([f.kind for f in model.outputs] == [model.meta["outputs"][i]["kind"] for i in range(9)] and
          dict((f.name, f.names) for f in model.outputs)["class"] == ["猫", "dog", "fox"], "outputs are described", str(model.outputs))


def every_form(paths):
    """Paths, bytes, arrays and PIL images of one file say the same; so do batches, generators and the threads of files()."""
    with package.load("text.capl") as model:
        said = {json.loads(line)["path"]: json.loads(line)["text"] for line in capl("predict", "text.capl", "images", "--json")[1].splitlines()}
        texts = [said[path] for path in paths]
        check(len(set(texts)) > 5, "the images differ", str(texts))
        pil = [PIL.Image.open(path) for path in paths]
        arrays = [np.asarray(image.convert("RGB")) for image in pil]
        for what, images in {
            "paths": paths, "bytes": (open(path, "rb").read() for path in paths), "PIL images": pil, "arrays": arrays,
            "an array of a batch": np.stack(arrays), "a list of several kinds": [pil[0], arrays[1], *paths[2:]],
            "PathLike": list(map(__import__("pathlib").Path, paths)),
        }.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                check([one.text for one in model(images)] == texts, what, str(texts))
        check([model(path).text for path in paths] == texts and model(arrays[0]).text == texts[0], "one image")
        check([one.text for one in model.files(paths)] == texts and model([]) == [], "files() and no image")
        running = model.files(paths)
        next(running)
        fails(lambda: model(paths), "files() of this model is still being read", "state")
        running.close()
        many = model(paths * 40)
        check([one.text for one in many] == texts * 40, "more images than a batch of the library")
        clear = pil[0].convert("RGBA")
        clear.putalpha(0)
        clear.save("clear.png")
        check(model(clear).text == model("clear.png").text == model(np.full((40, 64, 3), 255, np.uint8)).text, "alpha is on white")
        gray = np.asarray(pil[0].convert("L"))
        check(model(gray).text == model(gray[:, :, None]).text == model(gray[::-1][::-1]).text, "gray arrays, also not contiguous")
        v = model.verify()
        check(v.ok and v.n == v.same_texts == 4 and v.difference <= v.tolerance, "verify", str(v))
        model.decoding(characters="1-3")
        check(set("".join(one.text for one in model(paths))) <= set("123"), "characters")
        model.decoding()
        check([one.text for one in model(paths)] == texts, "and all again")
    fails(lambda: model(paths), "the model is closed", "state")


def inputs(paths):
    model = package.load("both.capl", precision="fp32")
    row = np.arange(4)
    one, more = model({"image": paths[0], "row": row}), model([{"image": paths[0], "row": row}, {"image": paths[0], "row": row * 9}])
    near(one["sum"].values, more[0]["sum"].values, "alone and in a batch")
    check(not np.allclose(one["sum"].values, more[1]["sum"].values), "inputs beside the image")
    check([(f.name, f.kind, f.count) for f in model.inputs][1] == ("row", "numbers", 4), "they are described", str(model.inputs))
    fails(lambda: model(paths[0]), "a sample of this model is {image: image, row: numbers}; 'row' is missing", "value")
    fails(lambda: model({"image": paths[0], "row": row, "nose": 1}), "there is no 'nose'", "value")
    fails(lambda: model({"image": paths[0], "row": [1, 2]}), "the input 'row' takes 4 numbers, not 2", "value")


def fails(what, message, code):
    try:
        what()
    except package.Error as error:
        check(message in str(error) and error.code == code, f"error: {message}", f"{error.code}: {error}")
    else:
        check(False, f"no error: {message}")


def refusals(paths):
    fails(lambda: package.load("none.capl"), "none.capl", "io")
    fails(lambda: package.load("text.capl", precision="fp8"), "fp8", "value")
    fails(lambda: package.load("text.capl", device="gpu"), "gpu", "unsupported")
    model = package.load("text.capl")
    with open("broken.png", "wb") as file:
        file.write(open(paths[0], "rb").read()[:60])
    fails(lambda: model(paths[:2] + ["broken.png"]), "broken.png", "format")
    fails(lambda: model("gone.png"), "gone.png", "io")
    fails(lambda: model(b"no image"), "PNG", "format")
    fails(lambda: model(np.zeros((40, 64, 3))), "an array of an image is u8", "value")
    fails(lambda: model([np.zeros((40, 64, 4), np.uint8)]), "alpha by a PIL image", "value")
    fails(lambda: model([3]), "not int", "value")
    fails(lambda: model(paths, errors="skip"), 'errors is "raise" or "return"', "value")
    fails(lambda: model.decoding(characters="ж"), "ж", "value")
    fails(lambda: model.decoding(beam=4), "CTC", "value")
    read = model([paths[0], "broken.png", paths[1]], errors="return")
    check(isinstance(read[1], package.Error) and "broken.png" in str(read[1]) and read[0].text and read[2].text, "a bad image in its place")
    with open("text.capl/graph.json", "r+", encoding="utf-8") as file:
        file.truncate(40)
    fails(lambda: package.load("text.capl"), "text.capl/graph.json", "format")
    env = {**os.environ, "CAPL_LIBRARY": "/nowhere/libcapl.so.0", "PYTHONPATH": os.path.join(ROOT, "python")}
    done = subprocess.run([sys.executable, "-c", "import capl"], capture_output=True, text=True, env=env, check=False)
    check("ImportError: libcapl could not be loaded" in done.stderr and "set CAPL_LIBRARY" in done.stderr, "no library", done.stderr)


def main():
    status, out, err = capl("-e", MODELS)
    check(status == 0, "models are saved", out + err)
    status, out, err = capl("generate", "--out=images", "--n=12", "--seed=3", "--width=64", "--height=40", "--preset=free", "--length=3")
    check(status == 0, "generate", out + err)
    paths = sorted(glob.glob("images/*.png"))
    layout()
    every_kind(paths)
    every_form(paths)
    inputs(paths)
    refusals(paths)


in_empty_folder(main)
