"""What capl generate writes in each format reads back to the samples of the generator's own source, to the byte.

SPDX-License-Identifier: Apache-2.0
"""
import os

from program import capl, check, in_empty_folder

# same(a, b) prints whether pixels, targets and fields are equal.
COMPARE = """
local function samples(source)
  local out = {}
  for id = 0, source:count() - 1 do
    local pixels, target, fields = source.box:read(0, id)
    local parts = {pixels = pixels and pixels:tolist(), target = target and target:tolist()}
    for name, t in pairs(fields or {}) do parts["field " .. name] = t:tolist() end
    out[id] = parts
  end
  return out
end
local function equal(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for k, x in pairs(a) do if not equal(x, b[k]) then return false end end
  for k in pairs(b) do if a[k] == nil then return false end end
  return true
end
local function same(drawn, files)
  print(drawn:count() == files:count() and equal(samples(drawn), samples(files)) and "equal" or "DIFFERENT")
end
"""


def compare(code):
    status, out, err = capl("-e", COMPARE + code)
    check(status == 0 and set(out.split()) == {"equal"}, "what was generated reads back", code + out + err)


def generate(*words):
    status, out, err = capl("generate", "--seed=3", *words)
    check(status == 0, "generate " + " ".join(words), out + err)


def captchas():
    """A charset with what file names cannot carry: a list and a database have it all the same."""
    with open("symbols.txt", "w", encoding="utf-8") as file:
        file.write("A/B_.\"éß")
    options = ("--n=6", "--preset=free", "--charset=@symbols.txt", "--length=3", "--width=48", "--height=32")
    generate("--out=list", "--format=list", *options)
    generate("--out=lmdb", "--format=lmdb", *options)
    status, _, err = capl("generate", "--out=no", *options)
    check(status == 1 and 'format = "list" writes the texts into labels.jsonl, "lmdb" into a database' in err, "names cannot", err)
    options = ("--n=6", "--preset=free", "--charset=a-d", "--length=3", "--width=48", "--height=32")
    generate("--out=names", *options)
    generate("--out=folders", "--format=folders", "--n=6", "--preset=free", "--charset=a-d", "--length=1", "--width=48", "--height=32")
    compare("""
local o = {charset = "@symbols.txt", length = 3, channels = 3}
local drawn = data.captcha{preset = "free", charset = o.charset, length = 3, width = 48, height = 32, seed = 3, count = 6, channels = 3}
same(drawn, data.list("list/labels.jsonl", o))
same(drawn, data.lmdb("lmdb", o))
""")
    compare("""
local function by_index(files)
  local order = {}
  for i = 0, files:count() - 1 do order[tonumber(files:name(i):match("(%d+)%.png$"))] = i end
  return {count = function() return files:count() end, box = {read = function(_, _, id) return files.box:read(0, order[id]) end}}
end
local function drawn(length)
  return data.captcha{preset = "free", charset = "a-d", length = length, width = 48, height = 32, seed = 3, count = 6, channels = 3}
end
same(drawn(3), by_index(data.folder("names", {charset = "a-d", length = 3, channels = 3})))
same(drawn(1), by_index(data.folder("folders", {label = "folder", charset = "a-d", length = 1, channels = 3})))
""")


def scenes():
    for name, form in (("slider", "png"), ("slider_db", "lmdb")):
        generate("--preset=slider", "--out=" + name, "--n=4", "--width=240", "--height=120", "--format=" + form)
    for name, form in (("faces", "png"), ("faces_db", "lmdb")):
        generate("--preset=faces", "--out=" + name, "--n=3", "--width=64", "--format=" + form)
    compare("""
local o = {points = "points", boxes = "boxes", numbers = {angle = "angle", facts = "facts"}, channels = 3}
for _, path in ipairs{"slider", "slider_db"} do same(data.slider{seed = 3, count = 4, width = 240, height = 120}, data.open(path, o)) end
o = {mask = {file = "_mask.png", classes = data.face_classes}, channels = 3}
for _, path in ipairs{"faces", "faces_db"} do same(data.faces{seed = 3, count = 3, size = 64}, data.open(path, o)) end
""")
    generate("--preset=slider", "--style=outline", "--out=outline", "--n=2")
    generate("--preset=faces", "--style=drawing", "--out=drawing", "--n=2", "--width=64")
    compare("""
same(data.slider{seed = 3, count = 2, style = "outline"}, data.open("outline", {points = "points", boxes = "boxes",
  numbers = {angle = "angle", facts = "facts"}, channels = 3}))
same(data.faces{seed = 3, count = 2, size = 64, style = "drawing"}, data.open("drawing", {mask = {file = "_mask.png",
  classes = data.face_classes}, channels = 3}))
""")
    status, _, err = capl("generate", "--preset=slider", "--style=drawing", "--out=no")
    check(status == 1 and "data.slider: unknown style 'drawing'" in err, "a style of faces", err)
    status, out, err = capl("data", "check", "slider_db", "--points=points", "--boxes=boxes", "--numbers=angle,facts")
    check(status == 0 and "4 images, nothing found" in out, "a database of sliders", out + err)


def series():
    generate("--preset=pm25", "--out=days.csv", "--days=120")
    compare("""
local function parts(from)
  local s = data.series(from, {target = "pm25", window = 5, split = {0.6, 0.2, 0.2}})
  return s.train, s.val, s.test
end
local drawn, files = {parts(data.pm25{seed = 3, days = 120})}, {parts("days.csv")}
for i = 1, 3 do same(drawn[i], files[i]) end
""")
    check(os.path.getsize("days.csv") > 1000, "the series is a file")


def main():
    captchas()
    scenes()
    series()


in_empty_folder(main)
