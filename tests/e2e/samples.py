"""samples.png of each kind: points, masks and numbers are drawn where they belong; evaluation.json has exact values.

The models are fixed, so that everything is known: what they give, how right it is, and the colour of a pixel.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import struct
import zlib

from program import capl, check, in_empty_folder

RED, BLUE = (0xd5, 0x5e, 0x00), (0x00, 0x72, 0xb2)  # of the classes 1 and 2

HEAD = """--- capl: 1
--- needs: read=set
local function evaluate(model, source, meter)
  capl.manual_seed(1)
  local m = train.evaluate(model, data.loader{source = source, role = "val", batch = 2, workers = 0}, {meter = meter})
  train.save_evaluation(m)
end
local function fixed(inputs, values) -- a network that gives these, whatever it is given
  local layer = nn.Linear(inputs, #values)
  capl.no_grad(function()
    layer.weight:copy_(capl.zeros(#values, inputs))
    layer.bias:copy_(capl.tensor(values))
  end)
  return nn.Sequential{nn.Flatten(), layer}
end
"""


def write_png(path, rows):
    """rows of levels, gray"""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    data = b"".join(b"\0" + bytes(row) for row in rows)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0))
                   + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def predicted(left, up, corner):
    """Of Paeth's filter."""
    a, b, c = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
    return left if a <= b and a <= c else up if b <= c else corner


def unfiltered(kind, line, above):
    """One row of a PNG with three bytes per pixel."""
    if kind == 0:
        return line
    if kind == 2:
        return bytes((a + b) & 255 for a, b in zip(line, above))
    out, above = bytearray(3) + line, bytearray(3) + above
    for i in range(3, len(out)):
        left, up = out[i - 3], above[i]
        out[i] = (out[i] + (left if kind == 1 else (left + up) // 2 if kind == 3 else predicted(left, up, above[i - 3]))) & 255
    return out[3:]


def read_png(path):
    """-> rows of (r, g, b), of an RGB file"""
    with open(path, "rb") as file:
        raw = file.read()
    width, height = struct.unpack(">II", raw[16:24])
    at, data = 8, b""
    while at < len(raw):
        size, kind = struct.unpack(">I4s", raw[at:at + 8])
        data += raw[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    data, rows, above = zlib.decompress(data), [], bytearray(3 * width)
    for y in range(height):
        line = data[y * (3 * width + 1):(y + 1) * (3 * width + 1)]
        above = unfiltered(line[0], line[1:], above)
        rows.append([tuple(above[i:i + 3]) for i in range(0, 3 * width, 3)])
    return rows


def find(rows, colour):
    """-> places (x, y) of a colour"""
    return [(x, y) for y, row in enumerate(rows) for x, rgb in enumerate(row) if rgb == colour]


def run(name, text):
    """-> the folder of the run, its evaluation.json"""
    with open(name + ".lua", "w", encoding="utf-8") as file:
        file.write(HEAD + text)
    status, out, err = capl(name + ".lua")
    check(status == 0, name, out + err)
    folder = max(glob.glob("runs/*"), key=os.path.getmtime)
    with open(folder + "/evaluation.json", encoding="utf-8") as file:
        return folder, json.load(file)


def page(folder):
    with open(folder + "/result.json", "w", encoding="utf-8") as file:
        file.write("{}")  # makes it the folder of a run
    status, out, err = capl("report", folder)
    check(status == 0, "report of " + folder, out + err)
    with open(folder + "/report.html", encoding="utf-8") as file:
        return file.read()


def near(a, b):
    return abs(a - b) < 1e-4


def fresh():
    for path in glob.glob("set/*"):
        os.remove(path)
    os.makedirs("set", exist_ok=True)


def points(width, height, rows, output):
    """Two images with two points each, x y visible; the model gives the same for all."""
    fresh()
    for name in ("a", "b"):
        write_png(f"set/{name}.png", [[200] * width] * height)
    with open("set/list.csv", "w", encoding="utf-8") as file:
        file.write("path,x1,y1,v1,x2,y2,v2\na.png," + rows[0] + "\nb.png," + rows[1] + "\n")
    return run("points", f"""
local source = data.list("set/list.csv", {{points = {{"x1 y1 v1", "x2 y2 v2"}}, channels = 1}})
local model = fixed({width * height}, {{{output}}})
capl.model(model, {{output = "points", names = {{"nose", "chin"}}}})
evaluate(model, source, "localization")
""")


def points_are_drawn():
    folder, e = points(40, 30, ["8,13,1,30,20,1", "0,0,0,27,24,1"], "8, 10, 30, 20")
    rows = [(r["name"], r["n"], r["mae"], r["hit_2"], r["hit_5"]) for r in e["by_point"]]
    check(rows == [("nose", 1, 3, 0, 1), ("chin", 2, 2.5, 0.5, 1)], "metrics of each point", str(rows))
    check(near(e["mae"], 8 / 3) and e["nose_mae"] == 3 and e["worst"][0]["distance"] == 5, "metrics of all", str(e))
    html = page(folder)
    check("By point" in html and "within 5 px" in html and html.count("data:image/png") == 2, "points in the report")
    size = struct.unpack(">II", open(folder + "/" + e["worst"][0]["overlay"], "rb").read()[16:24])
    check(size == (120, 90), "a small picture of three times the size", str(size))
    rows = read_png(folder + "/samples.png")
    gray = (200, 200, 200)
    x0, y0 = next((x, y) for y, row in enumerate(rows) for x in range(len(row) - 50) if row[x:x + 50] == [gray] * 50)
    # that is where the worst image begins, six times as large
    check(rows[y0 + 24 * 6][x0 + 27 * 6] == BLUE, "a full dot where the point should be")
    at = rows[y0 + 20 * 6][x0 + 30 * 6 - 1:x0 + 30 * 6 + 8]
    check(min(at[2]) > 200 and at[3][2] > at[3][0] + 60 and at[8] == gray, "a ring where it was read", str(at))
    check(not any(x0 < x < x0 + 240 and y0 < y < y0 + 180 for x, y in find(rows, RED)), "a point that there is not has no mark")
    folder, _ = points(1, 1, ["0,0,1,0.5,0.5,1"] * 2, "0, 0, 3, 3")
    check(len(read_png(folder + "/samples.png")) > 100, "images of 1 x 1")


def masks_are_drawn():
    """Class 1 is the left half; the model takes what is bright for it: the left half of the first image, the upper half of the second."""
    fresh()
    left = [[255] * 4 + [0] * 4] * 8
    upper = [[255] * 8] * 4 + [[0] * 8] * 4
    for name, image in {"a": left, "b": upper}.items():
        write_png(f"set/{name}.png", image)
        write_png(f"set/{name}_mask.png", [[1] * 4 + [0] * 4] * 8)
    folder, e = run("masks", """
local source = data.folder("set", {mask = {file = "_mask.png", classes = {"ground", "gap"}}, channels = 1})
local model = nn.Sequential{nn.Conv2d(1, 2, 1)}
capl.no_grad(function()
  model[1].weight:copy_(capl.tensor{-1, 1}:reshape(2, 1, 1, 1))
  model[1].bias:copy_(capl.tensor{0.5, -0.5})
end)
evaluate(model, source, "segmentation")
""")
    gap = next(c for c in e["classes"] if c["name"] == "gap")
    check(gap["iou"] == 0.6 and gap["f"] == 0.75 and gap["recall"] == 0.75 and gap["pixels"] == 64, "metrics of a class", str(gap))
    check(e["confusion"]["counts"] == [[48, 16], [16, 48]], "the confusion matrix", str(e["confusion"]))
    rows = read_png(folder + "/samples.png")
    tints = [tuple(round(level * 0.55 + c * 0.45) for c in RED) for level in (255, 0)]
    counts = [sum(sum(abs(a - b) <= 1 for a, b in zip(rgb, tint)) == 3 for row in rows for rgb in row) for tint in tints]
    # 23 times as large: the left half of two images and what was read, but for a quarter on black
    check(counts == [7 * 16 * 23 ** 2, 16 * 23 ** 2], "tinted pixels", str(counts))
    check(len(find(rows, RED)) == 9 * 9, "the legend names the class", str(len(find(rows, RED))))


def numbers_are_drawn():
    folder, e = run("numbers", """
local x, y = {}, {}
for i = 1, 50 do x[i], y[i] = {i}, {2 * i, 7} end
local source = data.tensors{input = capl.tensor(x), value = capl.tensor(y)}
local model = nn.Sequential{nn.Linear(1, 2)}
capl.no_grad(function()
  model[1].weight:copy_(capl.tensor{{2}, {0}})
  model[1].bias:copy_(capl.tensor{0, 8})
end)
evaluate(model, source, function(val) return train.RegressionMeter{names = {"double", "seven"}, loader = val} end)
""")
    rows = [(r["name"], r["rmse"], r.get("r2")) for r in e["by_number"]]
    check(rows == [("double", 0, 1), ("seven", 1, None)], "metrics of each number", str(rows))
    check(e["seven_mae"] == 1 and near(e["rmse"], 0.5 ** 0.5) and e["worst"][0]["number"] == "seven", "metrics of all", str(e)[:300])
    html = page(folder)
    check("By number" in html and "data:image/png" in html, "numbers in the report")
    rows = read_png(folder + "/samples.png")
    check(len(rows) == 960 and len(rows[0]) == 480 + 760, "a scatter and a curve of each", f"{len(rows[0])} x {len(rows)}")
    dots = [p for p in find(rows, BLUE) if p[0] < 480 and 80 < p[1] < 440]
    rising = [y for _, y in sorted(dots)]
    check(len(dots) > 100 and rising[0] > rising[-1] + 300, "the dots of a perfect reading rise", str(len(dots)))


def main():
    points_are_drawn()
    masks_are_drawn()
    numbers_are_drawn()


in_empty_folder(main)
