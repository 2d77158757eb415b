"""What happens to checkpoints when the world is not kind: a full disk, a folder that may not be written, damage, a data set
that is gone, signals while a slow disk is being written, a clock that jumps.

usage: checkpoints.py [slow]    slow: the saves that take seconds, too
Whatever it is: the checkpoint before can be gone on from, and the message says so.
SPDX-License-Identifier: Apache-2.0
"""
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CAPL = os.environ["CAPL_BIN"]
PRELOAD = os.environ["CAPL_FAULT_LIBRARY"]
HERE = os.path.dirname(os.path.abspath(__file__))
RECIPE = os.path.join(HERE, "resume.lua")
FOLDER = "runs/resume"
ENV = dict(os.environ, OMP_NUM_THREADS="1", CAPL_THREADS="1")
SLOW = "slow" in sys.argv[1:]


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{seen}")


def start(*words, recipe=RECIPE, globals_=(), **fault):
    env = dict(ENV)
    if fault:
        env.update(LD_PRELOAD=PRELOAD, CAPL_FAULT_BELOW="checkpoints/", **{f"CAPL_FAULT_{k.upper()}": str(v) for k, v in fault.items()})
    return subprocess.Popen([CAPL, *globals_, recipe, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                            stdin=subprocess.DEVNULL, start_new_session=True)


def finish(child):
    out, _ = child.communicate(timeout=100)
    return child.returncode, out


def capl(*words, **more):
    return finish(start(*words, **more))


def checkpoints():
    return sorted(os.listdir(f"{FOLDER}/checkpoints"))


def fresh():
    shutil.rmtree("runs", ignore_errors=True)


def goes_on(step, what, *words, **more):
    """--resume goes on from that step, and the run ends."""
    status, out = capl("--resume", *words, **more)
    check(status == 0 and f"/step-{step:06d}.capl, step {step} of " in out, f"{what}: the run goes on from step {step}", out)
    return out


def full_disk():
    fresh()
    status, out = capl("--steps=12", "--every=4", call="write", at=90, since=1, errno=errno.ENOSPC)
    check("could not be saved: cannot write" in out and "No space left on device" in out, "a full disk is told", out)
    check(f"the last checkpoint is {FOLDER}/checkpoints/step-" in out, "and what is still there", out)
    names = checkpoints()
    check(status == 0 and len(names) >= 1 and all(name.endswith(".capl") for name in names), "training goes on", out + str(names))
    goes_on(int(names[-1][5:11]), "full disk", "--steps=14")
    print("ok full disk")


def read_only():
    fresh()
    capl("--steps=6", "--every=3")
    status, out = capl("--resume", "--steps=9", call="open", at=1, since=1, errno=errno.EROFS)
    check("Read-only file system" in out, "a folder that may not be written is told", out)
    check(checkpoints()[-1] == "step-000006.capl", "the former checkpoints stay", str(checkpoints()))
    goes_on(6, "read-only folder", "--steps=9")
    print("ok read-only folder")


def truncated():
    fresh()
    capl("--steps=9", "--every=3")
    newest = f"{FOLDER}/checkpoints/{checkpoints()[-1]}"
    os.truncate(newest, os.path.getsize(newest) - 100)
    out = goes_on(6, "truncated checkpoint", "--steps=12")
    check(f"{newest} is damaged: it has" in out and "resuming from the previous one" in out, "the damage is told", out)
    for name in checkpoints():
        os.truncate(f"{FOLDER}/checkpoints/{name}", 50)
    status, out = capl("--resume", "--steps=15")
    check(status == 1 and "is damaged" in out and "bug" not in out, "no checkpoint that is whole is an error", out)
    print("ok truncated")


FOLDER_RECIPE = """--- capl: 1
local p = capl.params {steps = 40}
local images = data.loader {source = data.folder("images", {charset = "0-9", length = 2, width = 40, height = 20}), role = "train",
  batch = 8, workers = 0, cache = "none"}
local model = nn.Sequential {nn.AvgPool2d(10), nn.Flatten(), nn.Linear(8, 20)}
train.fit {model = model, train = images, val = false, steps = p.steps, precision = "fp32", checkpoint = {every = 1000000}, tensorboard = false,
  loss = function(y, batch) return nn.cross_entropy(y:view(-1, 10), batch.target:view(-1)) end,
  optimizer = optim.SGD(model:parameters(), {lr = 0.01})}
"""


def deleted_data():
    fresh()
    subprocess.run([CAPL, "-e", "data.save_captchas {dir = 'images', count = 40, seed = 1, charset = '0-9', length = 2, width = 40, "
                    "height = 20}"], check=True, capture_output=True)
    with open("resume.lua", "w", encoding="utf-8") as file:
        file.write(FOLDER_RECIPE)
    child = start("--steps=100000", recipe="resume.lua")
    wait_for(FOLDER, lambda names: "settings.json" in names)
    os.rename("images", "elsewhere")
    status, out = finish(child)
    check(status == 1 and "the last checkpoint is" in out and "--resume resumes from it" in out,
          "a deleted data set ends the run, and all its steps are saved", out)
    status, out = capl("--resume", recipe="resume.lua")
    check(status == 1 and "images" in out, "the run does not go on without it", out)
    os.rename("elsewhere", "images")
    newest = int(checkpoints()[-1][5:11])
    status, out = capl("--resume", f"--steps={newest + 3}", recipe="resume.lua")
    check(status == 0 and f"step {newest} of" in out, "and goes on when it is back", out)
    print("ok deleted data set")


def clock_jump():
    """Dates in the folder are for people: another year in them changes nothing."""
    fresh()
    capl("--steps=4", "--every=2")
    with open(f"{FOLDER}/settings.json", encoding="utf-8") as file:
        settings = json.load(file)
    settings["started"] = "2099-01-01T00:00:00Z"
    with open(f"{FOLDER}/settings.json", "w", encoding="utf-8") as file:
        json.dump(settings, file)
    for root, _, names in os.walk("runs"):
        for name in names:
            os.utime(os.path.join(root, name), (10**9, 10**9))
    goes_on(4, "files of another year", "--steps=6")
    print("ok clock jump")


def wait_for(path, test, seconds=30):
    until = time.monotonic() + seconds
    while not (os.path.isdir(path) and test(os.listdir(path))):
        check(time.monotonic() < until, f"{path} gets what is waited for", str(os.listdir(path)) if os.path.isdir(path) else "")
        time.sleep(0.01)


def signals(seconds):
    """A signal while the run trains: it saves, however long that takes, and then ends."""
    for which, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        fresh()
        child = start("--steps=100000", "--every=100000", call="fsync", at=1, sleep=int(seconds * 1000))
        wait_for(FOLDER, lambda names: "best.capl" in names)
        os.kill(child.pid, which)
        ended, out = finish(child)
        check(ended == status and "saved: runs/resume/checkpoints/step-" in out, f"{which.name} saves, and the run ends with {status}",
              f"{ended}\n{out}")
        check(seconds < 2 or "ending after this step, and saving" in out, "a save that takes long is told", out)
        step = int(out.split("saved: runs/resume/checkpoints/step-")[1][:6])
        check(int(checkpoints()[-1][5:11]) == step, "that checkpoint is there", str(checkpoints()))
        goes_on(step, which.name, f"--steps={step + 2}")
    print(f"ok signals, saves of {seconds} s")


def second_signal():
    """The second Ctrl-C leaves at once; the checkpoint before is whole."""
    fresh()
    child = start("--steps=100000", "--every=5", call="fsync", at=5, since=1, sleep=20000)
    wait_for(f"{FOLDER}/checkpoints", lambda names: any(name.endswith(".capl") for name in names)
             and any(".tmp" in name for name in names))
    os.killpg(child.pid, signal.SIGINT)
    time.sleep(0.4)
    sent = time.monotonic()
    os.killpg(child.pid, signal.SIGINT)
    status, out = finish(child)
    check(status == 130 and time.monotonic() - sent < 3, "a second Ctrl-C leaves at once", f"{status}\n{out}")
    step = max(int(name[5:11]) for name in checkpoints() if name.endswith(".capl"))
    goes_on(step, "second Ctrl-C", f"--steps={step + 2}")
    check(not [name for name in checkpoints() if ".tmp" in name], "and what was half-written is gone", str(checkpoints()))
    print("ok second Ctrl-C")


def out_of_time():
    """The header's minutes are over while a save takes longer than the supervisor's patience."""
    fresh()
    child = start("--steps=100000", "--every=100000", globals_=("--minutes=0.03",), call="fsync", at=1, since=1, sleep=4000)
    status, out = finish(child)
    check(status == 124 and "saved: " in out, "a run whose time is over saves, also when that takes longer than 5 s", f"{status}\n{out}")
    step = int(checkpoints()[-1][5:11])
    goes_on(step, "time over", f"--steps={step + 2}")
    print("ok out of time")


def in_evaluation():
    """A signal within an evaluation, while the model holds its averages: the evaluation is made when the run goes on."""
    with open(RECIPE, encoding="utf-8") as file:
        text = file.read().replace('loader("val", 16)', 'loader("val", 20000)')
    with open("resume.lua", "w", encoding="utf-8") as file:
        file.write(text)
    fresh()
    status, out = capl("--steps=9", "--every=1000", recipe="resume.lua")
    check(status == 0, "the run left alone ends", out)
    with open(f"{FOLDER}/last.capl/weights.safetensors", "rb") as file:
        alone = file.read()
    for wait in (0.3, 0.6, 1.2, 2.4):  # until the signal comes within the first evaluation
        fresh()
        child = start("--steps=9", "--every=1000", recipe="resume.lua")
        wait_for(FOLDER, lambda names: "settings.json" in names)
        time.sleep(wait)
        os.kill(child.pid, signal.SIGTERM)
        status, out = finish(child)
        if "stopped at step 7" in out:
            break
    check(status == 143 and "stopped at step 7" in out, "the signal comes within the first evaluation", out)
    goes_on(7, "stopped within an evaluation", recipe="resume.lua")
    with open(f"{FOLDER}/last.capl/weights.safetensors", "rb") as file:
        check(file.read() == alone, "stopped within an evaluation or not, the weights are the same")
    print("ok in evaluation")


def main():
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        os.chdir(folder)
        if SLOW:
            in_evaluation()
            signals(3)
            out_of_time()
            return
        full_disk()
        read_only()
        truncated()
        deleted_data()
        clock_jump()
        signals(0.3)
        second_signal()


main()
