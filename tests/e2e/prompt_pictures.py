"""show() and plot() at a prompt: what the terminal is sent, read back as pixels.

SPDX-License-Identifier: Apache-2.0
"""
import base64
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


def sixels(text):
    """A sixel picture -> {(x, y): colour in hundredths}, width, height."""
    head = re.search(r'\x1bP0;1q"1;1;(\d+);(\d+)(.*?)\x1b\\', text, re.S)
    width, height, body = int(head[1]), int(head[2]), head[3]
    palette, pixels, x, y, colour = {}, {}, 0, 0, None
    for n, r, g, b, pick, repeat, sign, end in re.findall(r"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|(?:!(\d+))?([?-~])|([$-])", body):
        if n:
            palette[int(n)] = (int(r), int(g), int(b))
        elif pick:
            colour = int(pick)
        elif sign:
            for _ in range(int(repeat or 1)):
                for bit in range(6):
                    if (ord(sign) - 63) >> bit & 1:
                        pixels[x, y + bit] = palette[colour]
                x += 1
        elif end:
            x, y = 0, y + (6 if end == "-" else 0)
    return pixels, width, height


def kitty(text):
    """A picture of kitty's protocol -> its keys and bytes."""
    parts = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", text)
    keys = dict(part.split("=") for part in parts[0][0].split(","))
    check(all(len(data) <= 4096 for _, data in parts), "kitty's pieces are no longer than it takes", "")
    check([part[0][-3:] for part in parts] == ["m=1"] * (len(parts) - 1) + ["m=0"], "the last piece says so", "")
    return keys, base64.b64decode("".join(data for _, data in parts))


def shown(p, line, *talk):
    """What a line draws on a terminal that answers: talk = question, answer, …"""
    p.child.sendline(line)
    for question, answer in zip(talk[::2], talk[1::2]):
        p.child.expect_exact(question)
        p.child.send(answer)
    return p.wait()


ABILITIES, SIZE = "\x1b[c", "\x1b[16t"


def on_terminals():
    p = Prompt(rows=30, columns=100, COLORTERM="truecolor", KITTY_WINDOW_ID=None, TMUX=None)
    p.ask("image = " + IMAGE)
    rows = blocks(shown(p, "show(image)", ABILITIES, "\x1b[?62;22c"))  # a terminal without sixels
    n = len(rows[0]) // 4
    check(rows[0][0] == (255, 0, 0) and rows[0][n] == (0, 255, 0) and rows[0][2 * n] == (0, 0, 255) and rows[0][-1] == (255, 255, 255),
          "half blocks have the image's colours", str(rows[0]))
    check(rows[-1][0] == (0, 0, 0) and len(rows[0]) * 3 == len(rows) * 4, "and its shape", str((len(rows[0]), len(rows))))
    text = p.raw("show(capl.rand(3, 1, 20, 60), {labels = {'first', 'second', 'third'}, columns = 3})")
    rows = blocks(text)
    check("first" in plain(text) and "third" in plain(text) and len(set(map(len, rows))) == 1, "a grid has its labels below", plain(text))
    pixels, width, height = sixels(shown(p, "show(image, {as = 'sixel'})", SIZE, "\x1b[6;20;10t"))
    check(len(pixels) == width * height, "a sixel picture has all its pixels", str((len(pixels), width, height)))
    check(pixels[0, 0] == (100, 0, 0) and pixels[width - 1, 0] == (100, 100, 100) and pixels[0, height - 1] == (0, 0, 0),
          "and the image's colours", str(pixels[0, 0]))
    keys, data = kitty(p.raw("show(image, {as = 'kitty'})"))
    width, height = int(keys["s"]), int(keys["v"])
    check(keys["f"] == "24" and len(data) == width * height * 3, "a picture for kitty has all its pixels", str(keys))
    check(data[:3] == b"\xff\0\0" and data[3 * width - 3:3 * width] == b"\xff\xff\xff", "and the image's colours", str(data[:3]))
    p.leave()
    p = Prompt(COLORTERM="truecolor", KITTY_WINDOW_ID=None, TMUX=None)
    p.ask("image = " + IMAGE)
    pixels, width, height = sixels(shown(p, "show(image)", ABILITIES, "\x1b[?62;4;22c", SIZE, "\x1b[6;20;10t"))  # one that has them
    check(len(pixels) == width * height and height % 20 == 0, "sixels are used where the terminal says that it has them", str((width, height)))
    p.leave()
    p = Prompt(KITTY_WINDOW_ID="1", TMUX=None)
    check("\x1b_Ga=T" in p.raw("show(" + IMAGE + ")"), "kitty is known by its variable", "")
    p.leave()
    p = Prompt(COLORTERM=None, KITTY_WINDOW_ID=None, TMUX=None)
    text = shown(p, "show(" + IMAGE + ")")  # no answer comes
    check("48;5;196" in text or "38;5;196" in text, "256 colours where there are no more", repr(text[:300]))
    p.leave()


