"""report.html, `capl runs` and `capl diff`: from the files of runs alone, whole, killed, damaged or hostile.

SPDX-License-Identifier: Apache-2.0
"""
import json
import math
import os
import random
import re
import signal
import subprocess
import time
from html.parser import HTMLParser

import run_folder
from program import CAPL, capl, check, in_empty_folder

VOID = {"meta", "link", "img", "br", "input"}


class Page(HTMLParser):
    """Reads a page strictly: tags close in order, ids are unique, links lead somewhere inside."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.problems, self.ids, self.links, self.tags, self.words, self.sources = [], [], [], [], [], [], []
        self.feed(text)
        self.close()
        self.problems += [f"{tag} is never closed" for tag in self.open]
        self.problems += [f"link to {link}" for link in self.links if link[1:] not in self.ids]
        if len(set(self.ids)) != len(self.ids):
            self.problems.append("an id stands twice")

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if tag == "a" else []
        self.sources += [found[key] for key in ("src", "href", "action", "data") if key in found]
        self.problems += [f"{key} is an event handler" for key in found if key.startswith("on")]
        if tag == "img" and not found.get("alt"):
            self.problems.append("a picture without alt")
        if tag == "svg" and not found.get("aria-label"):
            self.problems.append("a drawing without words")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes something else")

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


def page_of(folder):
    status, out, err = capl("report", folder)
    check(status == 0, f"capl report {folder}", out + err)
    with open(folder + "/report.html", encoding="utf-8") as file:
        return file.read()


def whole_run():
    run_folder.write("runs/whole")
    text = page_of("runs/whole")
    page = Page(text)
    check(not page.problems, "the page is well-formed", str(page.problems))
    check(len(text) < 1e6, "and under 1 MB", str(len(text)))
    local = all(source.startswith(("#", "data:")) for source in page.sources)
    check(local and not re.search(r'https?:|url\(|@import|="//', text), "it needs nothing from anywhere", str(page.sources)[:500])
    check(page.tags.count("script") == 1 + page.tags.count("figure") - text.count('class="bars"') - text.count('class="shares"') -
          text.count("what was read as what"), "the only scripts are its own", str(page.tags.count("script")))
    words = page.text()
    for wanted in ("93.10 %", "95 %: 91.90 to 94.10", "Where the time went", "waiting for data", "256,000", "ema = 0.999", "0123456789abcdef",
                   "capl predict runs/captcha/best.capl", "stage 2: normal augmentation", "captchas/00003.png", "400 W", "3 min 20 s",
                   "80 to 90 % 86.19 %", "whole texts 97.42 % characters 99.35 % at the end (245,760 images)",
                   "confidence (test) 75.00 % mean probability that it gives to what it reads, right or wrong"):
        check(wanted in words, f"it shows {wanted}", words)
    check(".tiles + p { margin-top" in text and "images last" not in words, "what follows the tiles stands apart", words[:300])
    check("<script>alert(1)</script>" in words and "<script>alert" not in text, "what looks like HTML is text", text[:200])
    check("\u202e" not in text and "\x07" not in text, "nothing turns the text around or rings")
    check("Not in this report" not in words, "nothing is missing", words[-500:])
    check(page.tags.count("img") == 4 + 6 and 'aria-label="confusion matrix of 14 characters: 89 were read wrong' in text,
          "samples, and the matrix in words", str(page.tags.count("img")))


def missing_parts():
    run_folder.write("runs/bare", {"result.json": None, "evaluation.json": None, "metrics.jsonl": [
        {"step": 1, "loss": 3.5}, {"step": 2}, {"step": 3, "loss": None}, {"step": 4, "loss": 3.1}]})
    text = page_of("runs/bare")
    words = Page(text).text()
    check("Not in this report" in words and "Hardware: no readings of the hardware were written" in words, "what is missing is named", words)
    check("0 %" not in words and "0.00" not in words and "W" not in words.split(), "no value is made up", words)
    line = re.search(r'class="line s1" d="([^"]+)"', text).group(1)
    check(line.count("M") == 2 and line.count("h0") == 2 and "L" not in line, "a missing value is a gap in the line", line)
    check(">killed<" in text and "nothing was written at its end" in words, "it was killed", text[:3000])


def weights_without_averages():
    """A second line about an evaluation is a curve beside it, and no gap in those of training; shares that are all 0 begin at 0."""
    rows = []
    for i in range(1, 11):
        rows.append({"step": i, "images": i * 8, "loss": 1 / i, "lr": 0.01, "wait": 0})
        if i % 5 == 0:
            rows.append({"step": i, "images": i * 8, "val_loss": 2 / i, "val_exact": i / 20})
            rows.append({"step": i, "images": i * 8, "plain_val_loss": 3 / i, "plain_val_exact": i / 40})
    run_folder.write("runs/plain", {"metrics.jsonl": rows})
    text = page_of("runs/plain")
    words = Page(text).text()
    check("val, without averages 0.3" in words and "whole texts, without averages 25 %" in words, "both have curves", words)
    lines = re.findall(r'class="line s1" d="([^"]+)"', text)
    check(lines and all(line.count("M") == 1 for line in lines), "no line has a gap", str(lines))
    check("-100 %" not in words and "-50 %" not in text, "nothing is below 0 %", words)


def settings_of_the_loop():
    """What train.fit and the optimizers use stands beside the settings of the recipe; what is off by itself does not."""
    loop = {"ema": {"value": 0.9, "origin": "recipe"}, "keep": {"value": "best", "origin": "default"}, "overfit": {"value": False, "origin": "default"}}
    rates = [{"name": "AdamW", "options": {"eps": {"value": 1e-8, "origin": "default"}}}, 7]
    for name, decay in (("a", 0.9), ("b", 0.99)):
        mine = {**loop, "ema": {"value": decay, "origin": "recipe"}}
        run_folder.write("runs/loop-" + name, {"settings.json": {**run_folder.settings(), "loop": mine, "optimizers": rates}})
    words = Page(page_of("runs/loop-a")).text()
    check(re.search(r"lr 0\.01 flag .* train\.fit: ema 0\.9 recipe .* AdamW: eps 1e-08 default train\.fit: keep best default", words), "all in order", words)
    check("train.fit: overfit" not in words, "what is off and was left alone is not printed", words)
    out = capl("diff", "runs/loop-a", "runs/loop-b", "--out=none")[1]
    check(re.search(r"train\.fit: ema +0\.9 \(recipe\) +0\.99 \(recipe\)", out), "diff compares them", out)


def large_pictures():
    run_folder.write("runs/large")
    for i in range(6):
        with open(f"runs/large/evaluation/{i}.png", "ab") as file:
            file.write(bytes(150000))
    text = page_of("runs/large")
    check(len(text) < 1e6 and "8 pictures, so that this page stays small" in Page(text).text(), "no more pictures than fit into a small page", str(len(text)))


def other_tasks():
    """A run that reads no texts: metrics by class, and the deciding one first."""
    classes = [{"class": k, "name": name, "pixels": 1000 * k, "iou": 0.5 + k / 10, "f": 0.6, "recall": 0.7} for k, name in enumerate(("skin", "<hair>"))]
    found = {"kind": "segmentation", "role": "val", "main": "miou", "better": "max", "value": 0.55, "n": 40, "miou": 0.55, "accuracy": 0.9,
             "classes": classes, "confusion": {"labels": ["skin", "<hair>"], "counts": [[900, 100], [50, 1950]]},
             "worst": [{"id": 3, "name": "faces/3.png", "f": 0.123, "image": "evaluation/3.png"}]}
    rows = [{"step": i, "images": i * 8, "loss": 1 / i, "val_miou": i / 20, "val_loss": 2 / i, "val_n": 40} for i in range(1, 11)]
    run_folder.write("runs/masks", {"result.json": {"ended": "max_time", "val": {"n": 40, "miou": 0.55}}, "evaluation.json": found, "metrics.jsonl": rows})
    text = page_of("runs/masks")
    words = Page(text).text()
    check(re.search(r"Outcome mean IoU \(val\) 55.00 %", words) and "its time box is over" in words, "the deciding metric comes first", words)
    for wanted in ("<hair> 1,000 60.00 % 60.00 % 70.00 %", "confusion matrix of 2 classes: 150 were read wrong", "faces/3.png", "f 0.123", "metrics (val)"):
        check(wanted in words or wanted in text, f"it shows {wanted}", words)
    check("characters" not in words, "and nothing of characters", words)
    check(re.search(r'rotate\(-90\)" text-anchor="start">&lt;hair&gt;<', text), "long names stand upright over their columns", text)
    check("what was read. Each cell" in words and "next capl predict" not in words, "words and commands are those of the task", words)


def many_classes():
    """The matrix of 100 classes is wider than 1,000 units, which SVG writes without a comma; top-5 is a share with an interval."""
    counts = [[20 if i == k else 0 for k in range(100)] for i in range(100)]
    counts[3][7] = 2
    run_folder.write("runs/many", {"evaluation.json": {
        "kind": "classification", "role": "test", "main": "accuracy", "n": 2002, "accuracy": 0.999, "low": 0.9964, "high": 0.9997, "top5": 1,
        "top5_low": 0.9981, "top5_high": 1, "confusion": {"labels": [f"c{i}" for i in range(100)], "counts": counts}}})
    text = page_of("runs/many")
    check(re.search(r'<svg viewBox="0 0 (\d{4}) \1" style="max-width:\d+px;min-width:\d+px"', text), "the matrix has sizes",
          "".join(re.findall('<svg viewBox="[^>]*>', text)))
    words = Page(text).text()
    for wanted in ("read right (test) 99.90 % 95 %: 99.64 to 99.97", "among the first five (test) 100.00 % 95 %: 99.81 to 100.00"):
        check(wanted in words, f"it shows {wanted}", words[:1500])


def texts_of_any_length():
    """Characters left out and put in are marked where they stand, and the share of blanks is a share."""
    worst = [{"id": k, "name": f"{k}.png", "truth": truth, "read": read, "edits": 1, "confidence": 0.5}
             for k, (truth, read) in enumerate([("1c3aad", "c3aad"), ("12", "127"), ("ab", ""), ("ab", "ac")])]
    run_folder.write("runs/lengths", {"evaluation.json": {**run_folder.evaluation(), "worst": worst, "blanks": 0.8032}})
    text = page_of("runs/lengths")
    miss = '<span class="miss">{}</span>'.format
    for wanted in (miss("·") + "c3aad<", ">12" + miss("7"), ">" + miss("nothing"), ">a" + miss("c")):
        check(wanted in text, f"it marks {wanted}", text[text.find("worst samples"):][:3000])
    check("time steps read as blank (test) 80.32 %" in Page(text).text(), "blanks are a share", Page(text).text()[:1500])


def peaks_stay():
    """A curve of 5000 points is thinned, but no peak is lost."""
    rows = [{"step": i, "images": i, "loss": 100.0 if i == 3333 else 1.0} for i in range(1, 5001)]
    run_folder.write("runs/long", {"metrics.jsonl": rows})
    text = page_of("runs/long")
    data = json.loads(re.search(r'application/json">([^<]+)<', text).group(1))["series"][0]
    check(len(data["x"]) < 400 and max(data["y"]) == 100 and data["x"][data["y"].index(100)] == 3333, "the peak is there", str(len(data["x"])))


def resumed():
    """Steps that were done again: the later lines count."""
    rows = [{"step": i, "images": i, "loss": 9.0} for i in range(1, 11)] + [{"step": i, "images": i, "loss": 1.0} for i in range(6, 9)]
    run_folder.write("runs/resumed", {"result.json": None, "metrics.jsonl": rows})
    text = page_of("runs/resumed")
    data = json.loads(re.search(r'application/json">([^<]+)<', text).group(1))["series"][0]
    check(data["x"] == list(range(1, 9)) and data["y"] == [9.0] * 5 + [1.0] * 3, "the later lines count", str(data))


def mutate(rng, value):
    """A value with some part replaced by something of another kind."""
    if rng.random() < 0.15:
        return rng.choice([None, 0, -1, 1e308, -1e308, 5e-324, 2 ** 60, "", "x" * 3000, "\ud83d\ude00<", [], {}, [[]], True, [1, "a", {}]])
    if isinstance(value, dict):
        return {key: mutate(rng, part) for key, part in value.items()}
    if isinstance(value, list):
        return [mutate(rng, part) for part in value[:40]]
    return value


def damaged():
    rng = random.Random(7)
    every = {"settings.json": run_folder.settings(), "result.json": run_folder.result(), "evaluation.json": run_folder.evaluation()}
    for i in range(6):
        files = {name: mutate(rng, value) for name, value in every.items()}
        files["metrics.jsonl"] = [mutate(rng, row) for row in run_folder.metrics(40)]
        run_folder.write("runs/damaged", files)
        for name in (*every, "metrics.jsonl"):
            if rng.random() < 0.2:
                os.truncate("runs/damaged/" + name, rng.randrange(os.path.getsize("runs/damaged/" + name)))
        status, out, err = capl("report", "runs/damaged")
        check(status == 0, f"damaged files {i}", out + err)
        with open("runs/damaged/report.html", encoding="utf-8") as file:
            problems = Page(file.read()).problems
        check(not problems, f"a whole page of damaged files {i}", str(problems))
    with open("runs/damaged/metrics.jsonl", "ab") as file:
        file.write(b'\xff\xfe{"step": \n{"event": "\xc3("}\n[1]\n')
    check("could not be read" in Page(page_of("runs/damaged")).text(), "lines that could not be read are reported")
    status, _, err = capl("report", "runs")
    check(status == 1 and "runs is not the folder of a run" in err and "hint:" in err, "a folder that is no run", err)
    run_folder.write("runs/outside", {"evaluation.json": {**run_folder.evaluation(), "worst": [{"image": "../../secret.png"}, {"image": "/secret.png"}]}})
    with open("secret.png", "wb") as file:
        file.write(run_folder.png(8, 8, lambda x, y: 0))
    check(Page(page_of("runs/outside")).tags.count("img") == 4, "pictures outside of the folder are not shown")


RECIPE = """--- capl: 1
local p = capl.params {n = 5, bad = 0}
local model = nn.Linear(4, 2)
local opt = optim.SGD(model:parameters(), {lr = 0.001})
for i = 1, p.n do
  opt:backward_step(model(capl.ones(3, 4)):sum())
  if i == p.bad then error("bad <luck>") end
