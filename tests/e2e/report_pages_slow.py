"""The report in a browser (headless Chromium), in light and dark, wide and narrow: what a reader sees and what he can do.

Without Chromium the test is skipped, except in CI. SPDX-License-Identifier: Apache-2.0
"""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import run_folder
from program import capl, check, in_empty_folder

# Before everything else of the page: what goes wrong in it.
WATCH = """<script>
var problems = [];
addEventListener("error", function (e) { problems.push(String(e.message || e.target.src)); }, true);
["error", "warn"].forEach(function (kind) { console[kind] = function (text) { problems.push(kind + ": " + text); }; });
</script>"""

# Behind everything else: contrasts of all texts, overflow, overlapping numbers, pictures, and the charts' readout.
LOOK = """<pre id="found"></pre><script>
function numbers(text) { return text.match(/[\\d.]+/g).map(Number); }
function light(c) {
  var l = c.slice(0, 3).map(function (v) { v /= 255; return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); });
  return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2];
}
function background(e) {
  for (; e; e = e.parentElement) {
    var c = numbers(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] === 1) return c;
  }
  return [255, 255, 255];
}
function contrast(a, b) {
  var x = light(a), y = light(b);
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}
var pale = [], texts = 0;
document.querySelectorAll("body *:not(script):not(#found)").forEach(function (e) {
  var own = Array.from(e.childNodes).some(function (n) { return n.nodeType === 3 && n.textContent.trim(); });
  if (!own || !e.checkVisibility || !e.checkVisibility() || e.tagName === "title") return;
  var s = getComputedStyle(e), is_svg = e instanceof SVGElement, size = parseFloat(s.fontSize), c = numbers(is_svg ? s.fill : s.color);
  var ratio = contrast(c, background(e)), least = size >= 24 || size >= 18.6 && s.fontWeight >= 700 ? 3 : 4.5;
  texts++;
  if (ratio < least) pale.push(e.tagName + " " + e.textContent.trim().slice(0, 20) + " " + ratio.toFixed(2));
});
var lines = [];
document.querySelectorAll(".plot .line").forEach(function (e) {
  var ratio = contrast(numbers(getComputedStyle(e).stroke), background(e));
  if (ratio < 3) lines.push(e.getAttribute("class") + " " + ratio.toFixed(2));
});
function meet(a, b) { return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom; }
var overlapping = [];
document.querySelectorAll(".plot").forEach(function (plot) {
  var boxes = Array.from(plot.querySelectorAll(".tx, .ty")).map(function (e) { return [e.textContent, e.getBoundingClientRect()]; });
  boxes.forEach(function (a, i) { boxes.slice(i + 1).forEach(function (b) { if (meet(a[1], b[1])) overlapping.push(a[0] + " and " + b[0]); }); });
});
var cut = Array.from(document.querySelectorAll(".tx, .ty")).filter(function (e) {
  var box = e.getBoundingClientRect();
  return box.left < 0 || box.right > innerWidth;
}).map(function (e) { return e.textContent; });
var chart = document.querySelector("figure.chart"), plot = chart.querySelector(".plot"), readout = chart.querySelector(".readout");
var before = readout.textContent, box = plot.getBoundingClientRect();
plot.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width / 4, clientY: box.top + 20}));
var hovered = readout.textContent, place = chart.querySelector("[data-k=x]").textContent;
plot.dispatchEvent(new PointerEvent("pointerleave"));
var after = readout.textContent;
chart.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));
var keyed = readout.textContent;
chart.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));
var text = "FOUND" + JSON.stringify({
  problems: problems, pale: pale, texts: texts, lines: lines, overlapping: overlapping, cut: cut, wide: document.documentElement.scrollWidth,
  width: innerWidth, dark: matchMedia("(prefers-color-scheme: dark)").matches, ground: light(numbers(getComputedStyle(document.body).backgroundColor)),
  requests: performance.getEntriesByType("resource").map(function (r) { return r.name.slice(0, 80); }),
  broken: Array.from(document.images).filter(function (i) { return !i.complete || !i.naturalWidth; }).length, images: document.images.length,
  before: before, hovered: hovered, place: place, after: after, keyed: keyed
}) + "END";
document.getElementById("found").textContent = text;
parent.postMessage(text, "*");
</script>"""

