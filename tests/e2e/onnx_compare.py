"""Runs in the Python that has onnx, onnxruntime and ddddocr: onnx_compare.py ops DIR | check FILE… | images FILE DIR | ddddocr DIR IMAGE…

  ops      the cases that onnx_ops.lua wrote: a line for each that differs
  check    onnx.checker
  images   the images of DIR through a file: a line of JSON with the scores of each
  ddddocr  texts of ddddocr for images

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import sys

import numpy as np

from onnx_file import load_tensors

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "U8": "u1", "I32": "<i4", "I64": "<i8", "BOOL": "?"}
# What is not the same by nature, said in docs/deploy.md or an accident of what lies beyond a type.
OTHER = ("NaN", "to bf16", "bf16 ties", "f64 is rounded", "f16 ties", "cast 176: to integers", "far away and nowhere")


def session(path):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def difference(is_now, was):
    """Relative to the size of the tensor, as tests/op/harness.lua compares."""
    if is_now.shape != was.shape or is_now.dtype != was.dtype:
        return f"{is_now.dtype} {is_now.shape}, not {was.dtype} {was.shape}"
    is_now, was = is_now.astype(float), was.astype(float)
    finite = np.isfinite(was)
    if not np.array_equal(is_now[~finite], was[~finite], equal_nan=True):
        return "other infinities"
    is_now, was = is_now[finite], was[finite]
    size = np.sqrt((was ** 2).mean()) if was.size else 0
    error = (np.abs(is_now - was) / (np.abs(was) + size + 1e-30)).max() if was.size else 0
    return "" if error <= 3e-5 else f"it differs by {error:.3g}"


def run_op(folder, number):
    tensors = {name: np.frombuffer(data, TYPES[kind]).reshape(size)
               for name, (kind, size, data) in load_tensors(f"{folder}/{number}.safetensors").items()}
    try:
        now = session(f"{folder}/{number}.onnx").run(None, {"input": tensors["0/in/input"]})[0]
    except Exception as error:  # onnxruntime has no common class for them
        return str(error)
    return difference(now, tensors["0/out/output"])


def ops(folder):
    good = set()
    for line in open(folder + "/list", encoding="utf-8"):
        number, op, name = line.rstrip("\n").split("\t", 2)
        if number == "-" or any(word in name for word in OTHER):
            continue
        why = run_op(folder, number)
        if why:
            print(f"{name}: {why}")
        else:
            good.add(op)
    print(json.dumps(sorted(good)))


def check(*paths):
    import onnx
    for path in paths:
        onnx.checker.check_model(onnx.load(path), full_check=True)
        print(path, "ok")


def pixels(path):
    from PIL import Image
    image = np.asarray(Image.open(path))
    return image.reshape(1, *image.shape[:2], -1)


def images(path, folder):
    run = session(path)
    for name in sorted(os.listdir(folder)):
        scores = run.run(None, {"image": pixels(os.path.join(folder, name))})[0]
        print(json.dumps({"name": name, "shape": scores.shape, "scores": scores.ravel().tolist()}))


def ddddocr(folder, *paths):
    import ddddocr as reader
    ocr = reader.DdddOcr(det=False, ocr=False, show_ad=False, import_onnx_path=folder + "/model.onnx", charsets_path=folder + "/charsets.json")
    for path in paths:
        with open(path, "rb") as file:
            print(json.dumps([path, ocr.classification(file.read())]))


{"ops": ops, "check": check, "images": images, "ddddocr": ddddocr}[sys.argv[1]](*sys.argv[2:])
