#!/usr/bin/env python3
"""Resampling and indexing, forward and backward, in capl and in PyTorch, in turn: milliseconds and their ratio.

usage: sampling.py [--dtype=f32|bf16] [--rounds=N] [--threads=N]

Images are plain and channels_last in PyTorch, the better one counts. Of each case the least time of all rounds; the ratio is
the median of the rounds' ratios. Both sides include a product with dy and its sum. capl: CAPL_BIN, else build/capl.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

REPEATS = 3


def image(*size):
    return lambda dtype, layout: torch.randn(*size).to(dtype).contiguous(memory_format=layout).requires_grad_()


def matrix(*size):
    return lambda dtype, layout: torch.randn(*size).to(dtype).requires_grad_()


def grid(*size):
    return lambda dtype, layout: (torch.rand(*size, 2) * 2 - 1).to(dtype).requires_grad_()


def classes(n, *size):
    return lambda dtype, layout: torch.randint(n, size)


CASES = {
    "bilinear 64,64,15,40 x2": ([image(64, 64, 15, 40)], lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    "bilinear 64,1,50,200 to 32,128": ([image(64, 1, 50, 200)], lambda x: F.interpolate(x, size=(32, 128), mode="bilinear")),
    "nearest 64,64,15,40 x2": ([image(64, 64, 15, 40)], lambda x: F.interpolate(x, scale_factor=2)),
    "grid_sample 64,32,30,80": ([image(64, 32, 30, 80), grid(64, 30, 80)], lambda x, g: F.grid_sample(x, g, align_corners=False)),
    "grid_sample 64,1,60,160": ([image(64, 1, 60, 160), grid(64, 60, 160)], lambda x, g: F.grid_sample(x, g, align_corners=False)),
    "embedding 1000x256 of 64x100": ([matrix(1000, 256), classes(1000, 64, 100)], lambda w, i: F.embedding(i, w)),
    "gather 2000x500 by 2000x300": ([matrix(2000, 500), classes(500, 2000, 300)], lambda x, i: x.gather(1, i)),
    "index_select 64x128x100 of dim 2": ([matrix(64, 128, 100), classes(128, 96)], lambda x, i: x.index_select(1, i)),
}


def torch_ms(inputs, run, dtype, layout):
    inputs = [make(dtype, layout) for make in inputs]
    dy = torch.randn_like(run(*inputs))
    best = float("inf")
    for k in range(REPEATS + 1):
        start = time.perf_counter()
        (run(*inputs) * dy).sum().backward()
        if k:
            best = min(best, time.perf_counter() - start)
        for x in inputs:
            x.grad = None
    return 1e3 * best


def capl_ms(dtype, threads):
    here = os.path.dirname(os.path.abspath(__file__))
    binary = os.environ.get("CAPL_BIN") or os.path.join(here, "..", "build", "capl")
    out = subprocess.run([binary, os.path.join(here, "sampling.lua"), f"--dtype={dtype}", f"--repeats={REPEATS}"], check=True,
                         capture_output=True, text=True, env={**os.environ, "CAPL_THREADS": str(threads)}).stdout
    return json.loads(out.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32
    rounds = []
    for _ in range(args.rounds):
        ours = capl_ms(args.dtype, args.threads)
        theirs = {name: min(torch_ms(*case, dtype, m) for m in (torch.contiguous_format, torch.channels_last))
                  for name, case in CASES.items()}
        rounds.append((ours, theirs))
    print(f"{'':36} {'capl ms':>9} {'torch ms':>9} {'ratio':>6}")
    for name in CASES:
        ratio = statistics.median(o[name] / t[name] for o, t in rounds)
        print(f"{name:36} {min(o[name] for o, _ in rounds):9.2f} {min(t[name] for _, t in rounds):9.2f} {ratio:6.2f}")


if __name__ == "__main__":
    main()
