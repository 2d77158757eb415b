"""--restart=N: a run that loses ranks goes on by itself and ends with the weights of one that was left alone.

usage: restart.py [KILLS] [SEED]    how many kills (1), at moments by the seed (22, or random), of a worker, its supervisor, both, or mpirun
The steps are made of shards, so the run left alone has one process. SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

from ranks import CAPL, check, finish, in_empty_folder, need_mpi, start, write

KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
SEED = sys.argv[2] if len(sys.argv) > 2 else "22"
SEED = random.randrange(10**6) if SEED == "random" else int(SEED)
STEPS = 24 if KILLS == 1 else 200
RECIPE = """--- capl: 1
--- needs: minutes=60
local p = capl.params {steps = 20, batch = 8, deterministic = true, shards = 2, slow = 0}
capl.manual_seed(5)
local function loader(role, count)
  return data.loader{source = data.captcha{length = 2, charset = "AB", width = 32, height = 16, count = count, seed = 1},
    role = role, batch = p.batch, workers = 1, augment = role == "train" and {rotate = 5} or nil, shuffle = role == "train"}
end
local net = nn.Sequential{nn.Conv2d(1, 4, 3, {padding = 1}), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(),
  nn.Dropout(0.2), nn.Linear(4 * 4 * 8, 4)}
capl.model(net, {output = "text", charset = "AB", length = 2})
train.fit{model = net, train = loader("train", 100), val = loader("val", 20), steps = p.steps, eval_every = 7, log_every = 1,
  loss = function(y, batch)
    local t = capl.clock()
    while capl.clock() - t < p.slow do end
    return nn.multilabel_soft_margin(y, batch.onehot)
  end,
  optimizer = optim.AdamW(net:parameters(), {lr = 3e-3}), precision = "fp32", checkpoint = {every = 2}, ema = 0.9,
  monitor_every = 0}
