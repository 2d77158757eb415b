#!/usr/bin/env python3
"""Depthwise convolutions, forward and backward, in capl and in PyTorch, in turn: milliseconds and their ratio.

usage: depthwise.py [--dtype=f32|bf16] [--rounds=N] [--threads=N] [--json]

PyTorch runs plain and channels_last, the better one counts. Of each shape the least time of all rounds; the ratio is the
median of the rounds' ratios. capl: CAPL_BIN, else build/capl. Rows with groups below the channels are grouped convolutions.
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

# N, C, H, W, kernel, stride, groups
SHAPES = [
    (64, 32, 12, 50, 3, 1, 32), (64, 64, 15, 40, 3, 1, 64), (64, 128, 15, 40, 3, 1, 128), (64, 256, 12, 50, 3, 1, 256),
    (64, 64, 30, 80, 3, 1, 64), (64, 64, 30, 80, 3, 2, 64), (64, 128, 15, 40, 3, 2, 128), (64, 64, 15, 40, 5, 1, 64),
    (64, 128, 15, 40, 5, 2, 128), (16, 32, 112, 112, 3, 1, 32), (16, 96, 56, 56, 3, 2, 96), (16, 144, 56, 56, 3, 1, 144),
    (16, 192, 28, 28, 3, 1, 192), (16, 240, 14, 14, 5, 1, 240), (16, 576, 7, 7, 3, 1, 576), (8, 40, 64, 48, 3, 1, 40),
    (8, 80, 32, 24, 3, 1, 80), (8, 20, 64, 48, 3, 2, 20),
    (64, 64, 15, 40, 3, 1, 4),
]
REPEATS = 8


def torch_ms(shape, dtype, memory_format):
    n, c, h, w, kernel, stride, groups = shape
    x = torch.randn(n, c, h, w).to(dtype).contiguous(memory_format=memory_format).requires_grad_()
    weight = torch.randn(c, c // groups, kernel, kernel).to(dtype).contiguous(memory_format=memory_format).requires_grad_()
    bias = torch.randn(c).to(dtype).requires_grad_()
    dy = torch.randn_like(F.conv2d(x, weight, bias, stride, (kernel - 1) // 2, 1, groups))
    best = float("inf")
    for k in range(REPEATS + 1):
        start = time.perf_counter()
        F.conv2d(x, weight, bias, stride, (kernel - 1) // 2, 1, groups).backward(dy)
        if k:
            best = min(best, time.perf_counter() - start)
        x.grad = weight.grad = bias.grad = None
    return 1e3 * best


def capl_ms(dtype, threads):
    shapes = ";".join(",".join(map(str, shape)) for shape in SHAPES)
    here = os.path.dirname(os.path.abspath(__file__))
    binary = os.environ.get("CAPL_BIN") or os.path.join(here, "..", "build", "capl")
    out = subprocess.run([binary, os.path.join(here, "depthwise.lua"), f"--shapes={shapes}", f"--dtype={dtype}",
                          f"--repeats={REPEATS}"], check=True, capture_output=True, text=True,
                         env={**os.environ, "CAPL_THREADS": str(threads)}).stdout
    return json.loads(out.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32
    rounds = []
    for _ in range(args.rounds):
        ours = capl_ms(args.dtype, args.threads)
        theirs = [min(torch_ms(s, dtype, m) for m in (torch.contiguous_format, torch.channels_last)) for s in SHAPES]
        rounds.append(list(zip(ours, theirs)))
    rows = []
    for i, shape in enumerate(SHAPES):
        rows.append({"shape": shape, "capl_ms": min(r[i][0] for r in rounds), "torch_ms": min(r[i][1] for r in rounds),
                     "ratio": statistics.median(r[i][0] / r[i][1] for r in rounds)})
    if args.json:
        print(json.dumps({"dtype": args.dtype, "threads": args.threads, "torch": torch.__version__, "rows": rows}))
        return
    print(f"{'N,C,H,W  kernel stride groups':36} {'capl ms':>9} {'torch ms':>9} {'ratio':>6}")
    for row in rows:
        n, c, h, w, kernel, stride, groups = row["shape"]
        text = f"{n},{c},{h},{w}  {kernel}x{kernel} stride {stride} groups {groups}"
        print(f"{text:36} {row['capl_ms']:9.2f} {row['torch_ms']:9.2f} {row['ratio']:6.2f}")


if __name__ == "__main__":
    main()