def through_a_pipe():
    lines = """x = capl.zeros(1, 8, 8)
show(x)
show(capl.ones(1, 8, 8))
show(data.captcha{count = 2, width = 60, height = 20})
show(capl.zeros(5, 3, 8, 8), {scale = {0, 1}})
show(capl.zeros(40, 1, 4, 4))
plot({a = {1, 2, 0/0, 4}, b = {4, 3, 2, 1}}, {title = "two of them", height = 5})
plot(capl.arange(10), {log = true, height = 4})
plot.lines ~= nil
"""
    env = dict(os.environ, LC_ALL="C", CAPL_COLOR="never")
    status, out, err = capl(text=lines, env=env)
    check(status == 0 and "@@@@" in out and "\x1b" not in out and out.isascii(), "pictures are letters where there is nothing else", out + err)
    check(re.search(r"^[0-9A-Z]{4} +[0-9A-Z]{4}$", out, re.M), "images of a source have their texts below", out)
    check("24 more" in out, "many images are cut", out)
    check("two of them" in out and "* a 4" in out and "+ b 1" in out and "1 value is missing" in out, "plots have title, names, last values", out)
    check(out.endswith("true\n"), "the plot of recipes is still there", out[-200:])
    for line, told in (("show(capl.zeros(7, 5, 5, 5))", "1 or 3 channels"), ("show(3)", "cannot show a number"),
                       ("show(capl.zeros(0, 4, 4))", "is empty"), ("show(capl.zeros(2, 2, {device = 'meta'}))", "no values"),
                       ("show(capl.zeros(2, 2), {as = 'sixels'})", "did you mean 'sixel'"), ("show('nothing.png')", "nothing.png"),
                       ("plot{}", "no value to draw"), ("plot{{}, {}}", "no value to draw"), ("plot('nowhere')", "nowhere"),
                       ("plot(print)", "cannot draw a function"), ("plot({1}, {heigth = 3})", "did you mean 'height'"),
                       ("plot({-1}, {log = true})", "above zero")):
        status, out, err = capl(text=line + "\n")
        check(status == 1 and told in err, f"{line} says what is wrong", out + err)


def of_a_run():
    os.makedirs("runs/a")
    with open("runs/a/metrics.jsonl", "w", encoding="utf-8") as file:
        for step in range(1, 20):
            file.write('{"step": %d, "loss": %f, "lr": 0.1}\n' % (step, 1 / step))
    with open("runs/a/settings.json", "w", encoding="utf-8") as file:
        file.write("{}")
    status, out, err = capl(text="plot('runs/a')\nplot('a', {'lr'})\nplot('a', {'nix'})\n")
    check("loss 0.05" in out and "lr 0.1" in out and "no metric 'nix'" in err and "loss" in err, "a run's folder is drawn", out + err)


def main():
    check(os.path.exists(CAPL), "there is a program", CAPL)
    on_terminals()
    through_a_pipe()
    of_a_run()


in_empty_folder(main)
