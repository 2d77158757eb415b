"""Ranks that die, hang, run out of memory or go ways of their own: the job ends soon, and one line says who it was.

SPDX-License-Identifier: Apache-2.0
"""
import concurrent.futures
import glob
import re
import signal
import subprocess
import time

from ranks import CAPL, MPIRUN, check, finish, in_empty_folder, need_mpi, os, start, write

WATCHDOG = 3
# mode: what rank 1 does at step 20; the others go on.
RECIPE = """--- capl: 1
local p = capl.params{mode = "well", steps = 1000000, mark = "none"}
local world = capl.distributed()
local model = nn.Linear(8, 8)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
local kept = {}
for step = 1, p.steps do
  local loss = (model(capl.ones({4, 8})) - 1):pow(2):mean()
  opt:backward_step(loss)
  if step == 20 and p.mark ~= "none" then capl.io.save(capl.run_folder() .. "/" .. p.mark .. ".capl", {x = capl.ones(1)}) end
  if step == 20 and p.mode == "same" then error("all of us fail") end
  if step == 20 and world.rank == 1 then
    if p.mode == "loop" then while true do end end
    if p.mode == "error" then error("the data is gone") end
    if p.mode == "early" then break end
    if p.mode == "barrier" then world:barrier() end
    if p.mode == "memory" then for i = 1, 1000 do kept[i] = capl.ones({1000, 1000}) end end
    if p.mode == "hold" then
      world:hold("compiling")
      local since = capl.clock()
      while capl.clock() - since < 3.5 do end
      world:hold(nil)
    end
  end
end
world:print("all is well")
"""


def begin(*flags, ranks=2):
    own = any(flag.startswith("--watchdog=") for flag in flags)
    return start(CAPL, "job.lua", f"--ranks={ranks}", *([] if own else [f"--watchdog={WATCHDOG}"]), *flags)


def processes():
    """{process: its parent}"""
    table = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return {int(pid): int(parent) for pid, parent in (line.split() for line in table.splitlines())}


def below(pid, parents):
    """pid and all it has started, by whatever steps."""
    return [pid] + [d for child, parent in parents.items() if parent == pid for d in below(child, parents)]


def workers(job):
    """{rank: process} of the ranks below a job: the last process of each, which runs the recipe."""
    found = {}
    for pid in below(job.pid, processes()):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", file.read())
        except OSError:
            continue
        if rank:
            found[int(rank[1])] = pid
    return found


def begin_and_see(name, *flags, ranks=2):
    """Starts a job and waits until rank 0 has made 20 steps: only then is there something to be lost."""
    job = begin(*flags, "--mark=" + name, ranks=ranks)
    return job, seen(job, name)


def seen(job, name):
    until = time.monotonic() + 30
    while not glob.glob(f"runs/*/{name}.capl"):
        if job.poll() is not None or time.monotonic() > until:
            check(False, "the ranks come to step 20", finish(job, 1))
        time.sleep(0.02)
    return workers(job)


def ended(job, since, what, status, most, *texts):
    """The job ends in so many seconds with that status, and says each text once."""
    code, out, err = finish(job, 60)
    took, said = time.monotonic() - since, out + err
    detail = f"exit status {code} after {took:.1f} s\n{said}"
    check(code == status, f"{what}: exit status {status}", detail)
    check(took < most, f"{what}: the job is over in {most} s", detail)
    for text in texts:
        check(len(re.findall(text, said)) == 1, f"{what}: says once {text}", detail)
    check(len(re.findall("wait for it|ended with an error|has done its work|do not exchange", said)) <= 1,
          f"{what}: gives one reason", detail)


def a_killed_rank_ends_the_job():
    job, ranks = begin_and_see("one", ranks=3)
    since = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    ended(job, since, "a killed rank", 137, 5,
          r"rank 1 \(host .*, process \d+\) died in step \d+; the others wait for it: (all_reduce|message) \d+", "--resume")