# No window is as narrow as a telephone, but a frame can be.
FRAME = """<!doctype html><pre id="found"></pre><script>
addEventListener("message", function (e) { document.getElementById("found").textContent = e.data; });
</script><iframe src="watched.html" style="width:400px;height:900px;border:0"></iframe>"""


def find_chromium():
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found:
        return found
    if os.environ.get("CI"):
        sys.exit("FAILED: chromium is not installed (scripts/packages)")
    print("SKIPPED: chromium is not installed, so nobody has looked at the report")
    sys.exit(77)


def browse(chromium, page, dark, width, *words):
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}",
             f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--window-size={width},1000", *words, "file://" + os.path.abspath(page)],
            capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    return done.stdout


def look(chromium, page, dark, width):
    text = browse(chromium, page if width > 400 else os.path.dirname(page) + "/frame.html", dark, max(width, 500), "--dump-dom")
    found = re.search(r"FOUND(.*)END</pre>", text)
    check(found, f"a browser reads {page}", text[-500:])
    return json.loads(html.unescape(found.group(1)))


def watched(folder):
    """A copy of the page with the scripts that look at it."""
    status, out, err = capl("report", folder)
    check(status == 0, "capl report " + folder, out + err)
    with open(folder + "/report.html", encoding="utf-8") as file:
        text = file.read()
    with open(folder + "/watched.html", "w", encoding="utf-8") as file:
        file.write(text.replace("<head>", "<head>" + WATCH, 1).replace("</body>", LOOK + "</body>", 1))
    with open(folder + "/frame.html", "w", encoding="utf-8") as file:
        file.write(FRAME)
    return folder + "/watched.html"


def judge(found, name, dark, width):
    check(found["dark"] == dark and (found["ground"] < 0.1) == dark, f"{name}: the page follows the scheme", str(found["ground"]))
    check(found["width"] == width and found["wide"] <= width, f"{name}: nothing is wider than the window", f"{found['wide']} {found['width']}")
    check(found["texts"] > 150 and not found["pale"], f"{name}: every text can be read (AA)", str(found["pale"]))
    check(not found["lines"], f"{name}: every line can be seen", str(found["lines"]))
    check(not found["problems"] and not found["requests"], f"{name}: no errors, no requests", f"{found['problems']} {found['requests']}")
    check(not found["overlapping"] and not found["cut"], f"{name}: the numbers of the axes stand apart", f"{found['overlapping']} {found['cut']}")
    check(found["images"] == 10 and found["broken"] == 0, f"{name}: the pictures are there", str(found["images"]))
    check(found["hovered"] != found["before"] == found["after"] != found["keyed"], f"{name}: charts read out under pointer and keys", str(found))


def pictures(chromium, page):
    for dark in (False, True):
        browse(chromium, page, dark, 1400, f"--screenshot={os.getcwd()}/shot{int(dark)}.png")
    levels = [float(capl("-e", f'print(data.png_read("shot{i}.png"):to("f32"):mean():item())')[1]) for i in (0, 1)]
    check(levels[0] > 200 and levels[1] < 70, "a light and a dark picture", str(levels))
    browse(chromium, page, True, 1400, f"--print-to-pdf={os.getcwd()}/page.pdf", "--no-pdf-header-footer")
    check(os.path.getsize("page.pdf") > 20000, "it prints")


def main():
    chromium = find_chromium()
    run_folder.write("runs/whole")
    page = watched("runs/whole")
    for dark, width in ((False, 1400), (True, 1400), (True, 400), (False, 400)):
        name = f"{'dark' if dark else 'light'}, {width} px"
        judge(look(chromium, page, dark, width), name, dark, width)
    pictures(chromium, "runs/whole/report.html")


in_empty_folder(main)
