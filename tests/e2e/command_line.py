"""How words are read: --key value, the recipe anywhere, what is ambiguous; help, new, list, version, man.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import shutil
import subprocess

from program import CAPL, ROOT, capl, check, in_empty_folder

RECIPE = """--- capl: 1
local p = capl.params {lr = 0.1, epochs = 3, text = "x", augment = true, capture = "auto", no_bias = false, bias = true}
print(("seen lr=%s epochs=%s text=%s augment=%s capture=%s"):format(p.lr, p.epochs, p.text, tostring(p.augment), tostring(p.capture)))
if false then print(p.no_bias, p.bias) end
"""


def seen(*words):
    """What the recipe's settings are after these words, or the error."""
    status, out, err = capl(*words)
    found = re.search(r"^seen (.*)$", out, re.M)
    return found.group(1) if status == 0 and found else err


def words():
    open("t.lua", "w", encoding="utf-8").write(RECIPE)
    for line in ("t.lua --lr=0.5 --epochs=7", "t.lua --lr 0.5 --epochs 7", "run --lr 0.5 t.lua --epochs=7", "run --lr 0.5 --epochs 7 t.lua",
                 "run --epochs 7 t.lua --lr 0.5 --augment", "run t.lua --augment true --lr 0.5 --epochs 7 --", "t.lua --lr 0.5 --epochs 7 --quiet"):
        result = seen(*line.split())
        check(result == "lr=0.5 epochs=7 text=x augment=true capture=false", f"capl {line}", result)
    result = seen("t.lua", "--lr", "-0.5", "--text", "-a b", "--no-augment")
    check(result == "lr=-0.5 epochs=3 text=-a b augment=false capture=false", "values that begin with a dash; --no-flag", result)
    result = seen("t.lua", "--text=--x", "--augment=false", "--no-capture")
    check(result == "lr=0.1 epochs=3 text=--x augment=false capture=false", "values that begin with two; --flag=false", result)
    result = seen("--minutes", "5", "t.lua", "--text", "t.lua")
    check(result.startswith("lr=0.1 epochs=3 text=t.lua"), "options before the recipe take a word, too; a value may be a recipe's name", result)
    open("data", "w", encoding="utf-8").write("")
    result = seen("run", "--text", "data", "t.lua")
    check(result.startswith("lr=0.1 epochs=3 text=data"), "a file that follows a key is its value where a recipe stands elsewhere", result)


def predict_words():
    """Commands without a recipe read words by what they know: values and plain words."""
    status, _, err = capl("generate", "--out", "made", "--n", "2", "--format", "lmdb", "--seed", "5")
    check(status == 0 and os.path.exists("made/data.mdb"), "--key value of a command", err)
    status, _, err = capl("generate", "--out=y", "--", "--out=x")
    check(status == 1 and "'--out=x' is no option" in err, "words behind -- are no options", err)


def pages():
    status, overview, err = capl("help")
    check(status == 0 and overview == capl("--help")[1] == capl("-h")[1], "help, --help and -h are the same", err)
    names = re.findall(r"^  ([a-z]+) ", overview.split("\noptions")[0], re.M)
    check(len(names) >= 20 and {"check", "new", "list", "bench", "predict"} <= set(names), "it names the commands", str(names))
    markdown = open(os.path.join(ROOT, "docs/commands.md"), encoding="utf-8").read()
    for name in names:
        status, page, err = capl("help", name)
        too_wide = [line for line in page.splitlines() if len(line) > 80]
        check(status == 0 and not err and not too_wide, f"help {name} fits 80 columns", err + "\n".join(too_wide))
        check(f"\n### {name}\n" in markdown, f"docs/commands.md has {name}")
    check(capl("help", "bench")[1] == capl("bench", "--help")[1], "help COMMAND and COMMAND --help are the same")
    status, out, _ = capl("check", "there_is_none.lua", "--help")
    check(status == 0 and "capl check RECIPE" in out, "the page of a command needs no recipe", out)
    status, out, _ = capl("help", "exit")
    check(status == 0 and all(f"\n  {code} " in out for code in (0, 1, 2, 75, 124, 130)), "help exit: the exit codes", out)
    for code, wrong in ((2, ["nosuch"]), (2, ["--minutes=x", "t.lua"]), (1, ["t.lua", "--nosuch=1"]), (1, ["generate"])):
        check(capl(*wrong)[0] == code, f"capl {' '.join(wrong)} ends with {code}")


def version():
    plain = capl("--version")[1].strip()
    status, out, err = capl("--version", "--json")
    told = json.loads(out)
    check(status == 0 and plain == "capl " + told["version"], "--version --json", out + err)
    check(any(one.startswith("LuaJIT 2") for one in told["libraries"]) and told["compiler"] and told["build"], "with build and libraries", out)


