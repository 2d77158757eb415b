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


def checkpoints():
    """Without the hash at their end, which the target adds."""
    one = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    digest = {"dtype": "U8", "shape": [32], "data_offsets": [16, 48]}
    notes = {"format": "capl checkpoint", "capl_checkpoint": "1", "tree": '{"step":1,"model":{"w":{"$tensor":"w"}}}'}
    put("checkpoint", "one", safetensors({"__metadata__": notes, "w": one, "sha256": digest}, bytes(16)))
    put("checkpoint", "newer", safetensors({"__metadata__": dict(notes, capl_checkpoint="2"), "w": one, "sha256": digest}, bytes(16)))
    put("checkpoint", "bare", safetensors({"__metadata__": notes, "sha256": dict(digest, data_offsets=[0, 32])}, b""))


def graph(nodes, output):
    text = {"capl_graph": 1, "input": {"size": ["N", 1, 2, 4], "dtype": "f32"}, "weights": ["w", "b"], "nodes": nodes, "output": output}
    return json.dumps(text)


def named_graph(inputs, nodes, outputs):
    ports = [{"name": name, "size": ["N", 1, 2, 4], "dtype": "f32"} for name in inputs]
    ends = [{"name": name, "value": value} for name, value in outputs.items()]
    return json.dumps({"capl_graph": 3, "inputs": ports, "weights": ["w", "b"], "nodes": nodes, "outputs": ends})


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
    put("graph", "names", named_graph(["image", "level"], [node("add", [0, 1], [4]), node("relu", [4], [5])], {"a": 5, "b": 4}))
    put("json", "object", '{"a": [1, -2.5e3, true, {}], "b": "x\\"\\n\\u00e9\\ud83d\\ude00", "c": {"d": false}}')
    put("json", "odd", '{"a": 1, "a": [01, 1e999, null, "\\u0000"]} {}')
    put("meta", "mean_std", json.dumps({
        "capl_model": 1, "channels": 3, "charset": "ab", "height": 2, "width": 4, "length": 2, "output": "text",
        "normalize": {"mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]}, "decoding": "argmax", "resize": "bicubic"}))
    put("meta", "unit", '{"capl_model":1,"channels":1,"charset":"ab","height":2,"length":2,"normalize":"unit","output":"text","width":4}')
    put("meta", "script", '{"capl_model":1,"channels":1,"charset":"中é","height":2,"length":2,"normalize":"unit","output":"text","width":4}'.encode())
    put("meta", "classes", '{"capl_model":1,"channels":1,"classes":["a","two words","猫","é"],"height":2,"normalize":"unit","output":"class","width":4}'.encode())
    image = {"capl_model": 1, "channels": 1, "height": 2, "width": 4, "normalize": "unit"}
    four = ["a", "b", "c", "d"]
    for name, keys in {
            "numbers": {"output": "numbers", "numbers": four, "mean": [1, 2, 3, 4], "std": [1, 2, 3, 0.5]},
            "points": {"output": "points", "points": ["a", "b"], "decoding": "coordinates"},
            "heatmap": {"output": "points", "points": ["a"], "decoding": "heatmap"},
            "sets": {"output": "classes", "classes": four, "threshold": 0.25},
            "mask": {"output": "mask", "classes": ["a", "b"]},
            "boxes": {"output": "boxes", "boxes": ["a"], "threshold": 0.5, "overlap": 0.4},
            "series": {"output": "series", "series": ["a", "b"], "steps": 2, "mean": [1, 2], "std": [1, 2]},
            "picture": {"output": "image", "image": 1, "mean": [0.5], "std": [0.5]},
            "named": {"outputs": [{"name": "a", "kind": "numbers", "numbers": four}, {"name": "b", "kind": "class", "classes": four}]},
    }.items():
        put("meta", name, json.dumps({**image, **keys}))
    put("meta", "inputs", json.dumps({"capl_model": 1, "output": "numbers", "numbers": four, "inputs": [
        {"name": "x", "kind": "series", "series": ["a"], "steps": 3}, {"name": "y", "kind": "image", **image}]}))
    put("labels", "ranges", "一-三а-г\0丁бe\u0301".encode())


def texts():
    put("header", "plain", "--- capl: 1\n--- needs: ranks=gpus read=a,b minutes=30\n-- text\nprint(1)\n")
    put("header", "mark", b"\xef\xbb\xbf--- capl: 1\r\n--- needs: minutes=0.5\r\n")
    put("header", "newer", "--- capl: 2\n")
    put("labels", "digits", b"0-9\x001234")
    put("labels", "letters", b"0-9A-Z\0AB1Z")
    put("labels", "script", "a-z\0é验😀\x1b[2J".encode())
    put("csv", "header", b'\x0ba,b\n1,"2,3"\r\n-,4e1\n')
    put("series", "dates", "\x20date,x,y\n2020-01-01,1,2\n2020-01-02,2,3\n2020-01-03,3,\n2020-01-04,3,4\n")
    put("series", "numbers", "\x30y,x,date\n1,2,3\n5,6,1\n5,8,2\n1,1e30,7\n")
    put("csv", "tabs", b'\x06a\t"b\n')


def segment(marker, data):
    return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data


def jpeg(frame=0xC0, width=8, height=8, components=1, extra=b"", scans=1):
    """Blocks whose every coefficient is 0: code 0 of both tables stands for that."""
    table = bytes([1] + [0] * 15 + [0])
    head = struct.pack(">BHHB", 8, height, width, components) + b"".join(bytes([c + 1, 0x11, 0]) for c in range(components))
    spectrum = b"\0\0\0" if frame == 0xC2 else b"\0\x3f\0"
    scan = segment(0xDA, bytes([components]) + b"".join(bytes([c + 1, 0]) for c in range(components)) + spectrum)
    blocks = components * ((width + 7) // 8) * ((height + 7) // 8)
    pixels = b"\0" * (blocks * (1 if frame == 0xC2 else 2) // 8) + b"\x00\x3f"
    return (b"\xff\xd8" + extra + segment(0xDB, b"\0" + b"\1" * 64) + segment(frame, head) + segment(0xC4, b"\0" + table)
            + segment(0xC4, b"\x10" + table) + (scan + pixels) * scans + b"\xff\xd9")


def images():
    exif = segment(0xE1, b"Exif\0\0MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0")
    adobe = segment(0xEE, b"Adobe\0\x64\0\0\0\0\2")
    for name, data in {
        "gray": jpeg(), "colour": jpeg(components=3), "inks": jpeg(components=4, extra=adobe), "turned": jpeg(width=24, extra=exif),
        "progressive": jpeg(frame=0xC2, components=3), "scans": jpeg(frame=0xC2, scans=3), "extended": jpeg(frame=0xC1),
        "arithmetic": jpeg(frame=0xC9), "lossless": jpeg(frame=0xC3), "large": jpeg(width=4000, height=3000), "colourless": jpeg(components=0),
    }.items():
        for way in range(3):
            put("image", f"jpeg_{name}_{way}", bytes([way]) + data)
    for way in range(3):
        put("image", f"png_{way}", bytes([way]) + png(2, 8, 3))


def lists():
    for flags in (0, 4):
        put("list", f"tsv_{flags}", bytes([1 + flags]) + b"a.png\tAB\nb/c.jpg\tC D\n")
        put("list", f"jsonl_{flags}", bytes([2 + flags]) + b'{"path": "a.png", "label": "\\u00e9"}\n{"file": "b", "text": "C"}\n')
        put("list", f"csv_{flags}", bytes([3 + flags]) + b'id,path,label\r\n1,"a,""b"".png",AB\r\n')
        put("list", f"auto_{flags}", bytes([flags]) + "\ufeffpath,label\né.png,AB\n".encode())
    put("list", "several", bytes([34]) + b'{"path": "a", "label": ["cat", "dog"]}\n{"path": "b", "label": []}\n')
    put("list", "semicolons", bytes([11]) + b"path;label\na;b\n")
    fields = b'"mask": "am.png", "p": [[1, 2], [3, 4, 0]], "x": 1, "y": 2, "r": 3, "b": null, "n": [1, 2.5]'
    put("list", "fields_jsonl", bytes([18]) + b'{"path": "a", ' + fields + b'}\n{"path": "b", ' + fields + b"}\n")


def files_beside():
    put("beside", "txt", b"\x00" + "劉A\r\n".encode())
    put("beside", "two_lines", b"\x00A\nB\n")
    put("beside", "several_lines", b"\x02cat\r\n\ndog\n")
    put("beside", "several", b'\x03{"label": ["cat", "dog"]}')
    for key, value in ("label", '"AB"'), ("class", "7"):
        put("beside", key, b"\x01" + ('{"%s": %s, "p": [1, 2], "x": 1, "y": 2, "r": 3, "b": 4, "n": 5}' % (key, value)).encode())


def names():
    """Flags, rule, charset, names, with NUL between."""
    def case(flags, rule, charset, *given):
        return bytes([flags]) + b"\0".join(text.encode() for text in (rule, charset, *given))
    put("names", "auto", case(0, "", "", "AB12_1", "CD34_2", "EF56_3"))
    put("names", "last", case(0, "", "", "img_1_k3pq", "img_2_9xwz", "img_3_m2vt"))
    put("names", "known", case(0x14, "", "0-9a-z", "001-ab12", "002-cd34"))
    put("names", "rule", case(1, "^(.-)%.", "", "AB", "CD"))
    put("names", "lower", case(0x71, "_(%w+)", "a-z", "1_AB", "2_ＣＤ"))
    put("names", "folders", case(0x82, "", "", "cat/1", "dog/2"))
    put("names", "texts", case(2, "", "", "ab/1", "é验/2"))
    put("names", "listed", case(0x8B, "", "ab\n c\n", "abca_1", "b_2"))
    put("names", "several", case(5, "^([^_]*)", "", "a|AB_1", "a_2", "_3"))
    put("names", "class", case(6, "(%d)", "", "1x", "y1"))
    put("names", "any", case(7, "", "", "DSC0001", "DSC0002"))


def frame(kind, number, image=0, label=0, data=b"", mask=0, fields=0, target=0):
    return kind + struct.pack("<IIIIII", number, image, label, mask, target, fields) + data


def streams():
    first, second = frame(b"REC1", 1, 3, 2, b"abcAB"), frame(b"REC1", 2, 1, 1, b"dC")
    numbers = b'{"p": [[1, 2], [3, 4, 0]], "x": 1, "y": null, "r": 2, "b": 3, "n": -1e3}'
    with_parts = frame(b"REC1", 1, 3, 2, b"abcABmasktarget" + numbers, 4, len(numbers), 6)
    for piece in (b"\x05", b"\x3f", b"\x9f", b"\x45"):
        at = piece.hex()
        put("lmdb_stream", f"two_{at}", piece + frame(b"CTN1", 2) + first + second + frame(b"END1", 2))
        put("lmdb_stream", f"bare_{at}", piece + frame(b"CTN1", 1) + frame(b"REC1", 1, 3, 0xFFFFFFFF, b"abc") + frame(b"END1", 1))
        put("lmdb_stream", f"parts_{at}", piece + frame(b"CTN1", 1) + with_parts + frame(b"END1", 1))
        put("lmdb_stream", f"error_{at}", piece + frame(b"CTN1", 2) + first + frame(b"ERR1", 0, 0, 5, b"wrong"))


def bodies():
    """A byte that chooses the model, the Content-Type, a line break, the body."""
    form = b'--b\r\nContent-Disposition: form-data; name="image"; filename="a\\".png"\r\nContent-Type: image/png\r\n\r\n\xff\xd8\xff1\r\n--b--\r\n'
    for model in (b"\0", b"\1", b"\2"):
        at = str(model[0])
        put("body", "form_" + at, model + b'multipart/form-data; x; boundary="b"\n' + form)
        put("body", "two_" + at, model + b"multipart/form-data; boundary=b\nx\r\n" + form[:-4].replace(b"image", b"z").replace(b"filename", b"f") + b"\r\n" + form)
        put("body", "json_" + at, model + b'application/json\n{"image": "data:image/png;base64,/9j/4A==", "level": [1, [2], 3], "a": 1, "b": [1, 2, 3, 4]}')
        put("body", "raw_" + at, model + b"\n" + png(0, 8, 1))
    put("body", "base64", b"\0\nTWFu IG9m\r\nIHRo\tZQ==")


def masks():
    """A byte that chooses mask, target or part; 4 x 2 px, levels 0 to 2."""
    rows = zlib.compress(b"\0\0\1\2\0\0\2\2\1\1")
    gray = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 2, 8, 0, 0, 0, 0)) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    palette = gray.replace(chunk(b"IHDR", gray[16:29]), chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 2, 8, 3, 0, 0, 0))
                           + chunk(b"PLTE", bytes(9)))
    for way in (0, 1, 2, 3, 4, 6, 8, 16):
        put("mask", f"gray_{way}", bytes([way]) + gray)
        put("mask", f"palette_{way}", bytes([way]) + palette)


def manifests():
    hash_of = "0" * 64
    whole = {"format": 1, "recipe": {"file": "a.lua", "bytes": 9, "sha256": hash_of}, "files": [{"file": "b/c.lua", "bytes": 0, "sha256": hash_of}],
             "needs": {"read": "a"}, "requires": {"language": 1, "version": "0.1"}, "written_by": "capl", "purpose": "none",
             "data": [{"name": "d", "path": "d", "files": 1, "bytes": 2, "sha256": hash_of}], "expected": [{"exact": 0.9, "within": "10 min"}],
             "generators": {"captcha": 1}, "result": {"recipe": {"sha256": hash_of}}}
    least = {key: whole[key] for key in ("format", "recipe", "files", "needs", "requires", "written_by", "purpose")}
    for name, value in {"whole": whole, "least": dict(least, files=[]), "newer": dict(least, format=2), "list": [1], "number": 1}.items():
        put("manifest", name, json.dumps(value))


def overrides():
    """A byte: 0 for overrides.jsonl."""
    changes = {"lr": 1e-3, "lr_scale": 0.5, "log_every": 2, "eval_every": "auto", "augment": {"rotate": 3, "noise": [0, 0.1]}, "save": True}
    put("override", "all", b"\1" + json.dumps(changes).encode())
    put("override", "stop", b'\1{"stop": true}')
    put("override", "unknown", b'\1{"leanring_rate": 1}')
    line = {"step": 3, "at": "2026-01-01", "changes": {"lr": 1e-4}, "sha256": "0" * 64}
    put("override", "lines", b"\0" + (json.dumps(line) + "\n" + json.dumps(dict(line, step=4, changes={})) + "\n").encode())


def requests():
    head = b"Host: a\r\n"
    image = png(0, 8, 1)
    for name, data in {
        "page": b"GET / HTTP/1.1\r\n" + head + b"\r\n", "health": b"GET /health HTTP/1.0\r\n\r\n",
        "two": b"GET /metrics HTTP/1.1\r\n" + head + b"\r\nHEAD / HTTP/1.1\r\n" + head + b"Connection: close\r\n\r\n",
        "raw": b"POST /predict HTTP/1.1\r\n" + head + b"Content-Type: image/png\r\nContent-Length: %d\r\n\r\n" % len(image) + image,
        "json": b"POST /predict HTTP/1.1\r\n" + head + b'Content-Type: application/json\r\nContent-Length: 17\r\n\r\n{"image": "/9j/"}',
        "chunks": b"POST / HTTP/1.1\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "large": b"POST /predict HTTP/1.1\r\n" + head + b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\nx",
    }.items():
        put("http", name, data)


pngs()
masks()
manifests()
overrides()
requests()
images()
bodies()
lists()
files_beside()
names()
streams()
tensors()
checkpoints()
models()
texts()
