"""--resume, override.json and --init_from as a user meets them: what goes on, what is refused, and what is said.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import shutil
import subprocess
import time

from program import CAPL, capl, check, in_empty_folder
from small import metrics, read_json, write_recipe

RUN = "runs/small"
LOOP = """--- capl: 1
local p = capl.params {steps = 30}
local model = nn.Linear(3, 2)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
%s
for _ = 1, p.steps do opt:backward_step(model(capl.ones(1, 3)):sum()) end
"""


def edit(change):
    with open("small.lua", encoding="utf-8") as file:
        text = file.read()
    with open("small.lua", "w", encoding="utf-8") as file:
        file.write(change(text))


def refused(words, *said):
    status, out, err = capl(*words)
    check(status == 1 and all(text in err for text in said), f"{' '.join(words)} says: {said}", f"{status}\n{out}\n{err}")


def nothing_to_go_on_with():
    refused(["small.lua", "--resume"], "there is no run of small.lua below runs/ to resume", "without --resume a new one is started")
    refused(["small.lua", "--resume=runs/other"], "--resume=runs/other: there is no such run or checkpoint")
    refused(["check", "small.lua", "--steps=3", "--resume"], "this command starts none")
    refused(["small.lua", "--steps=3", "--inexact"], "given, but never read by the recipe: inexact")
    shutil.rmtree("runs")


def finished_and_longer():
    status, out, err = capl("small.lua", "--steps=20", "--scale=2")
    check(status == 0 and os.listdir(f"{RUN}/checkpoints") == ["step-000020.capl"], "a run ends with a checkpoint", out + err)
    refused(["small.lua", "--resume"], "runs/small is finished: 20 steps", "to continue, make the run longer: --steps=40")
    status, out, err = capl("small.lua", "--resume", "--steps=30")
    check(status == 0 and "step 20 of 30" in out and "resume: steps: 30, was 20" in out, "a longer run goes on", out + err)
    check("scale      2             as before" in out, "with the settings of the run", out)
    steps = [line["step"] for line in metrics(RUN) if "loss" in line]
    check(steps == sorted(set(steps)) and max(steps) == 30, "each step is in the curve once", str(steps))
    check(read_json(f"{RUN}/result.json")["steps"] == 30 and not os.path.exists("runs/small-2"), "in the same folder")


def time_box():
    status, out, err = capl("small.lua", "--max_time=0.6s")
    check(status == 0, "a time box", out + err)
    refused(["small.lua", "--resume=runs/small-2"], "runs/small-2 is finished", "to continue, make the run longer: --max_time=1.2s")
    status, out, err = capl("small.lua", "--resume=small-2", "--max_time=1s")
    check(status == 0 and 0.5 < read_json("runs/small-2/result.json")["seconds"] < 9, "a larger one counts what is over", out + err)


def changed_since():
    edit(lambda text: text.replace("-- A small recognizer", "-- A very small recognizer"))
    shutil.rmtree("runs/small-2")
    refused(["small.lua", "--resume", "--steps=40"], "would not be bit-exact",
            "recipe: its text has changed", "hint: --inexact allows it")
    status, out, err = capl("small.lua", "--resume", "--steps=32", "--inexact")
    check(status == 0 and "resume, inexact: recipe: its text has changed" in out, "--inexact goes on", out + err)
    edit(lambda text: text.replace("-- A very small recognizer", "-- A small recognizer"))
    before = dict(os.environ)
    os.environ["CAPL_ASSUME"] = "isa=portable"
    refused(["small.lua", "--resume", "--steps=40"], "instruction set: portable, was ")
    os.environ.clear()
    os.environ.update(before)
    edit(lambda text: text.replace("batch = 10", "batch = 5"))
    refused(["small.lua", "--resume", "--steps=40"], "train batch: 5, was 10")
    edit(lambda text: text.replace("batch = 5", "batch = 10"))


def ended_early():
    shutil.rmtree("runs")
    edit(lambda text: text.replace("steps = p.steps ~=", "early_stop = {patience = 2}, eval_every = 1, steps = p.steps ~=").replace(
        "  seed = 42,", "  seed = 42,\n  lr = 1e-9,").replace("lr = 0.01", "lr = p.lr"))
    status, out, err = capl("small.lua", "--steps=50")
    ended = read_json(f"{RUN}/result.json")
    check(status == 0 and ended["ended"] == "early_stop" and ended["steps"] < 50, "a run is stopped early", out + err)
    refused(["small.lua", "--resume"], f"ended early at step {ended['steps']} (early_stop), and nothing has changed since")
    status, out, err = capl("small.lua", "--resume", "--lr=0.02")
    check(status == 0 and "resume: lr: 0.02, was 1e-09" in out and read_json(f"{RUN}/result.json")["steps"] > ended["steps"] + 1,
          "it goes on with another rate, and has its patience anew", out + err)
    write_recipe()


def never_comes():
    edit(lambda text: text.replace("steps = p.steps ~=", 'checkpoint = {every = 100, every_n = 50, top_k = 1}, steps = p.steps ~='))
    status, out, err = capl("small.lua", "--steps=12")
    check(status == 0 and "note: checkpoint: every = 100 steps never comes: the run has 12 steps" in out
          and "every_n = 50 steps never comes" in out, "a cadence that cannot come true is reported", out + err)
    edit(lambda text: text.replace("every = 100, every_n = 50, top_k = 1", 'every = "often"'))
    refused(["small.lua", "--steps=12"], "every is a number of steps, a time such as \"5m\", \"eval\" or \"auto\", got 'often'")
    edit(lambda text: text.replace('checkpoint = {every = "often"}', "checkpoint = false"))
    status, out, err = capl("small.lua", "--steps=3")
    check(status == 0 and not os.path.exists("runs/small-3/checkpoints"), "checkpoint = false saves none", out + err)
    refused(["small.lua", "--steps=9", "--resume=runs/small-2"], "--resume: small.lua takes no saved state")
    write_recipe()


def put(text):
    with open("override.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename("override.new", f"{RUN}/override.json")


def put_other(make):
    """Something else than a file in its place, at once: a file that is gone for a moment is a change."""
    make("override.new")
    os.rename("override.new", f"{RUN}/override.json")


def said_so_far():
    with open("out.txt", encoding="utf-8") as file:
        return file.read()


def put_long(path):
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"lr": 1}' + " " * 2000000)


def overrides():
    """A running training is given one order after the other; the last one ends it."""
    shutil.rmtree("runs")
    with open("out.txt", "w", encoding="utf-8") as out:
        child = subprocess.Popen([CAPL, "small.lua", "--steps=10000000"], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    wishes = {
        os.mkdir: f"nothing changes: cannot read {RUN}/override.json: Is a directory", # first: nothing is in its place
        "{\"lrr\": 1}": "nothing changes: there is no lrr to change, did you mean lr?",
        "[1, 2": "is no JSON object, so nothing changes",
        "{\"augment\": {\"rotaet\": 3}}": "nothing changes: augment: ",
        "{\"lr\": 0.001, \"save\": true}": "lr = 0.001, save = true",
        (lambda path: os.symlink("/etc/passwd", path)): "nothing changes: this recipe may not read",
        (lambda path: os.symlink("nowhere", path)): f"nothing changes: cannot read {RUN}/override.json: No such file",
        os.mkfifo: "it is a pipe or a device, not a file",
        put_long: f"nothing changes: {RUN}/override.json has 2000009 bytes, more than 1000000",
        "{\"lr\": 1": "is no JSON object, so nothing changes",
        "": "is no JSON object, so nothing changes",
        "{\"stop\": true}": "stop = true",
    }
    until = time.monotonic() + 40
    while not os.path.exists(f"{RUN}/settings.json") and time.monotonic() < until:
        time.sleep(0.02)
    for wish, said in wishes.items():
        before = said_so_far().count(said)
        (put if isinstance(wish, str) else put_other)(wish)
        while time.monotonic() < until and said_so_far().count(said) == before:
            time.sleep(0.02)
        if wish is os.mkdir:
            os.rmdir(f"{RUN}/override.json")
    seen = said_so_far()
    check(child.wait(timeout=40) == 0, "the run ends well", seen)
    for said in wishes.values():
        check(said in seen, f"it says: {said}", seen)
    with open(f"{RUN}/overrides.jsonl", encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    check([entry["changes"] for entry in entries] == [{"lr": 0.001, "save": True}, {"stop": True}], "overrides.jsonl has what holds", str(entries))
    check(len(os.listdir(f"{RUN}/checkpoints")) == 2 and read_json(f"{RUN}/result.json")["ended"] == "stopped", "it saved, and stopped")
    os.rename(f"{RUN}/overrides.jsonl", f"{RUN}/journal.jsonl") # its name in runs of older versions
    put("{\"lr\": 0.002, \"stop\": true}")
    status, out, err = capl("small.lua", f"--resume={RUN}", "--steps=10000000", "--inexact")
    with open(f"{RUN}/journal.jsonl", encoding="utf-8") as file:
        changes = [json.loads(line)["changes"] for line in file]
    check(status == 0 and len(changes) == 3 and changes[2] == {"lr": 0.002, "stop": True} and not os.path.exists(f"{RUN}/overrides.jsonl"),
          "a run of an older version goes on with its file", f"{changes}\n{out}{err}")


def unfrozen_between():
    shutil.rmtree("runs")
    edit(lambda text: text.replace("precision = p.precision,", 'precision = p.precision, freeze = {names = "2.bias", steps = 6},'))
    check(capl("small.lua", "--steps=6")[0] == 0, "a run that ends with its frozen steps")
    status, out, err = capl("small.lua", "--resume", "--steps=9")
    events = [line["step"] for line in metrics(RUN) if line.get("event", "").startswith("unfrozen")]
    check(status == 0 and events == [6] and "step 7: unfrozen: 2.bias" in out, "lets go of them as one never stopped does", f"{events}\n{out}{err}")
    edit(lambda text: text.replace(' freeze = {names = "2.bias", steps = 6},', ""))


def loops_of_ones_own():
    for name, line in (("bare.lua", ""), ("kept.lua", "local ck = train.Checkpoint {model = model, optimizer = opt}\nck:resume()\nck:save()")):
        with open(name, "w", encoding="utf-8") as file:
            file.write(LOOP % line)
    status, out, err = capl("kept.lua", "--steps=2")
    check(status == 0, "a loop with train.Checkpoint", out + err)
    status, out, err = capl("kept.lua", "--steps=2", "--resume")
    check(status == 0 and "resumed: runs/kept/checkpoints/step-000000.capl" in out, "goes on", out + err)
    refused(["bare.lua", "--resume=runs/kept"], "--resume: bare.lua takes no saved state", "train.Checkpoint")


def other_weights():
    status, out, err = capl("small.lua", "--steps=2", "--init_from=runs/small")
    check(status == 0 and "weights from runs/small/best.capl/weights.safetensors: 2 of 2 tensors taken" in out, "--init_from a run", out + err)
    checkpoint = f"{RUN}/checkpoints/{sorted(os.listdir(RUN + '/checkpoints'))[-1]}"
    refused(["small.lua", "--steps=2", "--init_from=runs/kept/checkpoints/step-000000.capl"], "no tensor of ", "has a name and a shape of this model")
    status, out, err = capl("small.lua", "--steps=2", f"--init_from={checkpoint}")
    check(status == 0 and "2 of 2 tensors taken" in out, "--init_from a checkpoint", out + err)
    refused(["small.lua", "--steps=2", "--init_from=small.lua"], "small.lua is no checkpoint and no safetensors file")


def main():
    write_recipe()
    nothing_to_go_on_with()
    finished_and_longer()
    time_box()
    changed_since()
    ended_early()
    never_comes()
    overrides()
    unfrozen_between()
    loops_of_ones_own()
    other_weights()


in_empty_folder(main)
