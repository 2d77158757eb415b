"""Recipes as documents: what is told of one without running it, and the proof of what it claims.

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import os

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
    says(["recipe", "inof", "trap.lua"], 1, "is not info")
    says(["recipe", "info"], 1, "needs a recipe")


def pinned():
    word = "small.lua#sha256=" + sha256("small.lua")
    says([word, "--steps=1"], 1, "parts/size.lua is not named by its own in it", "-- sha256 " + sha256("parts/size.lua"))
    write("named.lua", RECIPE + "-- parts/size.lua sha256 " + sha256("parts/size.lua") + "\n")
    says(["named.lua#sha256=" + sha256("named.lua"), "--steps=1"], 0, "final exact=")


def proof():
    out = says(["test", "small.lua", "--seeds=2"], 0, "exact at least 1 %: met", "steps at most 20: met, 20", "within 5 min: met",
               "n 1000", "seed 8: exact", "verdict: the claim holds", "small.result.json")
    check("machine: " in out and "processor" in out, "says on which machine", out)
    record = read("small.result.json")
    check(record["held"] and [run["seed"] for run in record["result"]["runs"]] == [7, 8], "the record has each seed", record)
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
    proof()


in_empty_folder(main)
