"""Ranks on GPUs without a GPU: two processes, each with the cuda backend on the stand-in for CUDA, talk by the stand-in for
NCCL over MPI. Collectives are right in every dtype; twenty steps of two ranks equal those of one, plain and captured; every
stream, event, group and recording is as a GPU needs it (order.py); and what is missing or contradicts itself is told.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "dist"))
from ranks import capl, check, in_empty_folder, need_mpi, on_ranks, skip, write  # noqa: E402

import order as traces  # noqa: E402

SHIM = sys.argv[1]  # folder of the backend with the stand-ins
THREADS = os.path.join(SHIM, "libmpi_threads.so")
TRAIN = os.path.join(HERE, "train.lua")


def environment(**variables):
    return {"CAPL_BACKEND_PATH": SHIM, "CAPL_DEVICE": "cuda", "CAPL_SHIM_DEVICES": "2", "LD_LIBRARY_PATH": SHIM, **variables}


def run(n, *words, **variables):
    """capl on n ranks -> (status, output of all)."""
    code, out, err = on_ranks(n, *words, env=environment(**variables), options=("-x", "LD_PRELOAD=" + THREADS))
    return code, out + err


def traced(what, n, *words, late):
    """Likewise, has to end well -> (output, its traces, read and without a complaint). late: when the shim runs work."""
    for old in glob.glob("trace.*"):
        os.remove(old)
    code, text = run(n, *words, CAPL_SHIM_TRACE=os.path.abspath("trace"), CAPL_SHIM_ASYNC=late)
    check(code == 0, what, text)
    ranks = traces.read(glob.glob("trace.*"))
    check([rank.rank for rank in ranks] == list(range(n)), f"{what}: every rank has its trace, without a complaint")
    check({rank.transport for rank in ranks} == {"mpi"}, f"{what}: over MPI")
    return text, ranks


# ---- what is right ----


def collectives():
    text, ranks = traced("collectives on two GPUs", 2, os.path.join(HERE, "collectives.lua"), late="1")
    check("121 answers are right" in text, "collectives are what the arithmetic in Lua says", text)
    made = {call[0] for call in ranks[0].calls}
    check(made >= {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "exchange"}, "all of them were called", made)


def numbers(text):
    found = [float(x) for line in re.findall(r"^(?:loss \d+|weights) (.*)$", text, re.M) for x in line.split()]
    check(len(found) == 22, "20 losses and 2 sums of the weights are printed", text)
    return found


def training():
    code, alone, err = capl(TRAIN, env=environment())
    check(code == 0, "one rank trains", err)
    plain, _ = traced("two ranks train", 2, TRAIN, late="2")
    graph, ranks = traced("two ranks train captured", 2, TRAIN, "--graph=true", late="1")
    wanted, found = numbers(alone), numbers(plain)
    check(all(abs(a - b) <= 2e-6 * max(1, abs(a)) for a, b in zip(wanted, found)), "two ranks follow one", f"{wanted}\n{found}")
    check(found == numbers(graph), "captured steps give the same numbers", f"{plain}\n{graph}")
    for rank in ranks:
        seen = dict(rank.counts)
        check(seen["recordings"] == 1 and seen["launches"] == 18, "one step was recorded and launched 18 times", seen)
        check(seen["recorded"] >= 2, "the pieces of the gradients are part of the recording", seen)
        check(seen["plain"] - 20 < 16, "a launched step makes no collectives beside the recorded ones", seen)


def complaint_of(text):
    write("spoilt", text)
    try:
        traces.read(["spoilt"])
    except traces.Complaint as found:
        return str(found)
    return "nothing"


def complaints():
    """What order.py is there to find is found, in a good trace that was spoilt."""
    _, ranks = traced("a good trace", 2, TRAIN, "--graph=true", "--steps=4", late="1")
    with open(ranks[0].path, encoding="utf-8") as file:
        good = file.read()
    own = re.search(r"^nccl \S+ (\d+)", good, re.M).group(1)
    spoilt = {
        "it does not wait for the arithmetic": re.sub(rf"^wait {own} \d+\n", "", good, flags=re.M),
        "before the arithmetic waits for all": re.sub(r"^wait 1 \d+\n", "", good, flags=re.M),
        "on a stream of other work": re.sub(rf"^nccl (\S+) {own} ", r"nccl \1 1 ", good, flags=re.M),
        "not part of the recording": good.replace(" captured", ""),
        "the host waits inside": re.sub(r"^(begin 1)$", r"\1\nsync 1", good, flags=re.M),
        "has no priority": re.sub(rf"^stream {own} priority .*$", f"stream {own} priority 1", good, flags=re.M),
        "before the recorded steps": good + "comm waits\n",
        "inside a group": re.sub(r"^nccl all_reduce", "group +1\nnccl all_reduce", good, count=1, flags=re.M),
    }
    for complaint, text in spoilt.items():
        found = complaint_of(text)
        check(complaint in found, f"a spoilt trace is complained about: {complaint}", found)


# ---- what is wrong ----


def refused(what, n, *parts, **variables):
    code, text = run(n, "few.lua", **variables)
    check(code in (1, 75) and all(part in text for part in parts), what + " is reported", f"status {code}, wanted {parts}\n{text}")


def refusals():
    write("few.lua", "--- capl: 1\nlocal t = capl.ones(5)\nfor k = 1, 4 do capl.distributed():all_reduce(t) end\nprint(t:sum():item())\n")
    refused("an NCCL that is too old", 2, "NCCL 2.14 or newer", "is version 2.10.3", "pip install nvidia-nccl-cu", CAPL_FAKE_NCCL="old")
    refused("a GPU for two", 2, "rank 0 and rank 1 have the same GPU, 0000:01:00.0 of host", "--ranks=1", CAPL_SHIM_DEVICES="1")
    refused("more ranks than GPUs", 3, "rank 2 has no GPU: 3 ranks are on host", "which has 2 GPUs", "--ranks=gpus")
    refused("a call that fails", 2, "few.lua:3: NCCL failed (all_reduce on cuda:", "unhandled system error", "NCCL_DEBUG=INFO",
            CAPL_FAKE_NCCL="fails")
    refused("an NCCL that does not wait", 2, "NCCL failed (joining the ranks on cuda:", "unset NCCL_COMM_BLOCKING", NCCL_COMM_BLOCKING="0")
    refused("ranks that are lost", 2, "few.lua:3: NCCL failed (", "remote process exited", CAPL_FAKE_NCCL="breaks")


def main():
    need_mpi()
    if not os.path.exists(THREADS):
        skip("the stand-in for NCCL was built without MPI (libopenmpi-dev was not there)")
    for part in (collectives, training, complaints, refusals):
        part()


in_empty_folder(main)
