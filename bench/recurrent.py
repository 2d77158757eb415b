#!/usr/bin/env python3
"""LSTM and GRU layers, forward and backward, in capl and in PyTorch, in turn: milliseconds and their ratio.

usage: recurrent.py [--dtype=f32|bf16] [--rounds=N] [--threads=N] [--json]

Of each shape the least time of all rounds; the ratio is the median of the rounds' ratios. PyTorch runs with one thread and
with N, the better one counts: beside other processes its threads wait for each other at every step. bf16 is autocast in
both, where PyTorch has it. capl: CAPL_BIN, else build/capl.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import statistics
import subprocess
import time

import torch
from torch import nn

# kind, T, N, I, hidden, layers, bidirectional, with lengths
SHAPES = [
    ("LSTM", 50, 64, 128, 128, 2, 1, 0), ("LSTM", 25, 64, 512, 256, 2, 1, 0), ("LSTM", 50, 64, 128, 128, 1, 0, 0),
    ("LSTM", 24, 32, 13, 64, 2, 0, 0), ("LSTM", 50, 1, 128, 128, 2, 1, 0), ("GRU", 50, 64, 128, 128, 2, 1, 0),
    ("LSTM", 50, 64, 128, 128, 2, 1, 1),
]
REPEATS = 3
PATIENCE = 3  # seconds after which a shape is not repeated


def torch_ms(shape, low):
    kind, steps, batch, inputs, hidden, layers, both, ragged = shape
    model = getattr(nn, kind)(inputs, hidden, layers, bidirectional=bool(both))
    x = torch.randn(steps, batch, inputs, requires_grad=True)
    given = x
    if ragged:
        lengths = [steps - i % (steps // 2) for i in range(batch)]
    best, began = float("inf"), time.perf_counter()
    for k in range(REPEATS + 1):
        start = time.perf_counter()
        if k > 1 and start - began > PATIENCE:
            break
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            if ragged:
                given = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
            y = model(given)[0]
            if ragged:
                y = nn.utils.rnn.pad_packed_sequence(y)[0]
            loss = y.float().sum()
        loss.backward()
        if k:
            best = min(best, time.perf_counter() - start)
        model.zero_grad()
        x.grad = None
    return 1e3 * best


def torch_best(shape, low, threads):
    best = float("inf")
    for count in sorted({1, threads}):
        torch.set_num_threads(count)
        best = min(best, torch_ms(shape, low))
    return best


def capl_ms(dtype, threads):
    shapes = ";".join(",".join(map(str, shape)) for shape in SHAPES)
    here = os.path.dirname(os.path.abspath(__file__))
    binary = os.environ.get("CAPL_BIN") or os.path.join(here, "..", "build", "capl")
    out = subprocess.run([binary, os.path.join(here, "recurrent.lua"), f"--shapes={shapes}", f"--dtype={dtype}",
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
    rounds = []
    for _ in range(args.rounds):
        ours = capl_ms(args.dtype, args.threads)
        theirs = [torch_best(shape, args.dtype == "bf16", args.threads) for shape in SHAPES]
        rounds.append(list(zip(ours, theirs)))
    rows = []
    for i, shape in enumerate(SHAPES):
        rows.append({"shape": shape, "capl_ms": min(r[i][0] for r in rounds), "torch_ms": min(r[i][1] for r in rounds),
                     "ratio": statistics.median(r[i][0] / r[i][1] for r in rounds)})
    if args.json:
        print(json.dumps({"dtype": args.dtype, "threads": args.threads, "torch": torch.__version__, "rows": rows}))
        return
    print(f"{'T,N,I  hidden x layers':48} {'capl ms':>9} {'torch ms':>9} {'ratio':>6}")
    for row in rows:
        kind, steps, batch, inputs, hidden, layers, both, ragged = row["shape"]
        text = f"{kind} {steps},{batch},{inputs}  {hidden} x {layers}{', both ways' if both else ''}{', lengths' if ragged else ''}"
        print(f"{text:48} {row['capl_ms']:9.2f} {row['torch_ms']:9.2f} {row['ratio']:6.2f}")


if __name__ == "__main__":
    main()
