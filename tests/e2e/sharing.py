"""Recipes as documents: what is known of one without running it, its manifest and every way in which files may differ from that,
and the proof of what it claims.

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import os
import shutil

from program import CAPL, capl, check, in_empty_folder

RECIPE = """--- capl: 1
--- needs: minutes=5
-- Learns two letters.
--
-- run       capl small.lua
local p = capl.params {
  steps = 20, -- training steps
  data = "cap", -- of the second loader
  seed = 7,
}
capl.manual_seed(p.seed)
local size = require "parts.size" -- what the network is made of
capl.expect {exact = 0.01, steps = 20, within = "5 min", on = "cpu"}
capl.expect {exact = 0.99999, given = {steps = 5}}
local function loader(role, count)
  return data.loader {
    source = data.captcha {charset = "01", length = 1, width = 48, height = 24, count = count, fixed = role ~= "train", seed = p.seed},
    role = role, batch = 10, workers = 1,
  }
end
data.open(p.data)
local images = loader("train")
local model = nn.Sequential {nn.AvgPool2d(6), nn.Flatten(), nn.Linear(32, size.classes)}
capl.model(model, {output = "text", charset = images.charset, length = 1})
train.fit {
  model = model, train = images, val = loader("val", 30), test = loader("test", 500),
  loss = function(output, batch) return nn.cross_entropy(output:view(-1, 2), batch.target:view(-1)) end,
  optimizer = optim.AdamW(model:parameters(), {lr = 0.01}), steps = p.steps,
}
"""


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def says(words, status, *parts):
    """Runs capl and checks its exit status and that all parts are in what it says."""
    code, out, err = capl(*words)
    for part in parts:
        check(part in out + err and code == status, f"{' '.join(words)[:90]}: {part[:80]}", f"{code}: {out}{err}")
    return out


def info():
    write("trap.lua", "--- capl: 1\n-- A trap\n-- of two lines.\n--\n-- more\nprint('RAN')\nwhile true do end\ncapl.expect{exact = 0.9}\n")
    out = says(["recipe", "info", "trap.lua"], 0, "A trap of two lines.", "exact at least 90 %", "nothing of it was run",
               "capl run trap.lua#sha256=" + sha256("trap.lua"))
    check("RAN" not in out, "info runs nothing", out)
    told = json.loads(capl("recipe", "info", "small.lua", "--json")[1])
    check(told["expected"] == [{"exact": 0.01, "on": "cpu", "steps": 20, "within": "5 min"}, {"exact": 0.99999, "given": {"steps": 5}}],
          "info --json has the claims as they are written", told)
    check([m["file"] for m in told["modules"]] == ["parts/size.lua"] and told["needs"] == {"minutes": "5"}, "and modules and needs", told)
    says(["recipe", "info", "trap.lua#sha256=" + "0" * 64], 1, "is not the recipe that was asked for")
    says(["recipe", "inof", "trap.lua"], 1, "did you mean info?")
    says(["recipe", "info"], 1, "needs a recipe")


def pinned():
    word = "small.lua#sha256=" + sha256("small.lua")
    says([word, "--steps=1"], 1, "parts/size.lua is not named by its own in it", "-- sha256 " + sha256("parts/size.lua"))
    write("named.lua", RECIPE + "-- parts/size.lua sha256 " + sha256("parts/size.lua") + "\n")
    says(["named.lua#sha256=" + sha256("named.lua"), "--steps=1"], 0, "final exact=")


def pack():
    out = says(["recipe", "pack", "small.lua", "--data=cap", "--weights=model.capl"], 0,
               "small.manifest.json: the recipe, 1 file beside it, 1 set of images, 1 model")
    check("small.manifest.json.log" not in os.listdir("."), "pack leaves no log", out)
    m = read("small.manifest.json")
    check(m["recipe"]["sha256"] == sha256("small.lua") and m["files"][0]["sha256"] == sha256("parts/size.lua"), "hashes of the files", m)
    check(m["data"][0]["files"] == 12 and m["data"][0]["path"] == "cap" and m["generators"]["val"]["seed"] == 7, "data and generator", m)
    before = open("small.manifest.json", encoding="utf-8").read()
    capl("recipe", "pack", "small.lua", "--data=cap", "--weights=model.capl")
    check(before == open("small.manifest.json", encoding="utf-8").read(), "packing again gives the same bytes")
    write("mine.json", "{}")
    says(["recipe", "pack", "small.lua", "--out=mine.json"], 1, "is no manifest, so it is not replaced")
    says(["recipe", "pack", "small.lua", "--stesp=3"], 1, "unknown setting --stesp; did you mean --steps?")
    return m


def spoiled(change, status, *parts, words=()):
    """In a copy of everything: makes one change; verify says what it is."""
    shutil.rmtree("../copy", ignore_errors=True)
    shutil.copytree(".", "../copy", symlinks=True)
    here = os.getcwd()
    os.chdir("../copy")
    change()
    says(["recipe", "verify", "small.manifest.json", *words], status, *parts)
    os.chdir(here)


def rewrite(change):
    m = read("small.manifest.json")
    change(m)
    write("small.manifest.json", json.dumps(m))


def verify():
    says(["recipe", "verify", "small.lua"], 0, "the recipe, 1 file beside it, data, weights: as they were packed")
    spoiled(lambda: None, 0, "as they were packed")
    write("../twelve.txt", "return {classes = 3}\n")
    spoiled(lambda: shutil.copy("../twelve.txt", "parts/size.lua"), 1, "parts/size.lua has other bytes", "1 difference")
    spoiled(lambda: write("parts/size.lua", "x"), 1, "parts/size.lua has 1 byte, packed were 21")
    spoiled(lambda: os.remove("parts/size.lua"), 1, "parts/size.lua is missing", "module 'parts.size' is required by the recipe")

    def link(path, to):
        os.remove(path)
        os.symlink(to, path)
    spoiled(lambda: link("parts/size.lua", "/etc/passwd"), 1, "parts/size.lua is a link, or is behind one")
    spoiled(lambda: (shutil.move("parts", "elsewhere"), os.symlink("elsewhere", "parts")), 1, "parts/size.lua is a link, or is behind one")
    spoiled(lambda: link("small.manifest.json", "../small/small.manifest.json"), 1, "small.manifest.json is a link")
    spoiled(lambda: write("small.lua", RECIPE.replace("0.01", "0.02") + 'require "extra"\n'), 1, "small.lua has",
            "the recipe expects exact at least 2 %", "module 'extra' is required by the recipe, but is not here")
    spoiled(lambda: (write("extra.lua", ""), write("small.lua", RECIPE + 'require "extra"\n')), 1, "extra.lua is required by the recipe, but was not packed")
    spoiled(lambda: os.remove("cap/" + sorted(os.listdir("cap"))[0]), 1, "data cap has 11 files, packed were 12")
    spoiled(lambda: os.rename("cap/" + sorted(os.listdir("cap"))[0], "cap/zz_1.png"), 1, "data cap has other contents")
    spoiled(lambda: write("model.capl/weights", "other"), 1, "weights model.capl has other contents")
    spoiled(lambda: write("model.capl/more", ""), 1, "weights model.capl has 2 files, packed were 1")
    spoiled(lambda: shutil.move("cap", "../moved"), 1, "data cap is not here: --data=SOURCE names it")
    spoiled(lambda: shutil.rmtree("cap"), 0, "as they were packed", words=["--data=../moved"])
    spoiled(lambda: shutil.rmtree("cap"), 0, "as they were packed", words=["--without=data"])


def hostile():
    def file(path):
        return lambda: rewrite(lambda m: m["files"].append({"file": path, "bytes": 1, "sha256": "0" * 64}))
    spoiled(file("../../etc/passwd"), 1, "leads out of the folder of the manifest")
    spoiled(file("/etc/passwd"), 1, "is absolute")
    spoiled(file("parts/size.lua"), 1, "parts/size.lua is there twice")
    spoiled(file("x\x1b[2J"), 1, "'x?[2J' holds control characters")
    spoiled(lambda: rewrite(lambda m: m["recipe"].update(file="other.lua")), 1, "other.lua is missing")
    spoiled(lambda: rewrite(lambda m: m.update(format=9)), 1, "a newer capl wrote it")
    spoiled(lambda: write("small.manifest.json", '{"format": 1, "format": 2}'), 1, 'json:1: JSON with the key "format" twice at column 15')
    spoiled(lambda: write("small.manifest.json", '{"a":' * 100000), 1, "more than 12 levels")
    spoiled(lambda: write("small.manifest.json", "x" * 2000000), 1, "2000000 bytes, more than any manifest has")
    spoiled(lambda: (os.remove("small.manifest.json"), os.mkfifo("small.manifest.json")), 1, "is no file")
    spoiled(lambda: os.remove("small.manifest.json"), 1, "is missing")


def sets():
    """The content of a set is the same as a copy, a list or a database say it twice, and another one where a byte differs."""
    capl("data", "pack", "cap", "--out=db")
    names = sorted(os.listdir("cap"))
    write("list.tsv", "".join(f"cap/{name}\t{name[0]}\n" for name in names))
    hashes = {}
    for source in ("db", "list.tsv", "cap"):
        capl("recipe", "pack", "small.lua", "--data=" + source)
        hashes[source] = read("small.manifest.json")["data"][0]["sha256"]
    check(len(set(hashes.values())) == 3, "names and texts count", hashes)
    capl("data", "pack", "cap", "--out=db2")
    says(["recipe", "verify", "small.lua", "--data=cap"], 0, "as they were packed")
    capl("recipe", "pack", "small.lua", "--data=db2,list.tsv")
    both = [entry["sha256"] for entry in read("small.manifest.json")["data"]]
    check(both == [hashes["db"], hashes["list.tsv"]], "a database packed again has the same contents", both)


def proof():
    out = says(["test", "small.lua", "--seeds=2"], 0, "exact at least 1 %: met", "steps at most 20: met, 20", "within 5 min: met",
               "n 1000", "seed 8: exact", "verdict: the claim holds", "small.result.json, and in small.manifest.json")
    check("machine: " in out and "processor" in out, "says on which machine", out)
    record = read("small.result.json")
    check(record["held"] and [run["seed"] for run in record["result"]["runs"]] == [7, 8], "the record has each seed", record)
    check(read("small.manifest.json")["result"] == record, "the manifest has the record")
    says(["recipe", "verify", "small.lua"], 0, "as they were packed")
    says(["recipe", "info", "small.lua"], 0, "it held: exact at least 1 %: met")
    again = json.loads(capl("test", "small.lua", "--seeds=2", "--json")[1])
    check(again["result"] == record["result"], "what the recipe gives is the same again; what the machine does stands apart", again)
    says(["test", "small.lua", "--steps=5", "--out=five.json"], 1, "exact at least 100 %: missed", "the claim does not hold")
    says(["test", "small.lua", "--steps=6"], 1, "not about this run: it is of the recipe's own settings, and this run has steps = 6")
    says(["test", "small.lua", "--data=gone"], 1, "run ended with status 1", "gone")
    says(["test", "trap.lua", "--device=cuda", "--seeds=2"], 1, "trap.lua has no setting seed")
    write("none.lua", "--- capl: 1\n")
    says(["test", "none.lua"], 1, "none.lua claims nothing, so there is nothing to prove", "capl.expect{exact = 0.96")
    says(["test"], 1, "no recipe is named")
    write("gpu.lua", '--- capl: 1\ncapl.expect{exact = 0.5, on = "cuda"}\n')
    says(["test", "gpu.lua"], 1, "the claim is about runs on cuda, and this one would be on cpu")


def main():
    check(os.path.exists(CAPL), "the program is there")
    os.mkdir("small")
    os.chdir("small")
    write("small.lua", RECIPE)
    write("parts/size.lua", "return {classes = 2}\n")
    write("model.capl/weights", "w")
    capl("generate", "--out=cap", "--n=12", "--seed=1", "--charset=01", "--length=1")
    info()
    pinned()
    pack()
    verify()
    hostile()
    proof()
    sets()


in_empty_folder(main)