def manual():
    status, roff, err = capl("man")
    lines = roff.splitlines()
    check(status == 0 and lines[1].startswith(".TH CAPL 1 "), "man begins with its title", err)
    sections = [line[4:] for line in lines if line.startswith(".SH ")]
    wanted = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXIT STATUS", "ENVIRONMENT", "FILES"]
    check(sections == wanted, "the sections of a manual page, in their order", str(sections))
    check("STATE_HOME/capl\nthe history of the prompt" in roff, "it says where the prompt keeps its history", roff[-900:])
    known = {".TH", ".SH", ".SS", ".B", ".I", ".br", ".PP", ".TP", ".RS", ".RE", ".EX", ".EE", '.\\"'}
    odd = [line for line in lines if line[:1] == "." and line.split()[0] not in known]
    check(not odd and not [line for line in lines if line.startswith("'")], "no line is taken for a request by mistake", str(odd))
    bare = re.sub(r"\\[-e&]", "", roff)
    check("\\" not in bare.replace('.\\"', "") and bare.isascii(), "its dashes and backslashes are written as roff wants them",
          str(set(re.findall(r"\\.", bare)) | {c for c in bare if not c.isascii()}))
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-b"], input=roff, capture_output=True, text=True, timeout=20, check=False)
        shown = re.sub(r".\x08|\x1b\[[0-9;]*m", "", done.stdout)
        check(done.returncode == 0 and not done.stderr and "--minutes=N" in shown, "groff has nothing to say of it", done.stderr + shown)


def new():
    status, out, err = capl("new", "first")
    check(status == 0 and "capl first.lua --max_time=1m" in out.replace(CAPL, "capl"), "new names the next command", out + err)
    status, out, err = capl("first.lua", "--dry_run")
    check(status == 0, "what new writes runs as it is", out + err)
    status, out, err = capl("first.lua", "--help")
    check("such as 90s or 2h" in out and "--preset=try" in out, "and explains its settings", out + err)
    text = open("first.lua", encoding="utf-8").read()
    status, _, err = capl("new", "first.lua", "--from=captcha")
    check(status == 1 and "is there already" in err and text == open("first.lua", encoding="utf-8").read(), "it overwrites nothing", err)
    capl("generate", "--out=my captchas", "--n=40", "--preset=gradient-curve")
    status, out, err = capl("new", "mine", "--data=my captchas")
    check(status == 0, "new --data", err)
    status, out, err = capl("mine.lua", "--dry_run")
    check(status == 0 and "my captchas" in out, "a recipe for a folder whose name has a blank runs, too", out + err)
    status, out, err = capl("new", "copy", "--from", "crnn_ctc", "--data", "my captchas")
    text = open("copy.lua", encoding="utf-8").read()
    check(status == 0 and '  data = "my captchas", --' in text and "capl copy.lua" in text, "a copy with another default and name", err)
    for wrong in (["new"], ["new", "a/b"], ["new", "check"], ["new", "a b"], ["new", "x", "--data=nope"], ["new", "x", "--from=nope"],
                  ["new", "x", "--from=captcha", "--data=my captchas"], ["new", "x", "y"]):
        status, out, err = capl(*wrong)
        check(status == 1 and err and not out and not os.path.exists("x.lua"), f"{' '.join(wrong)} is refused", err)


def shipped():
    status, out, err = capl("list")
    wide = [line for line in out.splitlines() if len(line) > 80]
    check(status == 0 and not wide and re.search(r"^captcha  +Trains on captchas", out, re.M) and "expected: " in out, "list: purpose and result",
          err + "\n".join(wide))
    recipes = json.loads(capl("list", "--json")[1])
    files = {name[:-4] for name in os.listdir(os.path.join(ROOT, "recipes")) if name.endswith(".lua")}
    check({one["name"] for one in recipes} == files and all(one["purpose"] and one["run"] for one in recipes), "list --json has all of them",
          str(recipes))
    status, out, err = capl("list", "captcha")
    check(status == 0 and "recipes/captcha.lua" in out and "0=O 99.5 to 99.7 %" in out, "list NAME: its header", out + err)
    status, out, err = capl("captcha", "--help")
    check(status == 0 and "--batch=64" in out, "a shipped recipe by its name", err)
    status, out, err = capl("recipes/captcha.lua", "--help")
    check(status == 0 and "--batch=64" in out, "and by the name it has in the tree", err)
    status, out, err = capl("sweep", "--grid", "lr=0.01,0.02", "--max_time", "5s", "captcha", "--dry")
    check(status == 0 and out.count("recipes/captcha.lua --max_time=5s --lr=0.0") == 2, "a sweep finds it among its words, too", out + err)
    open("captcha.lua", "w", encoding="utf-8").write(RECIPE)
    result = seen("captcha.lua")
    check(result.startswith("lr=0.1"), "a file of that name goes first", result)


def main():
    words()
    predict_words()
    pages()
    version()
    manual()
    new()
    shipped()


in_empty_folder(main)
