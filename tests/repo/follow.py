#!/usr/bin/env python3
"""Does what a page of docs/ says, to the letter, in a copy of the tree: writes its files, changes others, runs its commands.

A fenced block is a step, and the line before it says which: "New file `PATH`:", "`PATH`, after `TEXT`:" or
"`PATH`, in place of `TEXT`:", where TEXT is in exactly one line of the file. Blocks of sh are run; each line of a block of
text behind one must be part of what they print. Other blocks are to be read.
Arguments: folder for the copy, pages... Environment: CAPL_SOURCE_DIR; with --build=FOLDER the copy's build is that one.
SPDX-License-Identifier: Apache-2.0
"""
import filecmp
import os
import re
import shutil
import subprocess
import sys

SOURCE = os.environ["CAPL_SOURCE_DIR"]
PARTS = "CMakeLists.txt engine include lua scripts recipes docs README.md README.zh-CN.md LICENSE tests .luacheckrc"


def fail(text):
    sys.exit(f"follow.py: {text}")


def make_copy(copy, build):
    shutil.rmtree(copy, ignore_errors=True)
    os.makedirs(copy)
    for part in PARTS.split():
        path = os.path.join(SOURCE, part)
        if os.path.isdir(path):
            shutil.copytree(path, os.path.join(copy, part))
        elif os.path.exists(path):
            shutil.copy2(path, os.path.join(copy, part))
    if build:
        os.symlink(build, os.path.join(copy, "build"))


def blocks(page):
    """(line before it, language, text) of each fenced block."""
    before, language, text = "", None, []
    with open(os.path.join(SOURCE, page), encoding="utf-8") as file:
        for line in file:
            fence = re.match(r"```(\w*)$", line)
            if language is not None and line.rstrip() == "```":
                yield before, language, "".join(text)
                language, before = None, ""
            elif language is not None:
                text.append(line)
            elif fence:
                language, text = fence.group(1), []
            elif line.strip():
                before = line.strip()


def edit(copy, before, text):
    new = re.search(r"New file `([^`]+)`:$", before)
    change = re.search(r"`([^`]+)`, (after|in place of) `(.+)`:$", before)
    if new:
        path = os.path.join(copy, new.group(1))
        if os.path.exists(path):
            fail(f"{new.group(1)} is there already")
        lines, at, put = [], 0, "after"
    elif change:
        path, put, anchor = os.path.join(copy, change.group(1)), change.group(2), change.group(3)
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
        found = [i for i, line in enumerate(lines) if anchor in line]
        if len(found) != 1:
            fail(f"{change.group(1)} has {len(found)} lines with {anchor!r}")
        at = found[0] + (put == "after")
    else:
        return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines[:at] + [text] + lines[at + (put == "in place of"):])
    return True


def run(copy, commands):
    env = {k: v for k, v in os.environ.items() if k not in ("CAPL_BIN", "CAPL_BUILD_DIR", "CAPL_SOURCE_DIR", "CAPL_LUA_PATH")}
    if shutil.which("ccache"):  # of a file that the tree's own build compiled it has the object, as scripts/build tells it
        env.update(CMAKE_C_COMPILER_LAUNCHER="ccache", CMAKE_CXX_COMPILER_LAUNCHER="ccache", CCACHE_BASEDIR=os.path.abspath(copy),
                   CCACHE_NOHASHDIR="1")
    done = subprocess.run(["bash", "-euc", commands], cwd=copy, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        fail(f"exit {done.returncode} of\n{commands}{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout + done.stderr


def follow(copy, page):
    said, steps = None, 0
    for before, language, text in blocks(page):
        if language == "sh":
            said = run(copy, text)
        elif language == "text" and said is not None:
            for line in text.splitlines():
                if line.strip() and line.strip() not in said:
                    fail(f"{page}: not printed: {line}\nbut\n{said[-2000:]}")
        elif not edit(copy, before, text):
            continue
        steps += 1
    if not steps:
        fail(f"{page} has no steps")


def changed(copy):
    """Files that differ from the tree's or are new, build folders apart."""
    out = []
    for folder, folders, files in os.walk(copy):
        folders[:] = [name for name in folders if name not in ("build", "runs", "__pycache__")]
        for name in files:
            path = os.path.relpath(os.path.join(folder, name), copy)
            other = os.path.join(SOURCE, path)
            if not os.path.exists(other) or not filecmp.cmp(other, os.path.join(copy, path), shallow=False):
                out.append(path)
    return sorted(out)


def main():
    options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--"))
    copy, *pages = [word for word in sys.argv[1:] if not word.startswith("--")]
    make_copy(copy, options.get("build"))
    for page in pages:
        follow(copy, page)
    files = changed(copy)
    print(f"{len(files)} files: {' '.join(files)}")
    if "files" in options and len(files) > int(options["files"]):
        fail(f"more than {options['files']} files")


main()
