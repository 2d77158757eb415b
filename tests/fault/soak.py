"""Trains, evaluates, kills, resumes, attaches and serves in random order; what it uses must not grow (scripts/soak).

usage: soak.py MINUTES SEED
SPDX-License-Identifier: Apache-2.0
"""
import collections
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

CAPL = os.environ["CAPL_BIN"]
RECIPE = os.path.join(os.environ["CAPL_SOURCE_DIR"], "tests/fault/resume.lua")
MINUTES, SEED = float(sys.argv[1]), int(sys.argv[2])
WARM = 3  # actions of each kind before the first look
LOOKS = 3  # parts of the time, with a look after each
MOST_MEMORY = 1.1  # of a process that stays, at the end against the first look
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "CAPL_HISTORY": ""}
dice = random.Random(SEED)


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what} (seed {SEED})\n{seen}")


def start(*words, **options):
    return subprocess.Popen([CAPL, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENV,
                            **{"stdin": subprocess.DEVNULL, "start_new_session": True, **options})


def capl(*words, text=None, wanted=0):
    done = subprocess.run([CAPL, *words], input=text or "", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=ENV, timeout=300, check=False)
    check(done.returncode == wanted, f"capl {' '.join(words)} ends with {wanted}", f"{done.returncode}\n{done.stdout}")
    return done.stdout


# ---- the processes that stay ----


class Stays:
    """A server of a model, and a run that trains until it is asked to stop; its log goes to a file."""

    def __init__(self):
        self.server = start("serve", "model.capl", "--port=0")
        lines = self.server.stdout.readline() + self.server.stdout.readline()
        found = re.search(r"at http://[^ ]*:(\d+)/", lines)
        check(found, "the server starts", lines)
        self.url = f"http://127.0.0.1:{found[1]}/predict"
        with open("long.log", "w", encoding="utf-8") as log:
            self.run = subprocess.Popen([CAPL, "long.lua"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=ENV,
                                        start_new_session=True)
        until = time.monotonic() + 60
        while not os.path.exists("runs/long/metrics.jsonl") and time.monotonic() < until:
            time.sleep(0.1)
        check(os.path.exists("runs/long/metrics.jsonl"), "the long run begins")

    def end(self):
        for process in (self.run, self.server):
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
        check(self.run.returncode == 130, "the long run ends as it is asked to", self.run.returncode)


def children(root):
    table = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    rows = [tuple(map(int, line.split())) for line in table.splitlines()]
    found, new = set(), {root}
    while new:
        found |= new
        new = {p for p, parent in rows if parent in new} - found
    return found


def usage(root):
    """Of a process and all it has started: kB, descriptors, threads."""
    memory = descriptors = threads = 0
    for pid in children(root):
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                text = file.read()
            memory += int((re.search(r"VmRSS:\s+(\d+)", text) or [0, 0])[1])
            threads += int(re.search(r"Threads:\s+(\d+)", text)[1])
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            pass
    return memory, descriptors, threads


def mine():
    """Processes of this program that this test has started, also those that lost their parents."""
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += os.readlink(f"/proc/{pid}/exe") == CAPL and os.readlink(f"/proc/{pid}/cwd") == os.getcwd()
        except OSError:
            pass
    return found


def disk(*folders, without=()):
    """Files and kB; without: files and folders."""
    count = size = 0
    for folder in folders:
        for path, names, files in os.walk(folder):
            names[:] = [name for name in names if os.path.join(path, name) not in without]
            for name in files:
                if os.path.join(path, name) in without:
                    continue
                try:
                    size += os.lstat(os.path.join(path, name)).st_size
                    count += 1
                except OSError:
                    pass
    return count, size // 1024


def look(stays):
    out = {"processes": mine()}
    for name, process in (("server", stays.server), ("run", stays.run)):
        for what, value in zip(("kB", "descriptors", "threads"), usage(process.pid)):
            out[f"{name}: {what}"] = value
    out["files"], out["kB on the disk"] = disk(".", without=("./runs/long", "./long.log"))  # curves and lines of visits grow as they should
    out["files in /dev/shm"] = sum(name.startswith("capl") for name in os.listdir("/dev/shm"))
    return out


# ---- the actions ----


def forget():
    shutil.rmtree("runs/resume", ignore_errors=True)


def train(_):
    capl(RECIPE, f"--steps={dice.randint(5, 60)}")
    forget()


def evaluate(_):
    check("exact" in capl("eval", "model.capl", "--data=images", "--label=^([^_.]*)"), "an evaluation says how exact")


def predict(_):
    check(capl("predict", "model.capl", "images").count("\n") >= 20, "each image has a line")


def kill_and_resume(_):
    for _ in range(dice.randint(1, 3)):
        began = os.path.isdir("runs/resume/checkpoints") and os.listdir("runs/resume/checkpoints")
        run = start(RECIPE, *(["--resume"] if began else []))
        time.sleep(dice.uniform(0.1, 1))
        victims = list(children(run.pid))
        for pid in dice.sample(victims, dice.randint(1, len(victims))):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        run.communicate(timeout=60)
    saved = os.path.isdir("runs/resume/checkpoints") and any(n.endswith(".capl") for n in os.listdir("runs/resume/checkpoints"))
    if saved and not os.path.exists("runs/resume/result.json"):
        check("resumed: " in capl(RECIPE, "--resume"), "a killed run goes on")
    for name in os.listdir("runs"):
        if name != "long":
            shutil.rmtree("runs/" + name)


def attach(_):
    out = capl("attach", "runs/long", text="lr()\nstep(1);\nmodel\n")
    check("detached: the run continues" in out, "a visit ends and the run goes on", out)


def request(url, body):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as err:
        err.close()
        return err.code


def serve(stays):
    for _ in range(dice.randint(5, 50)):
        with open("images/" + dice.choice(os.listdir("images")), "rb") as file:
            body = file.read()
        good = dice.random() < 0.7
        if not good:
            body = body[:dice.randrange(8, len(body) // 2)]
        status = request(stays.url, body)
        check(status == 200 if good else 400 <= status < 500, f"a {'good' if good else 'broken'} image is answered", status)


def serve_anew(_):
    server = start("serve", "model.capl", "--port=0")
    check("serv" in server.stdout.readline(), "another server starts")
    server.send_signal(dice.choice((signal.SIGINT, signal.SIGTERM)))
    server.communicate(timeout=60)


ACTIONS = (train, evaluate, predict, kill_and_resume, attach, serve, serve_anew)


# ---- the whole ----


def prepare():
    for name in ("CACHE_HOME", "STATE_HOME", "RUNTIME_DIR"):
        os.makedirs(name, mode=0o700)
        ENV["XDG_" + name] = os.path.abspath(name)
    ENV["TMPDIR"] = os.path.abspath("tmp")
    os.makedirs("tmp")
    capl("generate", "--out=images", "--n=20", "--charset=0123456789", "--length=2", "--width=40", "--height=20")
    capl(RECIPE, "--steps=60")
    shutil.move("runs/resume/best.capl", "model.capl")
    forget()
    with open(RECIPE, encoding="utf-8") as file:
        text = file.read()
    text = text.replace("steps = 60", "steps = 100000000").replace("every = 2", "every = 200").replace("eval_every = 7", "eval_every = 500")
    text = text.replace("log_every = 1", "log_every = 500").replace("  return nn.cross", "  local t = capl.clock() + 0.02 while capl.clock() < t do end\n  return nn.cross")
    with open("long.lua", "w", encoding="utf-8") as file:
        file.write(text)


def settled(stays):
    """What is there when what was killed has gone."""
    time.sleep(4)
    return look(stays)


def grown(first, last):
    """Names of what is more at the end than it may be."""
    out = []
    for what, was in first.items():
        # a run that was killed leaves its socket and its folder for temporary files to the next one that starts
        few = 4 if what == "files" else 0
        limit = was * MOST_MEMORY + 2000 if what.endswith(": kB") else was + 64 if what == "kB on the disk" else was + few
        if last[what] > limit:
            out.append(what)
    return out


def report(counts, seconds, looks, minutes):
    print(f"{minutes:.0f} minutes, seed {SEED}\n\n| action | times | seconds |\n|---|---|---|")
    for action in ACTIONS:
        name = action.__name__
        print(f"| {name.replace('_', ' ')} | {counts[name]} | {seconds[name]:.0f} |")
    heads = ["after the first actions", *(f"{MINUTES * i / LOOKS:.0f} minutes" for i in range(1, len(looks) - 1)), "at the end"]
    print(f"\n| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for what in looks[0]:
        print(f"| {what} | {' | '.join(str(look[what]) for look in looks)} |")


def main():
    prepare()
    stays = Stays()
    counts, seconds = collections.Counter(), collections.Counter()
    began, looks = time.monotonic(), []
    plan = dice.sample(ACTIONS * WARM, len(ACTIONS) * WARM)
    while plan or time.monotonic() - began < 60 * MINUTES:
        action = plan.pop() if plan else dice.choice(ACTIONS)
        since = time.monotonic()
        action(stays)
        counts[action.__name__] += 1
        seconds[action.__name__] += time.monotonic() - since
        for process in (stays.server, stays.run):
            check(process.poll() is None, "what stays is still there after " + action.__name__)
        if not plan and len(looks) < LOOKS and time.monotonic() - began >= 60 * MINUTES * len(looks) / LOOKS:
            looks.append(settled(stays))
    looks.append(settled(stays))
    stays.end()
    report(counts, seconds, looks, (time.monotonic() - began) / 60)
    check(mine() == 0, "no process is left", mine())
    check(not grown(looks[0], looks[-1]), "nothing has grown", grown(looks[0], looks[-1]))
    print("\nnothing has grown, and no process is left")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    CAPL = os.path.realpath(CAPL)
    main()
