"""The folder of a run written by hand, with everything that a run can leave, for the tests of what reads such folders.

SPDX-License-Identifier: Apache-2.0
"""
import json
import math
import os
import struct
import zlib

HOSTILE = "<script>alert(1)</script>\"'&\u202e\x07"


def png(width, height, level):
    """A gray picture as the bytes of a PNG file; level(x, y): of a pixel, below 256."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(level(x, y) for x in range(width)) for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def metrics(points=200, evaluations=12):
    """Lines of metrics.jsonl: points, evaluations and events in the order of their steps."""
    rows = []
    for i in range(1, points + 1):
        step = i * 20
        share = i / points
        row = {"step": step, "images": step * 64, "seconds": step * 0.05, "loss": 3.6 * math.exp(-6 * share) + 0.02, "lr": 0.01 * (1 - share),
               "images_per_s": 1280.0, "wait": 0.03}
        if i % 4 == 0:
            row["time"] = {"load": 0.1, "augment": 0.2, "forward": 1.2, "backward": 2.1, "optimizer": 0.3, "other": 0.1}
            row["monitor"] = {"power_w": 250 + 40 * math.sin(i), "power_limit_w": 400, "utilization": 0.8, "memory_used": 3.1e9,
                              "memory_total": 80e9, "temperature_c": 60, "sm_mhz": 1400, "memory_mhz": 1593, "cpu": 0.3, "rss": 1.2e9}
        rows.append(row)
        if i % (points // evaluations) == 0:
            exact = max(0.0, 1 - 1.2 * math.exp(-4 * share))
            rows.append({"step": step, "images": step * 64, "seconds": step * 0.05, "val_loss": row["loss"] * 1.2, "val_exact": exact,
                         "val_low": max(0, exact - 0.02), "val_high": min(1, exact + 0.02), "val_chars": exact ** 0.25, "val_n": 2000})
    rows.insert(40, {"step": 800, "seconds": 40.0, "event": "stage 2: normal augmentation"})
    rows.insert(90, {"step": 1700, "seconds": 85.0, "event": f"override: lr = 0.004 ({HOSTILE})"})
    return rows


def evaluation():
    labels = list("0123456789ABO") + [""]
    counts = [[90 + i if i == k else 0 for k in range(14)] for i in range(14)]
    counts[13][13] = 0
    counts[0][12], counts[12][0], counts[8][11], counts[13][3] = 41, 37, 9, 2
    worst = [{"id": i, "name": f"captchas/{i:05d}.png", "image": f"evaluation/{i}.png", "truth": "0AB1", "read": read, "edits": 2,
              "confidence": 0.93} for i, read in enumerate(["OAB1", "0A81", "", "0ABB1", HOSTILE, "<b>1"])]
    pair = {"truth": "0", "read": "O", "count": 41, "samples": [{"id": i, "image": f"evaluation/{i}.png", "place": 1} for i in range(4)]}
    return {"kind": "text", "role": "test", "main": "exact", "better": "max", "value": 0.931, "n": 2000, "exact": 0.931, "low": 0.919,
            "high": 0.941, "chars": 0.98, "confidence": 0.75, "chars_low": 0.977, "chars_high": 0.983, "positions": [0.99, 0.97, 0.98, 0.99],
            "by_position": [{"position": i + 1, "n": 2000, "right": 0.97 + i / 200, "low": 0.96, "high": 0.99} for i in range(4)],
            "by_length": [{"length": n, "n": 1000, "right": 0.95 - n / 100, "low": 0.9, "high": 0.96} for n in (4, 5)],
            "by_confidence": [{"from": i / 10, "to": i / 10 + 0.1, "n": 250, "right": 0.1 + i / 10.5, "low": i / 12, "high": 0.99} for i in range(2, 9)],
            "confusion": {"labels": labels, "counts": counts}, "worst": worst, "pairs": [pair, {"truth": HOSTILE, "read": "", "count": 2}]}


def settings():
    return {"recipe": "recipes/captcha.lua", "started": "2026-11-20T10:00:00Z", "version": "0.1.0", "command": "capl recipes/captcha.lua --lr=0.01",
            "settings": {"lr": {"value": 0.01, "origin": "flag"}, "batch": {"value": 64, "origin": "recipe"},
                         "precision": {"value": "fp32", "origin": "auto", "why": "no card " + HOSTILE}, "charset": {"value": HOSTILE, "origin": "recipe"}},
            "data": {"train": {"count": 256000, "width": 160, "height": 60, "channels": 1, "batch": 64, "hash": "0123456789abcdef"},
                     "val": {"count": 2000, "hash": "00ff00ff00ff00ff"}, "test": {"count": 2000, "hash": "11ff00ff00ff00ff"}},
            "model": {"parameters": 163428, "trainable": 163428}, "machine": {"device": "cpu", "processor": "some processor", "threads": 2}}


def result():
    metrics = {key: value for key, value in evaluation().items() if not isinstance(value, (list, dict, str))}
    return {"recipe": "captcha.lua", "ended": "steps", "steps": 4000, "images": 256000, "seconds": 200.0, "images_per_s": 1280.0, "model": "best.capl",
            "best_step": 3740, "test": metrics, "val": metrics, "device": "cpu", "seed": 42, "peak_memory_bytes": 415236096,
            "next": "capl predict runs/captcha/best.capl IMAGE.png", "stages": [{"name": "weak", "step": 0}, {"name": "normal", "step": 800}],
            "features": [{"name": "augment of the train loader", "what": "augmented samples", "count": 256000, "explicit": True},
                         {"name": "ema = 0.999", "what": "updates of the averages", "count": 4000, "explicit": True}]}


def write(folder, files=None):
    """Writes a whole run; files: {name: value} replaces files, None leaves one out."""
    os.makedirs(folder + "/evaluation", exist_ok=True)
    every = {"settings.json": settings(), "result.json": result(), "evaluation.json": evaluation(), "metrics.jsonl": metrics()}
    for name, value in {**every, **(files or {})}.items():
        if value is None:
            continue
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            if name.endswith(".jsonl"):
                file.writelines(json.dumps(row) + "\n" for row in value)
            else:
                json.dump(value, file)
    if not files:
        with open(folder + "/recipe.lua", "w", encoding="utf-8") as file:
            file.write("--- capl: 1\nprint('</pre>" + HOSTILE + "')\n" + "-- more\n" * 200)
    for i in range(6):
        with open(f"{folder}/evaluation/{i}.png", "wb") as file:
            file.write(png(160, 60, lambda x, y: (x * 5 + y * 3 + 30 * i) % 256))
