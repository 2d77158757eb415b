"""Two hosts on one machine: network namespaces, joined by a cable that the test can cut, with a name of their own each.

The ranks find each other over TCP, and so do mpirun's daemons. Needs root and namespaces; is skipped elsewhere.
SPDX-License-Identifier: Apache-2.0
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import time

from ranks import CAPL, check, finish, in_empty_folder, need_mpi, skip, start, write

TAG = f"capl{os.getpid() % 100000}"
NAMES = [TAG + "a", TAG + "b"]
NETWORK = "10.77.%d" % (os.getpid() % 250)
ADDRESSES = [NETWORK + ".1", NETWORK + ".2"]
WATCHDOG = 3

# What ssh would be: mpirun calls it with a host and the words of a command.
AGENT = """#!/bin/bash
shift
exec ip netns exec %s unshare --uts bash -c 'hostname host-b; exec bash -c "$*"' agent "$@"
""" % NAMES[1]

RECIPE = """--- capl: 1
local p = capl.params{steps = 20}
local world = capl.distributed()
local model = nn.Linear(8, 8)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
for step = 1, p.steps do
  opt:backward_step((model(capl.ones({4, 8})) - 1):pow(2):mean())
  if step == 20 and world.is_main then capl.io.save(capl.run_folder() .. "/seen.capl", {x = capl.ones(1)}) end
end
world:print("hosts " .. table.concat(world:all_gather_object(world.host), " ") .. ", local ranks " ..
  table.concat(world:all_gather_object(world.local_rank), " "))
"""


def ip(*words, may_fail=False):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0 and not may_fail:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def make_hosts():
    if os.geteuid() != 0:
        skip("two hosts on one machine need root")
    if not shutil.which("ip") or not shutil.which("unshare"):
        skip("ip (iproute2) is not installed")
    try:
        for name in NAMES:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", TAG + "v", "netns", NAMES[0], "type", "veth", "peer", "name", TAG + "w", "netns", NAMES[1])
        for name, cable, address in zip(NAMES, "vw", ADDRESSES):
            ip("-n", name, "address", "add", address + "/24", "dev", TAG + cable)
            ip("-n", name, "link", "set", TAG + cable, "up")
    except OSError as reason:
        skip(f"namespaces are not allowed here: {reason}")


def on_hosts(*flags):
    """capl on the first host starts one rank on each."""
    network = NETWORK + ".0/24"
    settings = {"plm_rsh_agent": os.path.abspath("agent"), "btl": "self,tcp", "btl_tcp_if_include": network,
                "oob_tcp_if_include": network, "orte_default_hostfile": os.path.abspath("hosts")}
    return start("ip", "netns", "exec", NAMES[0], "unshare", "--uts", "bash", "-c", 'hostname host-a; exec "$@"', "run", CAPL,
                 "job.lua", "--ranks=2", f"--watchdog={WATCHDOG}", *flags,
                 env={"OMPI_MCA_" + key: value for key, value in settings.items()})


def ranks_of_two_hosts_train_together():
    status, out, err = finish(on_hosts(), 40)
    check(status == 0 and "hosts host-a host-b, local ranks 0 0" in out, "ranks of two hosts train together", (status, out, err))


def a_cut_cable_ends_the_job():
    for path in glob.glob("runs/*/seen.capl"):
        os.remove(path)
    job = on_hosts("--steps=10000000")
    until = time.monotonic() + 30
    while not glob.glob("runs/*/seen.capl") and job.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    check(glob.glob("runs/*/seen.capl"), "the ranks come to step 20", job.poll())
    since = time.monotonic()
    ip("-n", NAMES[0], "link", "set", TAG + "v", "down")
    status, out, err = finish(job, 25)
    took = time.monotonic() - since
    said = f"exit status {status} after {took:.1f} s\n{out}\n{err}"
    check(re.search(r"rank 1 \(host host-b, process \d+\) has not answered for \d\.\d s: (all_reduce|message) \d+ in step \d+; "
                    "the others wait for it", err), "a cut cable: rank 0 names the other", said)
    check(took < WATCHDOG + 5, f"a cut cable: the job is over {WATCHDOG} + 5 s later", said)
    check(status == 75, "a cut cable: exit status 75", said)
    check("ORTE" not in err, "a cut cable: mpirun does not say it again", said)


def main():
    need_mpi()
    make_hosts()
    write("agent", AGENT)
    os.chmod("agent", 0o755)
    write("hosts", "".join(f"{address} slots=1\n" for address in ADDRESSES))
    write("job.lua", RECIPE)
    ranks_of_two_hosts_train_together()
    a_cut_cable_ends_the_job()


try:
    in_empty_folder(main)
finally:
    for each in NAMES if shutil.which("ip") else ():
        subprocess.run("ip netns pids %s | xargs -r kill -9" % each, shell=True, stderr=subprocess.DEVNULL)
        ip("netns", "del", each, may_fail=True)
sys.exit(0)
