"""Writes the seeds of the fuzz targets to corpus/. Run it in this folder after adding some.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import struct
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))


def put(target, name, data):
    folder = os.path.join(HERE, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(colour, depth, channels, extra=b"", interlace=0, side=4):
    row = b"\0" + bytes(range(1, 1 + (side * channels * depth + 7) // 8))
    rows = row * side if not interlace else row[:2] * 40
    head = struct.pack(">IIBBBBB", side, side, depth, colour, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def pngs():
    palette = chunk(b"PLTE", bytes(range(48))) + chunk(b"tRNS", b"\0\x80")
    for name, data in {
        "gray8": png(0, 8, 1), "gray1": png(0, 1, 1), "gray16": png(0, 16, 1), "gray_alpha": png(4, 8, 2),
        "rgb8": png(2, 8, 3), "rgb16": png(2, 16, 3), "rgba": png(6, 8, 4), "palette": png(3, 4, 1, palette),
        "interlaced": png(0, 8, 1, interlace=1), "gray_key": png(0, 8, 1, chunk(b"tRNS", b"\0\2")),
    }.items():
        for way in (1, 3, 5):
            put("png", f"{name}_{way}", bytes([way]) + data)


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensors():
    one = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    put("safetensors", "one", safetensors({"a": one}, bytes(16)))
    put("safetensors", "conv", safetensors({"w": {"dtype": "BF16", "shape": [2, 1, 3, 3], "data_offsets": [0, 36]}}, bytes(36)))
    put("safetensors", "scalar", safetensors({"s": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}}, bytes(8)))
    put("safetensors", "two", safetensors({"__metadata__": {"k": "v"}, "a": one, "b": dict(one, data_offsets=[16, 32])}, bytes(32)))
    put("safetensors", "none", safetensors({}, b""))
    put("safetensors", "empty", safetensors({"e": {"dtype": "U8", "shape": [0, 5], "data_offsets": [0, 0]}}, b""))


def graph(nodes, output):
    text = {"capl_graph": 1, "input": {"size": ["N", 1, 2, 4], "dtype": "f32"}, "weights": ["w", "b"], "nodes": nodes, "output": output}
    return json.dumps(text)


def node(op, ins, outs, **attrs):
    return {"op": op, "in": ins, "out": outs, "attrs": attrs}


def models():
    with open(os.path.join(HERE, "tiny_model.h"), encoding="ascii") as file:
        source = file.read()
    for target, name in (("graph", "tiny_graph"), ("meta", "tiny_meta")):
        text = re.search(name + r"\[\] =\n(.*?);", source, re.S).group(1)
        put(target, "tiny", "".join(json.loads(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', text)))
    rows = {"batch": 1}
    put("graph", "pool", graph([node("max_pool2d", [0], [3], kernel=[2, 2], stride=[2, 2]), node("relu", [3], [4]),
                                node("softmax", [4], [5], dim=3)], 5))
    put("graph", "move", graph([node("permute", [0], [3], dims=[0, 2, 3, 1]), node("narrow", [3], [4], dim=2, start=1, length=2),
                                node("concat", [4, 4], [5], dim=3), node("contiguous", [5], [6]),
                                node("reshape", [6], [7], size=[rows, 8]), node("cast", [7], [8], dtype="bf16")], 8))
    put("graph", "reduce", graph([node("sum", [0], [3], dims=[2], keepdim=True), node("argmax", [3], [4], dim=3)], 4))
    put("meta", "mean_std", json.dumps({
        "capl_model": 1, "channels": 3, "charset": "ab", "height": 2, "width": 4, "length": 2, "output": "text",
        "normalize": {"mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]}, "decoding": "argmax", "resize": "bicubic"}))
    put("meta", "unit", '{"capl_model":1,"channels":1,"charset":"ab","height":2,"length":2,"normalize":"unit","output":"text","width":4}')


def texts():
    put("header", "plain", "--- capl: 1\n--- needs: ranks=gpus read=a,b minutes=30\n-- text\nprint(1)\n")
    put("header", "mark", b"\xef\xbb\xbf--- capl: 1\r\n--- needs: minutes=0.5\r\n")
    put("header", "newer", "--- capl: 2\n")
    put("labels", "digits", b"0-9\x001234")
    put("labels", "letters", b"0-9A-Z\0AB1Z")
    put("labels", "script", "a-z\0é验😀\x1b[2J".encode())
    put("csv", "header", b'\x0ba,b\n1,"2,3"\r\n-,4e1\n')
    put("csv", "tabs", b'\x06a\t"b\n')


pngs()
tensors()
models()
texts()
