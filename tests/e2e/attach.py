"""capl attach: a prompt inside a run that trains: looking, another rate, single steps, and all the ways in which it ends.

SPDX-License-Identifier: Apache-2.0
"""
import os
import signal
import socket
import subprocess
import time

import pexpect

from program import CAPL, capl, check, in_empty_folder
from small import RECIPE, metrics, read_json

# A step takes a few milliseconds, so that somebody can come in.
SLOW = RECIPE.replace("return nn.cross_entropy", "local t = capl.clock() + 0.003 while capl.clock() < t do end return nn.cross_entropy")

LOOP = """--- capl: 1
local p = capl.params {steps = 100000}
local model = nn.Linear(4, 2)
local opt = optim.SGD(model:parameters(), {lr = 1e-6})
local x, y, scale = capl.ones(8, 4), capl.zeros(8, 2), 1
local function loss_of(output) return nn.mse(output, y) * scale end
for i = 1, p.steps do
  local loss = loss_of(model(x))
  opt:backward_step(loss)
  local t = capl.clock() + 0.002 while capl.clock() < t do end
end
"""

ENV = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_RUNTIME_DIR": os.getcwd(), "TERM": "xterm", "CAPL_HISTORY": ""}


def start(*words):
    """A run in the background, after its first step -> the process and its folder."""
    former = set(os.listdir("runs")) if os.path.isdir("runs") else set()
    run = subprocess.Popen([CAPL, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENV)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for name in (set(os.listdir("runs")) if os.path.isdir("runs") else set()) - former:
            if os.path.exists(f"runs/{name}/recipe.lua"):
                return run, "runs/" + name
        time.sleep(0.01)
    run.kill()
    check(False, "the run makes its first step", run.communicate()[0])


def finish(run, status=0):
    out = run.communicate(timeout=60)[0]
    check(run.returncode == status, f"the run ends with {status}", f"{run.returncode} {out}")
    return out


def say(folder, text):
    return capl("attach", folder, text=text, env=ENV)


def bits():
    """A visit that changes nothing changes no bit, and its time does not count."""
    run, alone = start("slow.lua", "--steps=150")
    finish(run)
    run, folder = start("slow.lua", "--steps=150")
    time.sleep(0.1)
    status, out, err = say(folder.split("/")[1], "model\ncapl.randn(3):mean();\nstep(2);\nimages.batch\nlr() > 0\n")
    check(status == 0 and "held at step" in out and "loss " in out and "lr " in out, "it says where the run is", out + err)
    check("Linear(32 -> 6)" in out and "\n10\n" in out and "\ntrue\n" in out, "locals of the main chunk are there", out + err)
    check(out.rstrip().endswith("detached: the run continues"), "at the end of the input the run continues", out + err)
    out = finish(run)
    check("s by attach, at step" in out, "the run reports that it was held", out)
    names = ("last.capl/weights.safetensors", "best.capl/weights.safetensors")
    for name in names:
        with open(f"{alone}/{name}", "rb") as one, open(f"{folder}/{name}", "rb") as other:
            check(one.read() == other.read(), f"{name} has the bits of a run that nobody looked at")
    lines = [[{key: line[key] for key in ("step", "loss", "lr") if key in line} for line in metrics(f) if "event" not in line]
             for f in (alone, folder)]
    check(lines[0] == lines[1], "so do the metrics", f"{lines[0]}\n{lines[1]}")
    check(any("held" in line.get("event", "") for line in metrics(folder)), "which tell of the visit")


def rates():
    """Another rate, saving, and the end."""
    run, folder = start("slow.lua", "--steps=600")
    status, out, err = say(folder, "lr(0.00125)\nfor i = 1, 3 do local loss = step() print(loss > 0) end\nlr()\nsave()\nlr(-1)\nstop()\n")
    check(status == 1 and out.count("true\n") == 3 and "0.00125\n" in out, "step trains, in a loop too", out + err)
    check(f"{folder}/checkpoints/step-" in out and "a number from 0 on" in err, "save says where, lr what it takes", out + err)
    check("detached: the run ends" in out, "stop ends the run", out)
    out = finish(run)
    check("override, step" in out and "lr = 0.00125" in out and "stopped by attach" in out, "the run reports what was changed", out)
    lines = [line for line in metrics(folder) if "lr" in line]
    check(abs(lines[-1]["lr"] - 0.00125) < 1e-9, "the metrics show the new rate", str(lines[-1]))
    result = read_json(folder + "/result.json")
    check(result["ended"] == "stopped" and result["val"]["n"] == 30, "the run ends properly, with an evaluation", str(result))
    status, out, err = say(folder, "")
    check(status == 1 and "does not train: it is finished" in err, "a finished run is distinguished from one that trains", out + err)


def terminal():
    """On a terminal, in a custom training loop; Ctrl-C, a second visitor, one that dies."""
    run, folder = start("loop.lua")
    child = pexpect.spawn(CAPL, ["attach", folder], timeout=20, encoding="utf-8", env=ENV, dimensions=(30, 100))
    child.expect_exact("capl> ")
    child.sendline("while true do end")
    time.sleep(0.3)
    child.sendintr()
    child.expect_exact("interrupted")
    child.expect_exact("capl> ")
    child.sendline("step(1000000)")
    time.sleep(0.2)
    child.sendintr()
    child.expect_exact("interrupted")
    child.expect_exact("capl> ")
    check(run.poll() is None, "Ctrl-C stops what was typed, not the run")
    child.send("mod\t\r")
    child.expect(r"Linear\(4 -> 2\)")
    child.expect_exact("capl> ")
    child.sendline("for k = 1, 2 do")
    child.expect_exact("    > ")
    child.sendline("print('k', k) end")
    child.expect("k\t?\\s*2")
    child.expect_exact("capl> ")
    status, out, err = say(folder, "")
    check(status == 1 and "already attached" in err, "a second client gets an error that names the first", out + err)
    child.sendline("step() > 0")
    child.expect_exact("true")
    child.expect_exact("capl> ")
    child.sendline("scale = 0 step();")
    child.expect_exact("capl> ")
    child.sendline("step() == 0, loss:item() == 0")  # also in a function that the compiler of Lua has seen with scale = 1
    child.expect("true.*true")
    child.expect_exact("capl> ")
    child.sendline("opt:set_lr(0.25) while true do end")
    time.sleep(0.2)
    child.kill(signal.SIGKILL)
    child.wait()
    end = time.monotonic() + 20
    status = 1
    while status != 0 and time.monotonic() < end: # until the run has seen that nobody is there
        status, out, err = say(folder, "lr()\nscale\ngo()\nerror('not reached')\n")
    check(status == 0 and "0.25\n0\n" in out and "the run continues" in out, "a visitor that dies does not stop the run", out + err)
    status, out, err = capl("attach", env=ENV)
    check(status == 0 and folder in out and "loop.lua" in out, "capl attach lists the runs", out + err)
    manners(folder)
    run.send_signal(signal.SIGINT)
    out = finish(run, 130)
    check(os.listdir("capl") == [], "no socket is left", str(os.listdir("capl")))
    for word, why in (("nothing", "there is no run"), ("runs", "is no run's folder"), ("1", "process 1"), (folder, "it was stopped")):
        status, out, err = say(word, "")
        check(status == 1 and why in err and len(err.splitlines()) < 4, f"capl attach {word} says why not", out + err)
    status, out, err = capl("attach", env=ENV)
    check(status == 0 and f" {folder} " not in out, "and the list is without it", out + err)


def manners(folder):
    """Half a frame does not keep the gate, nor does a run that is stopped keep who asks."""
    name = os.listdir("capl")[0]
    with socket.socket(socket.AF_UNIX) as rude:
        rude.connect("capl/" + name)
        rude.sendall(b"\2\0\0\0h{}")
        rude.recv(1)
        rude.sendall(b"\7\0\0\0lpri")
        status, out, err = say(folder, "")
        end = time.monotonic() + 10
        while status != 0 and time.monotonic() < end:
            status, out, err = say(folder, "")
        check(status == 0, "who ends in the middle of a frame is let go", out + err)
    os.kill(int(name.split(".")[0]), signal.SIGSTOP)
    status, out, err = capl("attach", env=ENV)
    os.kill(int(name.split(".")[0]), signal.SIGCONT)
    check(status == 0 and "does not answer" in out, "a run that is stopped is listed as one", out + err)


def killed():
    """A run that was killed with its supervisor leaves a socket, which later runs take away."""
    child = subprocess.Popen(["sleep", "0"])
    child.wait()  # a number that nobody has now
    left = f"capl/{child.pid}.sock"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(left)
    finish(start("slow.lua", "--steps=2")[0])
    check(not os.path.exists(left), "a socket that nobody listens at is taken away")


def limits():
    """Neither --minutes nor Ctrl-C of the run itself wait for a visitor's end."""
    run, folder = start("--minutes=0.02", "loop.lua")
    child = pexpect.spawn(CAPL, ["attach", folder], timeout=20, encoding="utf-8", env=ENV, dimensions=(30, 100))
    child.expect_exact("capl> ")
    time.sleep(1.5)
    check(run.poll() is None, "the time for which a run is held is none of its minutes")
    run.send_signal(signal.SIGTERM)
    child.expect_exact("asked to end")
    child.expect(pexpect.EOF)
    finish(run, 143)


def main():
    with open("slow.lua", "w", encoding="utf-8") as file:
        file.write(SLOW)
    with open("loop.lua", "w", encoding="utf-8") as file:
        file.write(LOOP)
    ENV["XDG_RUNTIME_DIR"] = os.getcwd()
    for part in (bits, rates, terminal, killed, limits):
        part()


in_empty_folder(main)
