"""The same short training under every instruction set: alike in its losses, and as good in the end.

In single precision, so that only the order of sums differs. Small differences grow with the steps: the first losses have
to agree closely, the last ones as two runs of equal quality do.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os

from program import capl, check, in_empty_folder, recipe

STEPS = 60
WORDS = [f"--samples={64 * STEPS}", "--batch=64", "--precision=fp32", "--val=100", "--test=300", "--files=10", "--warmup=20"]


def best_here():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        flags = next((line for line in file if line.startswith("flags")), "").split()
    return [name for name, flag in (("avx512", "avx512bw"), ("avx2", "avx2")) if flag in flags] + ["portable"]


def train(isa):
    """-> losses by step, share of characters read right"""
    os.makedirs(isa)
    os.chdir(isa)
    status, out, err = capl(recipe("captcha.lua"), *WORDS, env={"CAPL_ASSUME": f"isa={isa}", "OMP_NUM_THREADS": "2"}, timeout=600)
    os.chdir("..")
    check(status == 0, f"it trains under {isa}", out + err)
    losses = {}
    with open(f"{isa}/runs/captcha/metrics.jsonl", encoding="utf-8") as file:
        for record in map(json.loads, file):
            if record.get("kind", "step") == "step" and "lr" in record:
                losses[record["step"]] = record["loss"]
    chars = float(out.split("chars=")[1].split()[0])
    print(f"   {isa}: loss {losses[min(losses)]:.4f} to {losses[max(losses)]:.4f}, chars {chars} %")
    return losses, chars


def in_effect(isa):
    status, out, err = capl("info", env={"CAPL_ASSUME": f"isa={isa}"})
    check(status == 0 and f"{isa}" in out.split("devices")[1].split("kernels")[0], f"{isa} is in effect when asked for", out + err)


def main():
    isas = best_here()
    for isa in isas:
        in_effect(isa)
    expected, chars = train(isas[0])
    check(expected[max(expected)] < expected[min(expected)] - 0.5, "the loss falls", str(expected))
    for isa in isas[1:]:
        losses, right = train(isa)
        check(losses.keys() == expected.keys(), "the same steps", str(losses))
        for step in sorted(losses)[:3]:
            check(abs(losses[step] - expected[step]) < 2e-3 * expected[step], f"{isa}: loss of step {step}",
                  f"{losses[step]} against {expected[step]}")
        last = sorted(losses)[-10:]
        mean, other = (sum(run[step] for step in last) / 10 for run in (losses, expected))
        check(abs(mean - other) < 0.1 * other, f"{isa}: the last losses", f"{mean} against {other}")
        check(abs(right - chars) < 8, f"{isa}: it reads as well", f"{right} against {chars}")


in_empty_folder(main)