end
"""


def states():
    """A custom training loop: done, failed, stopped by Ctrl-C, running, killed."""
    with open("own.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE)
    status, out, err = capl("own.lua")
    check(status == 0 and "report: runs/own/report.html" in out, "a run leaves its page", out + err)
    status, out, err = capl("own.lua", "--bad=3")
    check(status == 1 and "bad <luck>" in err and "It ended with an error:" in Page(open("runs/own-2/report.html", encoding="utf-8").read()).text(),
          "a failed one, too", out + err)

    def started(folder):
        child = subprocess.Popen([CAPL, "own.lua", "--n=1000000000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 env={**os.environ, "OMP_NUM_THREADS": "1"})
        deadline = time.monotonic() + 30
        while not os.path.exists(folder + "/settings.json") and time.monotonic() < deadline:
            time.sleep(0.01)
        return child
    child = started("runs/own-3")
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=20)
    check(">stopped<" in open("runs/own-3/report.html", encoding="utf-8").read(), "one that was stopped, too")
    child = started("runs/own-4")
    check(">running<" in page_of("runs/own-4"), "a page of a run that is going on")
    with open("runs/own-4/settings.json", encoding="utf-8") as file:
        worker = json.load(file)["process"]["pid"]
    os.kill(worker, signal.SIGKILL)
    child.communicate(timeout=20)
    status, out, err = capl("runs", "--json")
    found = {run["name"]: run["state"] for run in json.loads(out)}
    expected = {"own": "finished", "own-2": "failed", "own-3": "stopped", "own-4": "killed", "whole": "finished", "bare": "killed"}
    check({name: found.get(name) for name in expected} == expected, "their states", out + err)


def lists():
    os.makedirs("runs/sweep/trial-1")
    os.rename("runs/long", "runs/sweep/trial-1/run")
    run_folder.write("runs/sweep/trial-2")
    status, out, err = capl("runs")
    check(status == 0 and re.search(r"^whole +captcha.lua +finished +2026-11-20 10:00:00 +4,000 +3 min 20 s +93.10 % exact \(test\)$", out, re.M),
          "capl runs", out + err)
    check("sweep: 1 run more; 'capl runs runs/sweep' lists them" in out, "folders of runs are reported", out)
    names = [run["name"] for run in json.loads(capl("runs", "--sort=name", "--json")[1])]
    check(names == sorted(names), "sorted by name", str(names))
    status, _, err = capl("runs", "--sort=nam")
    check(status == 1 and "did you mean name?" in err, "a key to sort by that is none", err)
    status, _, err = capl("runs", "nowhere")
    check(status == 1 and "nowhere" in err, "a folder that is none", err)
    check(capl("runs", "runs/own")[1] == "runs/own holds no runs\n" and capl("runs", "--json", "runs/own")[1] == "[]\n", "a folder without runs")


def metrics_of_all_kinds():
    """Accuracies and errors are not compared with each other: each kind has an order of its own."""
    for i, (metric, found) in enumerate([("mae", 7), ("exact", 0.9), ("mae", 0.5), ("exact", 0.95), ("mae", 3), ("exact", 0.2)]):
        run_folder.write(f"mixed/{i}", {"result.json": {"ended": "steps"}, "metrics.jsonl": [],
                                        "evaluation.json": {"main": metric, "value": found, "role": "val", "better": "min" if metric == "mae" else "max"}})
    found = [run["best"] for run in json.loads(capl("runs", "mixed", "--sort=best", "--json")[1])]
    check(found == [0.95, 0.9, 0.2, 0.5, 3, 7], "the best of each kind comes first", str(found))


def sweep_files(folder):
    """A sweep of three trials, of which one failed and one went on for a second rung."""
    plan = {"kind": "halving", "metric": "val_exact", "goal": "max", "keys": ["lr", "net"], "recipe": run_folder.HOSTILE, "trials": [[1], [2], [3]],
            "started": "2026-11-20T10:00:00Z", "jobs": 1, "threads": 2, "budget": "steps", "rungs": [{"trials": 3, "budget": 50}, {"trials": 1, "budget": 100}]}
    rows = []
    for trial, (lr, net, rung, share) in enumerate((("1e-3", "small", 1, 0.9), ("1e-2", "<large>", 2, 0.7), ("0.1", "small", 1, None)), 1):
        path = f"{folder}/trial-{trial:03}"
        run_folder.write(path)
        for step in range(1, rung + 1):
            rows.append({"trial": trial, "settings": {"lr": lr, "net": net}, "rung": step, "status": "done" if share else "failed", "value": share,
                         "low": 0.6, "high": 0.95, "seconds": 3.5, "step": 40, "steps": 50 * step, "folder": path, "peak_memory_bytes": 5e8,
                         "command": "capl r.lua --lr=" + lr, "error": None if share else "out of memory <b>"})
    return plan, rows


def write_sweep(folder, plan, rows):
    with open(folder + "/sweep.json", "w", encoding="utf-8") as file:
        json.dump(plan, file)
    with open(folder + "/results.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def sweeps():
    plan, rows = sweep_files("runs/tries")
    write_sweep("runs/tries", plan, rows)
    text = page_of("runs/tries")
    page = Page(text)
    check(not page.problems and "http" not in text, "the page of a sweep is well-formed and alone", str(page.problems))
    for wanted in ("Best: trial 2", "70.00 %", "lr=1e-2", "<large>", "capl r.lua --lr=1e-2", "out of memory <b>",
                   "val_exact over lr", "best val_exact by net", "val_exact of the best trials", "500 MB"):
        check(wanted in page.text(), f"it shows {wanted}", page.text())
    rng = random.Random(3)
    for i in range(6):
        write_sweep("runs/tries", mutate(rng, plan), [mutate(rng, row) for row in rows])
        status, out, err = capl("report", "runs/tries")
        told = status == 1 and ("damaged" in err or "holds no plan" in err)
        check(status == 0 or told, f"a damaged sweep {i}", out + err)
    with open("runs/tries/sweep.json", "w", encoding="utf-8") as file:
        file.write("{")
    status, _, err = capl("report", "runs/tries")
    check(status == 1 and "sweep.json holds no plan" in err, "a plan that cannot be read", err)


def normal_p(a, n, b, m):
    p = (a + b) / (n + m)
    z = abs(a / n - b / m) / math.sqrt(p * (1 - p) * (1 / n + 1 / m))
    return math.erfc(z / math.sqrt(2))


def exact_p(a, n, b, m):
    def ways(k):
        return math.comb(n, k) * math.comb(m, a + b - k)
    every = [ways(k) for k in range(max(0, a + b - m), min(n, a + b) + 1)]
    return sum(w for w in every if w <= ways(a)) / sum(every)


def two(a, n, b, m):
    """The result of capl diff of two runs with these metrics."""
    for name, right, count in (("a", a, n), ("b", b, m)):
        run_folder.write("pair/" + name, {"result.json": {"ended": "steps", "test": {"exact": right / count, "n": count, "low": 0.1, "high": 0.9}}})
    return json.loads(capl("diff", "pair/a", "pair/b", "--json", "--out=none")[1])["metrics"][0]


def differences():
    for counts in ((930, 1000, 955, 1000), (18600, 20000, 18611, 20000), (500, 1000, 900, 1000)):
        found = two(*counts)
        check(abs(found["p"] - normal_p(*counts)) < 1e-6 and found["significant"] == (normal_p(*counts) < 0.05), f"two proportions {counts}", str(found))
    for counts in ((9, 10, 3, 10), (199, 200, 200, 200), (0, 20, 7, 30)):
        check(abs(two(*counts)["p"] - exact_p(*counts)) < 1e-6, f"few counts are tested exactly {counts}", str(two(*counts)))
    check(two(10, 10, 20, 20)["p"] == 1, "no difference")
    other = run_folder.settings()
    other["settings"]["lr"]["value"], other["data"]["test"]["hash"] = 0.02, "22"
    run_folder.write("pair/a")
    run_folder.write("pair/b", {"settings.json": other, "metrics.jsonl": run_folder.metrics(100)})
    status, out, err = capl("diff", "pair/a", "pair/b")
    check(status == 0 and re.search(r"^  lr +0.01 \(flag\) +0.02 \(flag\)$", out, re.M) and "(3 others are equal)" in out, "settings that differ", out + err)
    check(re.search(r"^  test +DIFFERENT", out, re.M) and "different images" in out, "and data", out)
    rows = re.search(r"curves at equal images\n.*\n((?:  .*\n)+)", out).group(1).strip().split("\n")
    check(len(rows) == 10 and rows[-1].split()[0] == "122,880", "curves as far as both went", out)
    check(re.search(r"picture: pair/diff-a-b.png\n$", out) and capl("-e", 'print(data.png_read("pair/diff-a-b.png"):size(4))')[1] == "900\n", "and a picture", out)
    status, _, err = capl("diff", "pair/a")
    check(status == 1 and "two runs" in err, "capl diff wants two", err)


def main():
    for part in (whole_run, missing_parts, weights_without_averages, settings_of_the_loop, large_pictures, other_tasks, many_classes, texts_of_any_length, peaks_stay, resumed, damaged, states, lists, metrics_of_all_kinds, sweeps, differences):
        started = time.monotonic()
        part()
        print(f"{part.__name__}: {time.monotonic() - started:.2f} s")


if __name__ == "__main__":
    in_empty_folder(main)
