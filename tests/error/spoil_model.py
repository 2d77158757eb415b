"""Makes the model of tests/fault/train.lua and spoils it in one way, for the tests beside it.

usage: spoil_model.py KIND      leaves net.capl in the current folder
SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import os
import struct
import subprocess
import sys

MODEL = "net.capl"


def path(name):
    return os.path.join(MODEL, name)


def change_bytes(name, change):
    with open(path(name), "rb") as file:
        data = file.read()
    with open(path(name), "wb") as file:
        file.write(change(data))


def change_json(name, change):
    with open(path(name), encoding="utf-8") as file:
        value = json.load(file)
    change(value)
    with open(path(name), "w", encoding="utf-8") as file:
        json.dump(value, file)


def change_header(change):
    """The JSON header of the weights."""
    def rewrite(data):
        n = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + n])
        change(header)
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + n:]
    change_bytes("weights.safetensors", rewrite)


def seal():
    """meta.json states the hash of the weights as they are now."""
    with open(path("weights.safetensors"), "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    change_json("meta.json", lambda meta: meta.update(weights_sha256=found))


KINDS = {
    "weights_cut": lambda: change_bytes("weights.safetensors", lambda b: b[:-100]),
    "weights_empty": lambda: change_bytes("weights.safetensors", lambda b: b""),
    "weights_header": lambda: change_bytes("weights.safetensors", lambda b: struct.pack("<Q", 1 << 40) + b[8:]),
    "weights_shape": lambda: change_header(lambda h: h["body.4.weight"].update(shape=[20, 801])),
    "weights_huge": lambda: change_header(lambda h: h["body.4.weight"].update(shape=[1 << 31, 1 << 31, 1 << 10])),
    "weights_dtype": lambda: change_header(lambda h: h["body.4.weight"].update(dtype="F8_E4M3")),
    "weights_name": lambda: change_header(lambda h: h.update(other=h.pop("body.4.weight"))),
    "weights_lie": lambda: (change_header(lambda h: h["body.4.weight"].update(shape=[40, 400])), seal()),
    "weights_changed": lambda: change_bytes("weights.safetensors", lambda b: b[:-1] + bytes([b[-1] ^ 1])),
    "meta_hash": lambda: change_json("meta.json", lambda m: m.update(weights_sha256="abc")),
    "weights_missing": lambda: os.remove(path("weights.safetensors")),
    "weights_folder": lambda: (os.remove(path("weights.safetensors")), os.mkdir(path("weights.safetensors"))),
    "graph_cut": lambda: change_bytes("graph.json", lambda b: b[:300]),
    "graph_version": lambda: change_json("graph.json", lambda g: g.update(capl_graph=4)),
    "graph_op": lambda: change_json("graph.json", lambda g: g["nodes"][0].update(op="conv4d")),
    "graph_value": lambda: change_json("graph.json", lambda g: g["nodes"][0].update({"in": [14, 1, 2]})),
    "graph_attr": lambda: change_json("graph.json", lambda g: g["nodes"][0]["attrs"].update(stride=[0, 2])),
    "graph_size": lambda: change_json("graph.json", lambda g: g["input"].update(size=["N", 1, 20, 41])),
    "graph_missing": lambda: os.remove(path("graph.json")),
    "meta_cut": lambda: change_bytes("meta.json", lambda b: b[:100]),
    "meta_version": lambda: change_json("meta.json", lambda m: m.update(capl_model=7)),
    "meta_charset": lambda: change_json("meta.json", lambda m: m.update(charset="012345678")),
    "meta_length": lambda: change_json("meta.json", lambda m: m.update(length=3)),
    "meta_width": lambda: change_json("meta.json", lambda m: m.update(width=1e9)),
    "meta_normalize": lambda: change_json("meta.json", lambda m: m.update(normalize="standardise")),
    "meta_missing": lambda: os.remove(path("meta.json")),
    "golden_missing": lambda: os.remove(path("golden.safetensors")),
    "golden_other": lambda: change_bytes("golden.safetensors", lambda b: b[:-4] + struct.pack("<f", 99.0)),
}


def main():
    recipe = os.path.join(os.environ["CAPL_SOURCE_DIR"], "tests/fault/train.lua")
    subprocess.run([os.environ["CAPL_BIN"], recipe], check=True, capture_output=True)
    os.rename("runs/train/best.capl", MODEL)
    KINDS[sys.argv[1]]()


main()
