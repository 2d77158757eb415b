"""`capl export`: the ONNX file read from its bytes, files for ddddocr, verdicts about golden pairs, clear refusals. What ONNX Runtime
computes with such files is in export_slow.py.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import shutil
import stat
import sys

from onnx_file import load_tensors, read
from program import capl, check, in_empty_folder
from small import write_recipe

MODEL = "runs/small/best.capl"
NO_PYTHON = {"CAPL_PYTHON": "no-such-python"}
# In place of Python: gives the golden outputs as they are, or with one bit of the last number changed.
RUNTIME = """#!{python}
import json, sys
model, given, out = sys.argv[3:6]
data = bytearray(open(given, "rb").read())
data[-1] ^= {bit}
open(out, "wb").write(data)
print(json.dumps({{"version": "0", "format": {format!r}, "meta": open({meta!r}).read()}}))
"""

# A model of one layer that ONNX Runtime refuses.
TRANSPOSED = """
local net = nn.Sequential{nn.ConvTranspose2d(1, 1, 3, {dilation = 2, output_padding = 1}), nn.Flatten(), nn.Linear(20 * 13, 2)}
capl.io.save_model("odd.capl", net, capl.zeros(2, 1, 8, 15), {output = "class", classes = {"a", "b"}, width = 15, height = 8,
  channels = 1, resize = "bicubic", normalize = "unit"})
"""

# A model of images and of numbers beside them.
BOTH = """--- capl: 1
local p = capl.params {steps = 2}
local function made(role)
  local image = capl.ones(8, 1, 4, 6) * capl.linspace(0, 255, 24):reshape(1, 1, 4, 6)
  local source = data.tensors {image = image:to("u8"), row = capl.linspace(0, 1, 16):reshape(8, 2), value = capl.ones(8, 1)}
  return data.loader {source = source, role = role, batch = 4, workers = 0}
end
local Net = nn.class("Net")
function Net:init() self.head = nn.Linear(26, 1) end
function Net:forward(x) return self.head(capl.cat({x.image:flatten(2), x.row}, 2)) end
local model = Net()
capl.model(model, {inputs = {"image", "row"}, output = "numbers", names = {"a"}})
train.fit {model = model, train = made "train", val = made "val", steps = p.steps, optimizer = optim.AdamW(model:parameters()),
  meter = "regression", loss = function(y, batch) return nn.mse(y, batch.value) end}
