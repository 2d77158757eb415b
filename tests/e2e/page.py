"""Pages of docs/ whose blocks are run as a reader would: commands, lines at the prompt, recipes; and what they show is compared.

In ```console blocks, a line behind "$ " is a command and one behind "capl> " (or "    > ", which goes on) a line at the prompt; the
lines below are what comes out. "…" stands for any text, alone on a line for any lines. Blocks of ```lua that begin with a header
are recipes: their name stands in the words before, and further ```lua blocks up to the next command go on with it. Behind
<!-- not run: WHY --> a block is only read; behind <!-- numbers vary --> numbers may differ. With --write the page gets what
really comes out at the prompt.
SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import subprocess
import sys

from program import CAPL, ROOT, check

MARK = "-- 8< --"
NUMBER = r"-?(?:\d[\d.,:]*(?:e-?\d+)?|nan|inf)"


class Block:
    def __init__(self, kind, lines, before, at):
        self.kind, self.lines, self.at = kind, lines, at
        why = re.search(r"<!-- not run: (.*?) -->\s*$", before)
        self.why = why and why.group(1)
        self.vary = before.rstrip().endswith("<!-- numbers vary -->")
        name = re.findall(r"`([\w/]+\.lua)`", before)
        self.file = name[-1] if name else None


def blocks(text):
    found, before, lines, kind = [], "", None, None
    for number, line in enumerate(text.split("\n"), 1):
        if lines is None and (start := re.match(r"```(\w+)", line)):
            lines, kind, at = [], start.group(1), number
        elif lines is not None and line == "```":
            found.append(Block(kind, lines, before, at))
            before, lines = "", None
        elif lines is not None:
            lines.append(line)
        else:
            before += line + "\n"
    return found


def steps(block):
    """What is typed and what comes: list of [sign, input, output lines]."""
    found = []
    for line in block.lines:
        if line.startswith("$ ") or line.startswith("capl> "):
            sign, rest = line.split(" ", 1)
            found.append([sign, rest, []])
        elif found and found[-1][0] == "capl>" and line.startswith("    > "):
            found[-1][1] += "\n" + line[6:]
        elif found:
            found[-1][2].append(line)
    return found


def pattern(line, vary):
    parts = re.split(r"(…|" + NUMBER + ")" if vary else "(…)", re.sub(r" +", " ", line.strip()))
    return "".join(".*" if p == "…" else NUMBER if vary and re.fullmatch(NUMBER, p) else re.escape(p) for p in parts)


def fits(shown, given, vary):
    """Whether the shown lines are what was given; a line of "…" stands for any. -> the line that is not there, or None"""
    at, skip = 0, False
    given = [re.sub(r" +", " ", line.strip()) for line in given if line.strip()]
    for line in shown:
        if not line.strip():
            continue
        if line.strip() == "…":
            skip = True
            continue
        found = next((i for i in range(at, len(given)) if re.fullmatch(pattern(line, vary), given[i])), None)
        if found is None or (found > at and not skip):
            return line
        at, skip = found + 1, False
    return None if skip or at == len(given) else "(no more)"


def quoted(code):
    return '"' + code.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class Page:
    def __init__(self, name, instead=()):
        self.path, self.instead = os.path.join(ROOT, "docs", name), instead
        with open(self.path, encoding="utf-8") as file:
            self.text = file.read()
        self.blocks, self.name = blocks(self.text), name
        self.fresh, self.failures = {}, 0

    def judge(self, is_right, what, seen):
        print("ok" if is_right else "FAILED:", what if is_right else f"{what}\n{seen}")
        self.failures += not is_right

    def shortened(self, command):
        for wanted, other in self.instead:
            if re.search(wanted, command):
                return re.sub(wanted, other, command), True
        return command, False

    def command(self, block, command, shown):
        run, is_other = self.shortened(command)
        done = subprocess.run(["bash", "-c", "set -o pipefail; " + run], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120, env={**os.environ, "COLUMNS": "80"}, check=False)
        given = done.stdout.split("\n")
        wrong = fits(shown, given, block.vary or is_other) if shown else None
        any_text = all(line.strip() in ("", "…") for line in shown)
        bad = wrong is not None or any_text and done.returncode != 0
        self.judge(not bad, f"{self.name}:{block.at}: $ {command}", f"not there: {wrong}\n{done.stdout[:1500]}")

    def session(self, asked):
        """All lines at the prompt of the page, in one session."""
        text = "".join(f"{line}\nprint('{MARK}')\n" for _, line, _ in (step for _, step in asked))
        done = subprocess.run([CAPL], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                              env={**os.environ, "COLUMNS": "100", "LC_ALL": "C.UTF-8"}, check=False)
        plain = re.sub(r"(?m)^(?:stdin|prompt):\d+: ", "", done.stdout)  # where in the input a line stands
        given = [part.strip("\n").split("\n") for part in plain.split(MARK + "\n")]
        check(len(given) == len(asked) + 1, f"{self.name}: every line at the prompt is answered", done.stdout[-800:])
        for (block, step), answer in zip(asked, given):
            self.fresh.setdefault(block.at, []).append((step[1], answer))
            wrong = fits(step[2], answer, block.vary)
            if "--write" not in sys.argv:
                self.judge(wrong is None, f"{self.name}:{block.at}: capl> {step[1]}", f"not there: {wrong}\n" + "\n".join(answer))

    def cells(self):
        """The right-hand sides of the tables that begin with code: they are run behind the lines at the prompt."""
        rows = re.findall(r"(?m)^\| .+ \| (`(?:[a-z(]|#)[^`]*`(?:, `[^`]*`)*)[^|]*\|$", self.text)
        return [code.replace("\\|", "|") for row in rows for code in re.findall(r"`([^`]*)`", row)]

    def table(self, codes, before):
        """before: what the page says at the prompt."""
        text = before + "".join(
            f"do local f, e = loadstring({quoted(f'return {c}')}); if not f then f, e = loadstring({quoted(c)}) end; local ok, v = pcall(f or "
            f"error, e); print(ok and 'fine' or 'FAILED ' .. {quoted(c)} .. ' ' .. tostring(v)) end\n" for c in codes)
        done = subprocess.run([CAPL], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        self.judge(done.stdout.count("fine\n") >= len(codes) and "FAILED" not in done.stdout,
                   f"{self.name}: {len(codes)} right-hand sides run", done.stdout[-3000:])

    def run(self):
        asked, recipe = [], None
        for block in self.blocks:
            if block.why:
                print(f"not run: {self.name}:{block.at}: {block.why}")
            elif block.kind == "lua" and block.lines[0].startswith("--- capl:"):
                recipe = open(block.file, "w", encoding="utf-8")
                recipe.write("\n".join(block.lines) + "\n")
            elif block.kind == "lua" and recipe:
                recipe.write("\n" + "\n".join(block.lines) + "\n")
            elif block.kind == "console":
                if recipe:
                    recipe = recipe.close()
                for step in steps(block):
                    if step[0] == "$":
                        self.command(block, step[1], step[2])
                    else:
                        asked.append((block, step))
        if recipe:
            recipe.close()
        if asked:
            self.session(asked)
        if codes := self.cells() if self.name.startswith("from-") else None:
            self.table(codes, "".join(step[1] + "\n" for _, step in asked))
        if "--write" in sys.argv:
            self.write()
        check(self.failures == 0, f"{self.name}: all of it runs as it says", f"{self.failures} do not")

    def write(self):
        """The page with the answers of the prompt as they are."""
        lines, out, at = self.text.split("\n"), [], 0
        while at < len(lines):
            out.append(lines[at])
            answers = self.fresh.get(at + 1)
            at += 1
            if not answers or any("…" in line for line in lines[at:lines.index("```", at)]):
                continue
            for typed, answer in answers:
                first, *rest = typed.split("\n")
                out += ["capl> " + first] + ["    > " + line for line in rest] + [line.rstrip() for line in answer if line]
            at = lines.index("```", at)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("\n".join(out))


def in_tree():
    """The working folder gets what a reader has below the checkout."""
    for name in ("recipes", "docs", "scripts", "lua"):
        os.symlink(os.path.join(ROOT, name), name)
    os.makedirs("build")
    os.symlink(CAPL, "build/capl")
