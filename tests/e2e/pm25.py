"""recipes/pm25_lstm.lua on drawn days and on somebody's own: the network, its pictures, the grid, a table in any order, clear refusals.

SPDX-License-Identifier: Apache-2.0
"""
import os
import random
import re

from program import capl, check, in_empty_folder, recipe

SMALL = ["--epochs=2", "--hidden=8", "--layers=1", "--dropout=0", "--permutations=1"]


def run(*words):
    status, out, err = capl(recipe("pm25_lstm.lua"), *words)
    check(status == 0, "it runs with " + " ".join(words), out + err)
    final = out.rstrip("\n").split("\n")[-1]
    check(re.match(r"final r2=-?[\d.]+ n=\d+ ", final), "its last line is the result", final)
    return out


def is_the_network():
    status, out, err = capl("check", recipe("pm25_lstm.lua"))
    check(status == 0 and "32 features, 215298 parameters" in out, "32 features and 215,298 parameters", out + err)


def drawn_days():
    out = run("--days=400", *SMALL)
    check(re.search(r"^400 days; 4\d values .*: 273 to train on, 53 to choose by, 53 to test on$", out, re.M), "the parts follow each other", out)
    check(re.search(r"^test R2: -?[\d.]+ by the network, -?[\d.]+ by ridge regression on the same windows", out, re.M), "ridge regression", out)
    listed = re.findall(r"^importance: (\w+) +RMSE ([+-][\d.]+)$", out, re.M)
    check(len(listed) == 10 and listed[0][0] == "pm25" and float(listed[0][1]) > 2 * float(listed[1][1]), "the most important features", out)
    for name in ("forecast", "scatter", "importance"):
        check(os.path.getsize(f"runs/pm25_lstm/{name}.png") > 5000, name + ".png", str(os.listdir("runs/pm25_lstm")))


def grid():
    out = run("--days=150", "--grid", "--grid_epochs=1", "--epochs=1", "--permutations=0")
    check(len(re.findall(r"^grid: hidden +\d+, layers \d: 9 points, +1 step", out, re.M)) == 9, "9 shapes of 9 points", out)
    check("grid: 81 points in " in out and len(re.findall(r"^  val loss ", out, re.M)) == 10, "the best of them", out)


def sweep():
    """The points of the grid one by one."""
    status, out, err = capl("sweep", recipe("pm25_lstm.lua"), "--grid", "lr=1e-3,3e-3", "--metric=val_rmse", "--days=250", *SMALL)
    check(status == 0 and len(re.findall(r"lr=|0\.00[13]", out)) >= 2 and "failed" not in out, "capl sweep", out + err)


def own_days():
    """The order of the lines changes nothing."""
    status, out, err = capl("generate", "--preset=pm25", "--days=400", "--out=sorted.csv")
    check(status == 0, "generate", out + err)
    with open("sorted.csv", encoding="utf-8") as file:
        head, *lines = file.read().splitlines()
    random.Random(1).shuffle(lines)
    write("mixed.csv", head, lines)
    results = [re.findall(r"^(?:test R2|importance): .*", run("--data=" + name, *SMALL), re.M) for name in ("sorted.csv", "mixed.csv")]
    check(results[0] and results[0] == results[1], "the rows are sorted by date", str(results))
    return head, sorted(lines)


def write(path, head, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([head, *lines]) + "\n")


def refused(words, *said):
    status, out, err = capl(recipe("pm25_lstm.lua"), *words, *SMALL)
    check(status == 1 and all(text in err for text in said), f"{' '.join(words)} is refused, with {said}", out + err)


def bad_days(head, lines):
    write("hole.csv", head, lines[:200] + lines[203:])
    refused(["--data=hole.csv"], "hole.csv:202: 3 days are missing between 2015-07-19 and 2015-07-23", "--gaps=fill")
    out = run("--data=hole.csv", "--gaps=fill", *SMALL)
    check(out.startswith("400 days; ") or "\n400 days; " in out, "the days are there again", out)
    write("word.csv", head, lines[:9] + [lines[9].replace(",", ",much,", 1).rsplit(",", 1)[0]] + lines[10:])
    refused(["--data=word.csv"], "word.csv:11: pm25: 'much' is no number", "leave a cell empty")
    write("named.csv", head.replace("pm25", "PM2.5", 1), lines)
    refused(["--data=named.csv"], "named.csv:1: no column is called pm25; there are: date, PM2.5", "rename yours")
    write("same.csv", "date,pm25", [line.split(",")[0] + ",12" for line in lines])
    refused(["--data=same.csv"], "same.csv: pm25 is the same on all days")
    write("short.csv", head, lines[:30])
    refused(["--data=short.csv"], "short.csv: the val part has 4 of 30 rows; a window of 7 and a target 1 later need 8")
    write("dull.csv", "date,pm25,lsm", [",".join(line.split(",")[:2]) + ",0.7" for line in lines])
    check("note: dull.csv: the same on all days, so without use: lsm" in run("--data=dull.csv", *SMALL), "a constant column", "")


def main():
    is_the_network()
    drawn_days()
    grid()
    sweep()
    bad_days(*own_days())


in_empty_folder(main)
