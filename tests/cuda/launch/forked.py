"""Ranks on the GPUs of one machine are forked by capl: each has its own, they talk by NCCL, and none outlives the others.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "dist"))
from ranks import CAPL, capl, check, finish, in_empty_folder, start, write  # noqa: E402

SHIM = sys.argv[1]
SUM = """--- capl: 1
--- needs: ranks=gpus
local world = capl.distributed()
local sum = world:all_reduce(capl.full({3}, world.rank + 1))
print(("rank %d of %d on %s: %g"):format(world.rank, world.size, world.device, sum:get(1)))
"""
WAITS = SUM + "world:barrier()\nif world.rank == 1 then while true do end end\nworld:barrier()\n"


def machine(gpus):
    paths = os.pathsep.join([SHIM, os.path.join(SHIM, "driver")])
    return {"CAPL_BACKEND_PATH": SHIM, "LD_LIBRARY_PATH": paths, "CAPL_SHIM_DEVICES": str(gpus or 1), "CAPL_DEVICE": "",
            **({"FAKE_GPUS": str(gpus)} if gpus else {})}


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(word) for word in file.read().split()]


def main():
    write("sum.lua", SUM)
    for words in ([], ["--ranks=2"], ["--device=cuda"]):
        status, out, err = capl("sum.lua", *words, env=machine(2))
        lines = {line for line in out.splitlines() if ": 3" in line and "report" not in line}
        check((status, lines) == (0, {"rank 0 of 2 on cuda:0: 3", "[rank 1] rank 1 of 2 on cuda:1: 3"}),
              f"a rank on each of two GPUs {' '.join(words)}", (status, out, err))
    status, out, err = capl("sum.lua", env=machine(1))
    check(status == 0 and "rank 0 of 1 on cuda:0: 1" in out, "one GPU is one process", (status, out, err))
    status, out, err = capl("sum.lua", "--ranks=3", env=machine(2))
    check(status == 1 and "3 ranks, but this machine has 2 GPUs" in err, "more ranks than GPUs", err)
    status, out, err = capl("sum.lua", env=machine(0))
    check(status == 1 and "the NVIDIA driver finds no GPU" in err, "a driver without a GPU", err)

    process = start(CAPL, write("waits.lua", WAITS), env=machine(2))
    end = time.monotonic() + 20
    while len(children(process.pid)) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    check(process.stdout.readline() and process.stdout.readline(), "both ranks work")
    ranks = children(process.pid)
    os.kill(ranks[1], signal.SIGKILL)
    begun = time.monotonic()
    status, out, err = finish(process, 20)
    check(status == 137 and time.monotonic() - begun < 5, "the death of one ends the job in under 5 s", (status, err))
    check(len(re.findall(rf"rank 1 \(process {ranks[1]}\) was ended by signal 9", err)) == 1, "it is told once", err)
    check(not any(os.path.exists(f"/proc/{pid}") for pid in ranks), "nobody is left")


in_empty_folder(main)
