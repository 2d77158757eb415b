"""The pages of docs/ that teach: every command, line at the prompt and recipe in them runs, and gives what the page shows.

tests/e2e/pages.py --write brings the answers at the prompt up to date.
SPDX-License-Identifier: Apache-2.0
"""
import glob
import os
import re
import sys

from page import Page, in_tree
from program import ROOT, capl, check, in_empty_folder

SMALL = " --steps=10 --test=60"
# What a page says, and what runs instead, so that it takes seconds. Of these, numbers are not compared.
TUTORIAL = [
    (r"scripts/quickstart$", "scripts/quickstart --dry-run"),
    (r"(build/capl recipes/captcha\.lua) --max_time=1m", r"\1 --samples=64 --batch=16 --val=20 --test=40 --files=8"),
    (r"(build/capl recipes/crnn_ctc\.lua --data=\w+)", r"\1 --steps=3 --batch=16"),
    (r"(build/capl test digits\.lua)", r"\1" + SMALL + " || true"),  # so little training does not reach the claim
    (r"(build/capl (?:doctor |preview )?digits\.lua(?! --help).*)$", r"\1" + SMALL),
    (r"(build/capl eval runs/digits.*)", r"\1"),
]


PAGES = {"tutorial.md": TUTORIAL, "prompt.md": [], "from-pytorch.md": [], "from-torch7.md": [], "sandbox.md": []}


# Options that stand for others in a text, or are another program's.
NOT_OURS = {"--key", "--mca", "--host"}


def commands():
    """Every command line of every page: (page, words). Those of docs/commands.md and docs/api are made from the list itself, removed.md names what is gone, adding-a-command.md what its reader makes."""
    for path in sorted(glob.glob(os.path.join(ROOT, "docs/*.md")) + glob.glob(os.path.join(ROOT, "README*.md"))):
        if path.endswith(("commands.md", "removed.md", "adding-a-command.md")):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for line in re.findall(r"(?m)^    (?:\$ )?(?:build/)?capl +([^#\n]*)", text) + re.findall(r"`(?:build/)?capl ([^`]*)`", text):
            yield os.path.basename(path), line.split()


def known_words():
    """Each command, recipe and option that a page names is one that the program has."""
    names = {line.split()[0] for line in capl("help")[1].split("\n") if re.match(r"  [a-z]+ ", line)} | {"run"}
    helps, count = {}, 0
    for page, words in commands():
        while words and words[0].startswith("-"):
            words = words[1:]
        if not words or not re.fullmatch(r"[a-z]+|recipes/\w+\.lua", words[0]) or words[0] == "quickstart":
            continue  # an example with a file of the reader's own, or what scripts/quickstart prints
        name = words[0]
        is_recipe = name.startswith("recipes/")
        check_quietly(is_recipe or name in names or os.path.exists(f"recipes/{name}.lua"), page, f"there is no command {name}")
        recipe = next((word for word in words if re.fullmatch(r"recipes/\w+\.lua", word)), None)
        recipe = recipe or ("recipes/captcha.lua" if "RECIPE" in words else None)
        for word in (name, recipe) if recipe else (name,):
            if word not in helps:
                helps[word] = capl(*([word, "--help"] if is_recipe or word == recipe else ["help", word]))[1].replace("-", "_")
        told = "".join(helps[word] for word in (name, recipe) if word) + "__trust __allow __ranks __minutes __help __version"
        for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", " ".join(words)):
            count += 1
            check_quietly(option in NOT_OURS or option.replace("-", "_") in told, page, f"{name} has no {option}")
    check(count > 60, f"{count} options that the pages name are there")


def check_quietly(is_right, page, what):
    if not is_right:
        check(False, page, what)


def main():
    in_tree()
    if not sys.argv[1:]:
        known_words()
    for name in [word for word in sys.argv[1:] if word in PAGES] or PAGES:
        Page(name, PAGES[name]).run()


in_empty_folder(main)
