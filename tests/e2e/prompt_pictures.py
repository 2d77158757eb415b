"""show() at a prompt: what the terminal is sent, read back as pixels.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re

from program import CAPL, capl, check, in_empty_folder
from prompt_session import Prompt, plain

# 4 x 3 pixels: red, green, blue, white in the first line, their halves in the second, black in the last
COLOURS = "{{{255,0,0,255},{127,0,0,127},{0,0,0,0}},{{0,255,0,255},{0,127,0,127},{0,0,0,0}},{{0,0,255,255},{0,0,127,127},{0,0,0,0}}}"
IMAGE = "capl.tensor(" + COLOURS + ", {dtype = 'u8'})"


def blocks(text):
    """Lines of half blocks -> rows of pixels."""
    rows = []
    for line in text.replace("\r", "").split("\n"):
        upper, lower, front, back = [], [], None, None
        for code, sign in re.findall(r"\x1b\[([0-9;]*)m|([▀ ])", line):
            if sign == "▀":
                upper.append(front)
                lower.append(back)
            for ground, r, g, b in re.findall(r"([34])8;2;(\d+);(\d+);(\d+)", code):
                if ground == "3":
                    front = (int(r), int(g), int(b))
                else:
                    back = (int(r), int(g), int(b))
        if upper:
            rows += [upper, lower]
    return rows


def on_terminals():
    p = Prompt(rows=30, columns=100, COLORTERM="truecolor")
    p.ask("image = " + IMAGE)
    rows = blocks(p.raw("show(image)"))
    n = len(rows[0]) // 4
    check(rows[0][0] == (255, 0, 0) and rows[0][n] == (0, 255, 0) and rows[0][2 * n] == (0, 0, 255) and rows[0][-1] == (255, 255, 255),
          "half blocks have the image's colours", str(rows[0]))
    check(rows[-1][0] == (0, 0, 0) and len(rows[0]) * 3 == len(rows) * 4, "and its shape", str((len(rows[0]), len(rows))))
    text = p.raw("show(capl.rand(3, 1, 20, 60), {labels = {'first', 'second', 'third'}, columns = 3})")
    rows = blocks(text)
    check("first" in plain(text) and "third" in plain(text) and len(set(map(len, rows))) == 1, "a grid has its labels below", plain(text))
    p.leave()
    p = Prompt(COLORTERM=None)
    text = p.raw("show(" + IMAGE + ")")
    check("48;5;196" in text or "38;5;196" in text, "256 colours where there are no more", repr(text[:300]))
    p.leave()


def through_a_pipe():
    lines = """x = capl.zeros(1, 8, 8)
show(x)
show(capl.ones(1, 8, 8))
show(data.captcha{count = 2, width = 60, height = 20})
show(capl.zeros(5, 3, 8, 8), {scale = {0, 1}})
show(capl.zeros(40, 1, 4, 4))
"""
    env = dict(os.environ, LC_ALL="C", CAPL_COLOR="never")
    status, out, err = capl(text=lines, env=env)
    check(status == 0 and "@@@@" in out and "\x1b" not in out and out.isascii(), "pictures are letters where there is nothing else", out + err)
    check(re.search(r"^[0-9A-Z]{4} +[0-9A-Z]{4}$", out, re.M), "images of a source have their texts below", out)
    check("24 more" in out, "many images are cut", out)
    for line, told in (("show(capl.zeros(7, 5, 5, 5))", "1 or 3 channels"), ("show(3)", "cannot show a number"),
                       ("show(capl.zeros(0, 4, 4))", "is empty"), ("show(capl.zeros(2, 2, {device = 'meta'}))", "no values"),
                       ("show(capl.zeros(2, 2), {as = 'block'})", "did you mean 'blocks'"), ("show('nothing.png')", "nothing.png")):
        status, out, err = capl(text=line + "\n")
        check(status == 1 and told in err, f"{line} says what is wrong", out + err)


def main():
    check(os.path.exists(CAPL), "there is a program", CAPL)
    on_terminals()
    through_a_pipe()


in_empty_folder(main)
