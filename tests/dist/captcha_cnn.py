"""A small captcha_cnn learns on 2 and 4 ranks what it learns on one; and one rank pays nothing for what several need.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re

from ranks import capl, check, in_empty_folder, need_mpi

RECIPE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "captcha_cnn.lua")
STEPS = 20


def train(n):
    """-> losses by step, then what it says of fresh images in all; bytes that rank 0 gave to others"""
    status, out, err = capl(RECIPE, f"--ranks={n}", "--joined=true", "--quiet", timeout=60, env={"OMP_NUM_THREADS": "1"})
    check(status == 0, f"it trains on {n} ranks", out + err)
    losses = [float(number) for number in re.findall(r"^loss (\S+)$", out, re.M)]
    check(len(losses) == STEPS, f"{STEPS} steps on {n} ranks", out)
    outputs, count = re.search(r"^val (\S+) of (\d+)$", out, re.M).groups()
    check(count == "50", "each fresh image counts once", count)
    return [*losses, float(outputs)], int(re.search(r"^sent (\d+)$", out, re.M)[1])


def ops(joined):
    """Every op of a step by layer and name, with how often it was called."""
    status, out, err = capl("bench", RECIPE, "--ops", "--json", "--steps=2", f"--joined={joined}", timeout=60)
    check(status == 0, "the steps are measured", out + err)
    return sorted((op["layer"], op["op"], op["calls"]) for op in json.loads(out)["ops"])


def main():
    alone = ops("true")
    check(len(alone) > 20 and alone == ops("false"), "the steps of one rank have no op for others", alone)
    need_mpi()
    losses, sent = train(1)
    check(sent == 0, "one rank sends nothing", sent)
    check(losses[-2] < 0.6 * losses[0], "it learns", losses)
    for n in (2, 4):
        others, bytes_sent = train(n)
        worst = [abs(a - b) / a for a, b in zip(losses, others)]
        check(max(worst[:-1]) < 1e-5, f"the losses of {n} ranks are those of one, within rounding", worst)
        check(worst[-1] < 1e-3, f"what {n} ranks say in the end too", worst[-1])
        check(bytes_sent > 0, "they send their gradients", bytes_sent)


in_empty_folder(main)
