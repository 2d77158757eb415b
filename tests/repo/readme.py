"""The READMEs keep what they promise: two screens, the same commands in both languages, every one of which runs; links exist.

With the argument run: runs the commands in the order of README.md in an empty folder that links to the tree and to this
build, training for seconds. scripts/quickstart only plans here and its training is run by hand; tests/e2e/machines runs it for real.
SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT, BUILD = os.environ["CAPL_SOURCE_DIR"], os.environ["CAPL_BUILD_DIR"]
PAGES = ["README.md", "README.zh-CN.md"]
LINES = 113  # of two screens
# Pages whose commands run too, after those of README.md; DIR is a folder of their own.
MORE = ["docs/install.md", "docs/gpu.md", "docs/data.md", "docs/captchas.md", "docs/curriculum.md"]

SMALL_CAPTCHA = " --max_time=3s --batch=16 --val=20 --test=40 --files=8"
# The first pattern that fits a command says what runs instead.
INSTEAD = [
    (r"scripts/quickstart", "scripts/quickstart --dry-run && build/capl recipes/captcha.lua" + SMALL_CAPTCHA),
    (r"scripts/test", "scripts/test -h"),
    (r"scripts/install (\w+)", r"scripts/install --plan \1"),
    (r"scripts/build", "scripts/build -h"),
    (r"scripts/gpu-check.*", "scripts/gpu-check -h"),
    (r"scripts/bundle.*", "scripts/bundle -h"),
    (r"(build/capl recipes/captcha\.lua --resume) --max_time=\w+", r"\1 --max_time=4s"),
    (r"(build/capl doctor recipes/captcha\.lua)", r"\1 --val=40 --test=40"),
    (r"(build/capl sweep .*) --max_time=\w+", r"\1 --samples=32 --batch=16 --val=20 --test=40 --files=8"),
    (r"(build/capl recipes/captcha\.lua)(?! --help)( --max_time=\w+)?", r"\1" + SMALL_CAPTCHA),
    (r"(build/capl recipes/crnn_ctc\.lua --data=.*)", r"\1 --steps=4 --batch=16"),
    (r"(build/capl generate .*) --n=\d+", r"\1 --n=120"),
]


def fail(message):
    sys.exit("FAILED: " + message)


def read(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def commands(page):
    """The indented lines that a reader would type; comments behind them are left out."""
    found = []
    for line in read(page).split("\n"):
        match = re.match(r"    ((?:\w+=\S+ )?(?:scripts/|build/|cmake |pkg-config |cc |\./).*)", line)
        if match and not re.match(r"\S+/ +\S", match.group(1)):  # a folder and what it holds
            found.append(re.sub(r" +# .*", "", match.group(1)).strip())
    return found


def anchors(path):
    """The places that a link may name, as GitHub makes them of headings."""
    with open(path, encoding="utf-8") as file:
        headings = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^```.*?^```", "", file.read()))
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", h).replace("\\", "")).lower().replace(" ", "-") for h in headings}


def links():
    docs = [os.path.relpath(os.path.join(folder, name), ROOT) for folder, _, names in os.walk(os.path.join(ROOT, "docs"))
            for name in names if name.endswith(".md")]
    known, seen = {}, 0
    for page in PAGES + docs:
        for target, place in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", re.sub(r"(?ms)^```.*?^```", "", read(page))):
            if re.match(r"https?:", target):
                continue
            path = os.path.normpath(os.path.join(ROOT, os.path.dirname(page), target)) if target else os.path.join(ROOT, page)
            if not os.path.exists(path):
                fail(f"{page}: there is no {target}")
            if place and path.endswith(".md"):
                if path not in known:
                    known[path] = anchors(path)
                if place not in known[path]:
                    fail(f"{page}: {target} has no heading {place}")
            seen += 1
    print(f"ok {seen} links of {len(docs)} pages lead somewhere")
    for page in docs:
        if read(page).count("\n") > 1200:
            fail(f"{page} is longer than 1200 lines")
    for page in PAGES + MORE:
        if page in PAGES and len(read(page).split("\n")) > LINES:
            fail(f"{page} is longer than {LINES} lines")
        for path in re.findall(r"`((?:docs|scripts|recipes|tests|bench|engine)/[\w./-]+)`", read(page)):
            if not os.path.exists(os.path.join(ROOT, path)):
                fail(f"{page}: there is no {path}")
    print("ok links")


def in_step():
    english, chinese = (commands(page) for page in PAGES)
    if english != chinese:
        differ = [pair for pair in zip(english + [""] * 9, chinese + [""] * 9) if pair[0] != pair[1]]
        fail(f"the READMEs differ in their commands, first: {differ[0]}")
    metrics = [re.findall(r"\d+(?:\.\d+)?(?= [|/])|exact=[\d.]+", read(page)) for page in PAGES]
    if metrics[0] != metrics[1]:
        fail(f"the READMEs differ in their numbers: {metrics}")
    if len(english) < 8:
        fail(f"only {len(english)} commands were found in README.md")
    print(f"ok {len(english)} commands, the same in both")


def to_run(command):
    for pattern, instead in INSTEAD:
        if re.fullmatch(pattern, command):
            return re.sub(pattern, instead, command)
    return command


def run(page):
    for command in commands(page):
        line = to_run(command).replace("DIR", os.path.abspath("prefix"))
        done = subprocess.run(["bash", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                              check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode != 0:
            fail(f"{page}: {command}\n(as: {line})\n{done.stdout}{done.stderr}")
        print(f"ok {command}")


def main():
    if sys.argv[1:] != ["run"]:
        links()
        in_step()
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in os.listdir(ROOT):
            if name not in ("build", "runs", ".git", "captchas"):
                os.symlink(os.path.join(ROOT, name), name)
        os.symlink(BUILD, "build")
        manifest = os.path.join(BUILD, "install_manifest.txt")
        kept = open(manifest, encoding="utf-8").read() if os.path.exists(manifest) else None
        for page in [PAGES[0]] + MORE:
            run(page)
        if os.path.isdir("prefix") and any(files for _, _, files in os.walk("prefix")):
            fail("uninstall leaves files")
        if kept is not None:
            with open(manifest, "w", encoding="utf-8") as file:
                file.write(kept)


main()