def a_killed_rank_0_ends_the_job():
    job, ranks = begin_and_see("two")
    since = time.monotonic()
    os.kill(ranks[0], signal.SIGKILL)
    ended(job, since, "a killed rank 0", 137, 5, r"rank 0 \(host .*, process \d+\) died in step \d+")


def hanging_ranks_are_found_out():
    looping = begin("--mode=loop")
    stopped, ranks = begin_and_see("three")
    os.kill(ranks[1], signal.SIGSTOP)
    stopped_0, ranks = begin_and_see("four")
    os.kill(ranks[0], signal.SIGSTOP)
    since = time.monotonic()
    what = r" \(host .*, process \d+\) has not answered for \d\.\d s: (all_reduce|message) \d+ in step \d+; the others wait for it"
    ended(stopped, since, "a rank that is stopped", 75, WATCHDOG + 5, "rank 1" + what)
    ended(stopped_0, since, "a rank 0 that is stopped", 75, WATCHDOG + 5, "rank 0" + what)
    ended(looping, since, "a rank in an endless loop", 75, WATCHDOG + 5,
          r"rank 1 \(host .*, process \d+\) has kept the others waiting for \d\.\d s: (all_reduce|message) \d+ in step 21")


def errors_of_one_rank_end_the_others():
    since = time.monotonic()
    jobs = {mode: begin("--mode=" + mode) for mode in ("error", "early", "barrier")}
    ended(jobs["error"], since, "an error of one rank", 1, 10,
          r"rank 1 \(.*\) ended with an error: job.lua:14: the data is gone", r"\[rank 1\] job.lua:14: the data is gone")
    ended(jobs["early"], since, "a rank that ends early", 75, 10,
          r"rank 1 \(host .*, process \d+\) has done its work.*, but rank 0 still needs it: all_reduce \d+ in step 21")
    ended(jobs["barrier"], since, "ranks in different calls", 75, 12,
          r"the ranks do not exchange the same: rank 0 .* is in all_reduce \d+ of .*, rank 1 .* in barrier \d+")


def the_same_error_of_all_is_said_once():
    since = time.monotonic()
    ended(begin("--mode=same"), since, "the same error on all ranks", 1, 10, "job.lua:11: all of us fail")


def memory_of_one_rank_runs_out():
    flags = ["job.lua", "--mode=memory", f"--watchdog={WATCHDOG}"]
    since = time.monotonic()
    job = start(*MPIRUN, "-n", "1", CAPL, *flags, ":", "-n", "1", "env", "CAPL_MEMORY_LIMIT=40000000", CAPL, *flags)
    ended(job, since, "a rank without memory", 1, 10, r"rank 1 \(.*\) ended with an error: .*memory")


def a_rank_that_holds_the_watchdog_and_a_job_that_was_stopped_go_on():
    """With a watchdog of 2 s: rank 1 says that it is compiling for 3.5 s; and all ranks are stopped for as long."""
    holding = begin("--watchdog=2", "--steps=2000", "--mode=hold")
    stopped, ranks = begin_and_see("five", "--watchdog=2", "--steps=20000")
    everybody = ranks.values()
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(3.5)
    for pid in everybody:
        os.kill(pid, signal.SIGCONT)
    since = time.monotonic()
    ended(holding, since, "a rank that holds the watchdog", 0, 20, "all is well",
          r"note: rank 1 \(host .*\) is compiling for \d s; the others wait")
    ended(stopped, since, "a job that was stopped as a whole", 0, 20, "all is well")


def timed(test):
    began = time.monotonic()
    test()
    print(f"{test.__name__.replace('_', ' ')}: {time.monotonic() - began:.1f} s")


def main():
    need_mpi()
    write("job.lua", RECIPE)
    tests = (hanging_ranks_are_found_out, a_rank_that_holds_the_watchdog_and_a_job_that_was_stopped_go_on,
             a_killed_rank_ends_the_job, a_killed_rank_0_ends_the_job, errors_of_one_rank_end_the_others,
             the_same_error_of_all_is_said_once, memory_of_one_rank_runs_out)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:  # most of the time they wait
        for done in [pool.submit(timed, test) for test in tests]:
            done.result()


in_empty_folder(main)
