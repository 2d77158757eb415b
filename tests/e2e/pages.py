"""The pages of docs/ that teach: every command, line at the prompt and recipe in them runs, and gives what the page shows.

tests/e2e/pages.py --write brings the answers at the prompt up to date.
SPDX-License-Identifier: Apache-2.0
"""
import sys

from page import Page, in_tree
from program import in_empty_folder

SMALL = " --steps=10 --test=60"
# What a page says, and what runs instead, so that it takes seconds. Of these, figures are not compared.
TUTORIAL = [
    (r"scripts/quickstart$", "scripts/quickstart --dry-run"),
    (r"(build/capl recipes/captcha\.lua) --max_time=1m", r"\1 --samples=64 --batch=16 --val=20 --test=40 --files=8"),
    (r"(build/capl recipes/crnn_ctc\.lua --data=\w+)", r"\1 --steps=3 --batch=16"),
    (r"(build/capl test digits\.lua)", r"\1" + SMALL + " || true"),  # so little training does not reach the claim
    (r"(build/capl (?:doctor |preview )?digits\.lua(?! --help).*)$", r"\1" + SMALL),
    (r"(build/capl eval runs/digits.*)", r"\1"),
]


PAGES = {"tutorial.md": TUTORIAL, "prompt.md": [], "from-pytorch.md": [], "from-torch7.md": [], "sandbox.md": []}


def main():
    in_tree()
    for name in [word for word in sys.argv[1:] if word in PAGES] or PAGES:
        Page(name, PAGES[name]).run()


in_empty_folder(main)
