"""capl preview: sheets of training images, stage by stage, of recipes with and without a schedule.

SPDX-License-Identifier: Apache-2.0
"""
import struct

from program import capl, check, in_empty_folder, recipe

STAGED = """--- capl: 1
local p = capl.params { count = 60 }
local s = augment.schedule {
  {augment = {rotate = 3}, difficulty = {length = {2, 3}, charset = 0.2}, name = "easy"},
  {from = {epoch = 2}, augment = {rotate = 20}, ramp = {epochs = 2}},
  {from = {metric = "exact", above = 0.9}, difficulty = false},
}
data.loader{source = data.captcha{count = p.count, length = {2, 5}}, role = "train", batch = 20, augment = s}
error("the recipe goes on")
"""


def size(path):
    with open(path, "rb") as file:
        head = file.read(24)
    check(head[:8] == b"\x89PNG\r\n\x1a\n", f"{path} is a PNG file", str(head))
    return struct.unpack(">II", head[16:24])


def stages():
    status, out, err = capl("preview", "staged.lua")
    check(status == 0 and out == "preview.png: 3 stages of staged.lua\n", "a section for each stage", out + err)
    wide, high = size("preview.png")
    status, out, err = capl("preview", "staged.lua", "--epoch=3", "--out=epoch.png")
    check(status == 0 and out == "epoch.png: 1 stage of staged.lua\n", "or the one of an epoch", out + err)
    same, less = size("epoch.png")
    check(wide == same == 1080, "six columns of 160 px", f"{wide} {same}")
    check(high - less == 2 * (26 + 20 + 20 + 4 * 94 + 14), "one section less is as much less high", f"{high} {less}")
    capl("preview", "staged.lua", "--epoch=3", "--out=again.png")
    check(open("epoch.png", "rb").read() == open("again.png", "rb").read(), "the same again", "")
    capl("preview", "staged.lua", "--epoch=1", "--out=other.png")
    check(open("epoch.png", "rb").read() != open("other.png", "rb").read(), "another epoch has other images", "")


WIDE = """--- capl: 1
data.loader{source = data.captcha{count = 60, length = {2, 5}, widths = "auto"}, role = "train", batch = 20, augment = {rotate = 3}}
"""


def widths():
    with open("wide.lua", "w", encoding="utf-8") as file:
        file.write(WIDE)
    status, out, err = capl("preview", "wide.lua", "--samples=3")
    check(status == 0 and out == "preview.png: 1 stage of wide.lua\n", "images of several widths have their rows", out + err)
    high = size("preview.png")[1]
    capl("preview", "wide.lua", "--samples=2", "--out=less.png")
    check(high - size("less.png")[1] > 50, "one for each sample", f"{high} {size('less.png')}")


def recipes():
    capl("generate", "--out=images", "--n=20")
    for words in ([recipe("captcha.lua")], [recipe("captcha_cnn.lua")], [recipe("folder.lua"), "--data=images"]):
        status, out, err = capl("preview", *words, "--out=a.png", "--samples=2", "--columns=3")
        check(status == 0 and "a.png: 1 stage of" in out, words[0], out + err)
        check(size("a.png")[1] > 150, "there is something on it", str(size("a.png")))


SCENES = """--- capl: 1
local faces = data.faces{size = 64, count = 100}
local p = capl.params { what = "faces" }
local sources = {faces = faces, slider = data.slider{width = 240, height = 120}, nothing = data.captcha{count = 12, fixed = true}}
local given = {
  faces = augment.schedule{
    {augment = augment.preset("minimal", {flip_swaps = faces.swaps})},
    {from = {epoch = 50}, augment = augment.preset("strong", {flip_swaps = faces.swaps})},
  },
  slider = {rotate = 10, scale = 0.2},
}
data.loader{source = sources[p.what], role = "train", batch = 4, augment = given[p.what]}
"""


def colours(path):
    """How many bytes of a picture are not those of a gray pixel: masks, points and boxes have colours."""
    status, out, err = capl("-e", f"local t = data.png_read('{path}'):to('f32') print((t:narrow(2, 1, 1) - t:narrow(2, 3, 1)):abs():sum():item())")
    check(status == 0, "the picture can be read", err)
    return float(out)


def columns_differ(path):
    """Whether the second and the third column of 160 px hold other pictures."""
    out = capl("-e", f"local t = data.png_read('{path}'):to('f32') "
                     "t = t:narrow(3, 127, 30) print((t:narrow(4, 214, 158) - t:narrow(4, 386, 158)):abs():sum():item())")[1]
    return float(out) > 0


def scenes():
    with open("scenes.lua", "w", encoding="utf-8") as file:
        file.write(SCENES)
    for what, stages in (("faces", 2), ("slider", 1), ("nothing", 1)):
        status, out, err = capl("preview", "scenes.lua", "--what=" + what, "--out=a.png", "--samples=2", "--columns=3")
        check(status == 0 and f"a.png: {stages} stage" in out, what, out + err)
        if what == "nothing":
            check(columns_differ("a.png"), "where nothing is augmented, every column is another sample", "")
        check((colours("a.png") > 0) == (what != "nothing"), f"{what}: colours where there are some", "")


def refusals():
    status, out, err = capl("preview", "staged.lua", "--epoch=0")
    check(status == 1 and "--epoch must be a whole number from 1 to 2147483647, got 0" in err, "no epoch 0", out + err)
    with open("idle.lua", "w", encoding="utf-8") as file:
        file.write("--- capl: 1\nprint(1)\n")
    status, out, err = capl("preview", "idle.lua")
    check(status == 1 and 'idle.lua makes no loader with role = "train"' in err, "nothing to draw", out + err)
    status, out, err = capl("preview", "staged.lua", "--out=no/where.png")
    check(status == 1 and "no/where.png: cannot be written" in err, "a path that is none", out + err)


def main():
    with open("staged.lua", "w", encoding="utf-8") as file:
        file.write(STAGED)
    stages()
    widths()
    recipes()
    scenes()
    refusals()


in_empty_folder(main)
