"""capl -i: a prompt after a run, after an error and after Ctrl-C, with the names of the recipe's functions.

SPDX-License-Identifier: Apache-2.0
"""
import os
import time

import pexpect

from program import CAPL, capl, check, in_empty_folder
from small import RECIPE, read_json

ENDS = """--- capl: 1
local p = capl.params {how = "well"}
local model = nn.Linear(4, 2)
shared = 7
local function deep(x)
  local batch = {image = capl.ones(2, 5)}
  local y = capl.autocast("fp32", function() local y = model(batch.image) return y end)
  return y
end
if p.how == "badly" then
  local number = 8
  deep(number)
elseif p.how == "never" then
  local turns = 0
  while true do turns = turns + 1 end
elseif p.how == "early" then
  return
end
local last = "end"
"""


def say(text, *words):
    return capl("-i", "ends.lua", *words, text=text)


def piped():
    status, out, err = say("last, shared\nmodel(capl.ones(1, 4)):size(2)\nwhere()\nlast = 3\nlast\n")
    check(status == 0 and "end\n7\n2\n" in out and "* 1  ends.lua:19  main chunk: p, model, last" in out and out.endswith("3\n"),
          "names of the main chunk are there after its end", out + err)
    status, out, err = say("p\nexit\n", "--how=early")
    check(status == 0 and out.endswith('{how = "early"}\n'), "the settings show what they are", out + err)
    status, out, err = say("model, last\n", "--how=early")
    check(status == 0 and "Linear(4 -> 2)" in out and "nil" in out, "after an early return, too", out + err)
    status, out, err = say("batch.image:size(2)\nwhere()\nframe(3)\nnumber\nframe(4)\n", "--how=badly")
    check("weight expects 4 input features" in err and "5\n" in out, "an error is reported, then its innermost function is there", out + err)
    check("* 1  ends.lua:7  " in out and "main chunk: p, model, number" in out, "where() shows the functions at work", out + err)
    check("8\n" in out and "a number from 1 to" in err and status == 1, "frame(n) takes the names of another", out + err)
    status, out, err = capl("run", "-i", "ends.lua", text="1 + 1\n")
    check(status == 0 and out.endswith("2\n"), "capl run -i is the same", out + err)
    for words in (("-i", "ends.lua", "--ranks=2"), ("-i", "check", "ends.lua")):
        status, out, err = capl(*words)
        check(status == 2 and "-i" in err, " ".join(words) + " is refused", out + err)


def stopped():
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "dumb", "CAPL_HISTORY": ""}
    child = pexpect.spawn(CAPL, ["-i", "ends.lua", "--how=never"], timeout=20, encoding="utf-8", env=env, dimensions=(30, 100))
    child.expect_exact("ends.lua on")
    time.sleep(0.5)
    child.sendintr()
    child.expect_exact("capl> ")
    child.sendline("turns > 10")
    child.expect_exact("true")
    child.expect_exact("capl> ")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    check(child.exitstatus == 0, "Ctrl-C ends the run and leads to the prompt", str(child.exitstatus))
    child = pexpect.spawn(CAPL, ["-i", "small.lua", "--steps=1000000"], timeout=20, encoding="utf-8", env=env, dimensions=(30, 100))
    child.expect("step +1/")
    child.sendintr()
    child.expect_exact("capl> ")
    check("saved: runs/small/last.capl" in child.before, "what a training had is saved first", child.before)
    child.sendline("model")
    child.expect("Linear")
    child.expect_exact("capl> ")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    check(read_json("runs/small/result.json")["ended"] == "interrupted", "and its names are there")


def main():
    with open("ends.lua", "w", encoding="utf-8") as file:
        file.write(ENDS)
    with open("small.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE)
    piped()
    stopped()


in_empty_folder(main)