"""


def runtime(name, bit, form, model=MODEL):
    with open(name, "w", encoding="utf-8") as file:
        file.write(RUNTIME.format(python=sys.executable, bit=bit, format=form, meta=os.path.abspath(model + "/meta.json")))
    os.chmod(name, os.stat(name).st_mode | stat.S_IXUSR)
    return {"CAPL_PYTHON": os.path.abspath(name)}


def writes():
    status, out, err = capl("export", MODEL, "--format=onnx", "--out=small.onnx", env=NO_PYTHON)
    check(status == 0 and out.startswith("small.onnx: opset 17, "), "it writes a file", out + err)
    check("small.onnx WAS NOT VERIFIED" in err and "no-such-python -m pip install onnxruntime" in err, "and says what is missing", err)


def is_the_model():
    model = read("small.onnx")
    check((model["ir"], model["opset"], model["producer"]) == (8, 17, "capl"), "versions", str(model)[:200])
    check(model["inputs"] == [("image", 2, ["N", "H", "W", "C"])], "images u8 of any size", str(model["inputs"]))
    check(model["outputs"] == [("text", 1, ["N", 6])], "scores of a text", str(model["outputs"]))
    known = {"", *model["weights"], *(name for name, _, _ in model["inputs"])}
    for node in model["nodes"]:
        check_quietly(set(node["in"]) <= known and not set(node["out"]) & known, f"the values of {node}")
        known |= set(node["out"])
    check("text" in known and len(known) > 20, "each value is made once, before it is read")
    check({"Pad", "TopK", "Gemm", "AveragePool"} & {n["op"] for n in model["nodes"]} == {"Pad", "Gemm", "AveragePool"}, "its ops")
    check(model["weights"]["2.weight"][1] == [6, 32], "weights have their names and sizes", str(list(model["weights"])[:9]))
    said = model["metadata"]
    check(said["capl_output.text.kind"] == "text" and json.loads(said["capl_output.text.vocabulary"]) == ["0", "O", "1"], "vocabulary", str(said))
    check(json.loads(said["capl_meta"])["length"] == 2 and said["capl_version"], "meta.json and the version")


def check_quietly(condition, what):
    if not condition:
        check(condition, what)


def has_pairs():
    tensors = load_tensors("small.golden.safetensors")
    kinds = {name: (t[0], t[1][1:]) for name, t in tensors.items()}
    check(kinds == {"1/in/image": ("U8", [24, 48, 1]), "1/out/text": ("F32", [6])}, "golden pairs beside it", str(kinds))


def compares():
    status, out, err = capl("export", MODEL, "--format=onnx", "--out=small.onnx", env=runtime("same", 0, "onnx"))
    check(status == 0 and " texts the same, greatest difference 0 of" in out and out.endswith("allowed): ok\n"), "verified", out + err)
    status, out, err = capl("verify", "small.onnx", env=runtime("same", 0, "onnx"))
    check(status == 0 and "allowed): ok" in out, "capl verify of the file", out + err)
    status, out, err = capl("verify", "small.onnx", "--json", env=runtime("other", 64, "onnx"))
    check(status == 1 and json.loads(out)["ok"] is False, "another number is a failure", out + err)
    status, out, err = capl("export", MODEL, "--format=onnx", env=runtime("other", 64, "onnx"))
    check(status == 1 and "FAILED" in out, "of export too", out + err)
    os.remove("small.golden.safetensors")
    status, out, err = capl("verify", "small.onnx", env=runtime("same", 0, "onnx"))
    check(status == 1 and "small.golden.safetensors is missing" in err, "no pairs", out + err)


def for_ddddocr():
    status, out, err = capl("export", MODEL, "--format=ddddocr", "--out=reader", env=runtime("same", 0, "ddddocr"))
    check(status == 0 and " texts the same, " in out, "for ddddocr", out + err)
    with open("reader/charsets.json", encoding="utf-8") as file:
        said = json.load(file)
    check(said == {"charset": ["", "0", "O", "1"], "word": False, "image": [48, 24], "channel": 1}, "charsets.json", str(said))
    model = read("reader/model.onnx")
    check(model["inputs"] == [("image", 1, [1, "C", 24, 48])] and model["outputs"] == [("text", 1, ["T", 1, 4])], "its ends", str(model["inputs"]))
    pairs = load_tensors("reader/model.golden.safetensors")
    check(pairs["1/out/text"][1][1:] == [4, 4], "a row of a blank behind each position", str(pairs["1/out/text"][1]))


def refuses():
    for words, expected in {("export",): "takes one model", ("export", MODEL): "needs --format=onnx or --format=ddddocr",
                            ("export", MODEL, "--format=tflite"): "not 'tflite'", ("export", "no.capl", "--format=onnx"): "no.capl",
                            ("export", MODEL, "--format=onnx", "--out=x.bin"): "ends in .onnx",
                            ("verify", "no.onnx"): "no.golden.safetensors is missing"}.items():
        status, out, err = capl(*words, env=NO_PYTHON)
        check(status == 1 and expected in err, f"{' '.join(words)}: {expected}", out + err)
    shutil.copytree(MODEL, "letters.capl")
    with open("letters.capl/meta.json", "r+", encoding="utf-8") as file:
        text = file.read().replace('"bicubic"', '"letterbox"')
        file.seek(0)
        file.write(text)
    status, out, err = capl("export", "letters.capl", "--format=onnx", env=NO_PYTHON)
    check(status == 1 and "resize" in err and "letterbox" in err, "another resize is refused", out + err)
    status, out, err = capl("--trust", "-e", TRANSPOSED)
    check(status == 0, "a model", out + err)
    status, out, err = capl("export", "odd.capl", "--format=onnx", env=NO_PYTHON)
    check(status == 1 and "the op conv_transpose2d (node 1, in layer 0) cannot be written as ONNX" in err, "an op is named with its layer", out + err)
    status, out, err = capl("export", "odd.capl", "--format=ddddocr", env=NO_PYTHON)
    check(status == 1 and "it reads texts" in err, "no text for ddddocr", out + err)


def takes_numbers_too():
    with open("both.lua", "w", encoding="utf-8") as file:
        file.write(BOTH)
    status, out, err = capl("both.lua")
    check(status == 0, "training of a model with two inputs", out + err)
    status, out, err = capl("verify", "runs/both/best.capl")
    check(status == 0 and out.endswith(": ok\n"), "its golden pairs hold", out + err)
    status, out, err = capl("export", "runs/both/best.capl", "--format=onnx", "--out=both.onnx", env=runtime("two", 0, "onnx", "runs/both/best.capl"))
    check(status == 0 and "2 golden pairs" in out and "ok" in out and not err, "it is verified", out + err)
    tensors = load_tensors("both.golden.safetensors")
    kinds = {name: (t[0], t[1]) for name, t in tensors.items()}
    check(kinds == {"1/in/image": ("U8", [2, 4, 6, 1]), "1/in/row": ("F32", [2, 2]), "1/out/numbers": ("F32", [2, 1])}, "levels and numbers", str(kinds))
    check(tensors["1/in/image"][2][:24] == bytes(int(255 * i / 23) for i in range(24)), "the levels of the image", str(tensors["1/in/image"]))


def main():
    write_recipe()
    status, out, err = capl("small.lua", "--steps=4")
    check(status == 0, "training", out + err)
    for part in (writes, is_the_model, has_pairs, compares, for_ddddocr, takes_numbers_too, refuses):
        part()


in_empty_folder(main)
