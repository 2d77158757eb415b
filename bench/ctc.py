#!/usr/bin/env python3
"""log_softmax and the CTC loss, forward and backward, in capl and in PyTorch, in turn: milliseconds and their ratio.

usage: ctc.py [--rounds=N] [--threads=N] [--json]

Scores are (N,T,K) in capl, as its models give them, and (T,N,K) in PyTorch, as its loss wants them. Of each shape the least
time of all rounds; the ratio is the median of the rounds' ratios. capl: CAPL_BIN, else build/capl.
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

# T, N, K, S: time steps, samples, classes, characters
SHAPES = [(25, 64, 37, 4), (25, 64, 63, 6), (50, 64, 37, 6), (50, 64, 63, 8), (100, 64, 37, 8), (100, 64, 63, 8),
          (25, 64, 11, 5), (200, 16, 96, 40)]
REPEATS = 20


def texts_of(n, k, s):
    rows = [[(i * 7 + j * 11) % (k - 1) + 1 for j in range(1, s + 1)] for i in range(1, n + 1)]
    return torch.tensor(rows), torch.tensor([s - i % (s // 2 + 1) for i in range(1, n + 1)])


def torch_ms(t, n, k, s):
    scores = torch.randn(t, n, k, requires_grad=True)
    targets, lengths = texts_of(n, k, s)
    steps = torch.full((n,), t)
    best = float("inf")
    for round_ in range(REPEATS + 1):
        start = time.perf_counter()
        F.ctc_loss(F.log_softmax(scores, -1), targets, steps, lengths, zero_infinity=True).backward()
        if round_:
            best = min(best, time.perf_counter() - start)
        scores.grad = None
    return 1e3 * best


def capl_ms(threads):
    shapes = ";".join(",".join(map(str, shape)) for shape in SHAPES)
    here = os.path.dirname(os.path.abspath(__file__))
    binary = os.environ.get("CAPL_BIN") or os.path.join(here, "..", "build", "capl")
    out = subprocess.run([binary, os.path.join(here, "ctc.lua"), f"--shapes={shapes}", f"--repeats={REPEATS}"], check=True,
                         capture_output=True, text=True, env={**os.environ, "CAPL_THREADS": str(threads)}).stdout
    return json.loads(out.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rounds = [list(zip(capl_ms(args.threads), [torch_ms(*s) for s in SHAPES])) for _ in range(args.rounds)]
    rows = []
    for i, shape in enumerate(SHAPES):
        rows.append({"shape": shape, "capl_ms": min(r[i][0] for r in rounds), "torch_ms": min(r[i][1] for r in rounds),
                     "ratio": statistics.median(r[i][0] / r[i][1] for r in rounds)})
    if args.json:
        print(json.dumps({"threads": args.threads, "torch": torch.__version__, "rows": rows}))
        return
    print(f"{'T,N,K  characters':24} {'capl ms':>9} {'torch ms':>9} {'ratio':>6}")
    for row in rows:
        t, n, k, s = row["shape"]
        print(f"{f'{t},{n},{k}  {s}':24} {row['capl_ms']:9.2f} {row['torch_ms']:9.2f} {row['ratio']:6.2f}")


if __name__ == "__main__":
    main()