"""


def weights(folder):
    found = {}
    for name in ("last", "best"):
        with open(f"{folder}/{name}.capl/weights.safetensors", "rb") as file:
            found[name] = hashlib.sha256(file.read()).hexdigest()
    with open(f"{folder}/metrics.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    found["curve"] = [(row["step"], row["loss"]) for row in rows if "loss" in row]
    return found


def newest_step(folder="runs/r"):
    try:
        return max(int(name[5:11]) for name in os.listdir(folder + "/checkpoints") if name.endswith(".capl"))
    except (OSError, ValueError):
        return 0


def tree(root):
    """[process, …] from root down: pid, its parent and its name."""
    table = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in table.splitlines()]
    below, found = {root}, []
    for _ in rows:
        more = [(int(p), int(q), name) for p, q, name in rows if int(q) in below and int(p) not in below]
        found += more
        below |= {p for p, _, _ in more}
        if not more:
            return found


seen = set()  # supervisors of starts that were killed: they may take a moment to end


def victims(job, dice):
    """A worker of a rank, its supervisor, both, or mpirun -> their names and processes; nothing while they start."""
    below = tree(job.pid)
    mpirun = [p for p, parent, name in below if parent == job.pid]
    supervisors = [p for p, parent, name in below if parent in mpirun and name == "capl"]
    workers = {s: [p for p, parent, name in below if parent == s and name == "capl"] for s in supervisors}
    if len(supervisors) != 2 or not all(workers.values()) or seen & set(supervisors):
        return "nobody", []
    if newest_step():
        seen.update(supervisors)
    s = dice.choice(supervisors)
    return dice.choice((("a worker", workers[s]), ("a supervisor", [s]), ("a rank", [s, *workers[s]]), ("mpirun", mpirun))
                       if KILLS > 1 else (("a worker", workers[s]),))


def kill_one(job, dice):
    """Waits for a moment after the first checkpoint and kills. -> who was killed, nil if the run was over."""
    if KILLS > 1:
        time.sleep(dice.uniform(0, 8))
    until = time.monotonic() + 60
    while job.poll() is None and time.monotonic() < until:
        who, pids = victims(job, dice)
        if pids and newest_step():
            for pid in pids:
                try:
                    os.kill(pid, dice.choice((signal.SIGKILL, signal.SIGABRT)) if KILLS > 1 else signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return who
        time.sleep(0.02)
    return None


def alone():
    status, out, err = finish(start(CAPL, "r.lua", f"--steps={STEPS}", "--batch=16"), 60)
    check(status == 0, "the run left alone", f"{out}\n{err}")
    found = weights("runs/r")
    shutil.rmtree("runs")
    return found


def killed(dice):
    """The run with its kills -> output of both streams, who was killed."""
    slow = "--slow=0.03" if KILLS == 1 else "--slow=0.25"
    with open("out", "w", encoding="utf-8") as out:
        job = subprocess.Popen([CAPL, "r.lua", "--ranks=2", f"--restart={KILLS}", f"--steps={STEPS}", slow], stdout=out,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
                               env={**os.environ, "OMP_NUM_THREADS": "1"})
        who = [name for name in (kill_one(job, dice) for _ in range(KILLS)) if name]
        status = job.wait(timeout=600)
    with open("out", encoding="utf-8") as file:
        text = file.read()
    check(status == 0, "a run that loses ranks ends well", f"exit status {status}, seed {SEED}, killed {who}\n{text}")
    return text, who


def same_bits(whole):
    text, who = killed(random.Random(SEED))
    check(len(who) == KILLS, "all kills came before its end", f"{who}\n{text}")
    said = re.findall(r"capl: restart (\d+) of (\d+) \(the job ended with status \d+\): resuming runs/r$", text, re.M)
    check(len(said) == KILLS and said[-1] == (str(KILLS), str(KILLS)), "each restart is reported", f"{said} {who}\n{text}")
    check(f"report: restarts after the loss of a rank: {KILLS} of {KILLS}" in text, "and at the end", text)
    check(os.listdir("runs") == ["r"], "it is one run", str(os.listdir("runs")))
    pieces = weights("runs/r")
    for key in whole:
        check(pieces[key] == whole[key], f"{key} is that of the run left alone (seed {SEED})", f"{whole[key]}\n{pieces[key]}\n{text}")
    with open("runs/r/report.html", encoding="utf-8") as file:
        check(f"restart {KILLS} of {KILLS} after the loss of a rank (exit status" in file.read(), "the report has it")
    with open("runs/r/result.json", encoding="utf-8") as file:
        check(json.load(file)["restarts"] == KILLS, "result.json has it")
    print(f"ok: seed {SEED}, killed {', '.join(who)}; weights and {len(whole['curve'])} losses equal")


def fewer_ranks(whole):
    """What a job does that has lost a GPU: one rank takes the batch of both."""
    os.remove(f"runs/r/checkpoints/step-{STEPS:06d}.capl")
    status, out, err = finish(start(CAPL, "r.lua", f"--steps={STEPS}", env={"CAPL_RESTART": "1 3 75 2 runs/r"}), 60)
    check(status == 0 and re.search(r"batch +16 +restart on other ranks", out), "one rank goes on with the images of a step",
          f"{out}\n{err}")
    check(weights("runs/r") == whole, "and with the same bits", out)


def ends():
    """An error of the recipe is no loss, and no restarts are made of what another has started."""
    write("bad.lua", "--- capl: 1\nerror('wrong')\n")
    status, out, err = finish(start(CAPL, "bad.lua", "--restart=3"), 30)
    check(status == 1 and "restart" not in err, "an error is not repeated", f"{status}\n{out}\n{err}")
    status, out, err = finish(start(CAPL, "bad.lua", "--restart=3", env={
        "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}), 30)
    check(status == 2 and "another launcher has started these" in err, "ranks of another launcher", f"{status}\n{out}\n{err}")


def main():
    write("r.lua", RECIPE)
    whole = alone()
    same_bits(whole)
    if KILLS == 1:
        fewer_ranks(whole)
        ends()


need_mpi()
in_empty_folder(main)
