#!/usr/bin/env python3
"""Layer norm and attention, forward and backward, in capl and in PyTorch, in turn: milliseconds and their ratio.

usage: attention.py [--dtype=f32|bf16] [--rounds=N] [--threads=N] [--json]

Attention is held against the fastest of what this PyTorch has: F.scaled_dot_product_attention (or what it was called
before), the plain composition, and its batched products. Of each shape the least time of all rounds; the ratio is the
median of the rounds' ratios. capl: CAPL_BIN, else build/capl.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = [
    ("layer_norm", 4096, 256), ("layer_norm", 1600, 512), ("layer_norm", 20000, 64), ("layer_norm", 512, 3000),
    ("attention", 32, 4, 64, 32), ("attention", 32, 4, 128, 64), ("attention", 32, 4, 256, 64), ("attention", 8, 8, 100, 48),
    ("causal", 32, 4, 256, 64), ("layer", 32, 4, 64, 32), ("layer", 32, 4, 128, 64),
]
REPEATS = 5


def composed(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]))
    return torch.softmax(scores if mask is None else scores + mask, -1) @ v


def batched(q, k, v, mask):
    n, h, length, e = q.shape
    q, k, v = (x.reshape(n * h, length, e) for x in (q, k, v))
    if mask is None:
        scores = torch.bmm(q / math.sqrt(e), k.transpose(1, 2))
    else:
        scores = torch.baddbmm(mask, q / math.sqrt(e), k.transpose(1, 2))
    return torch.bmm(torch.softmax(scores, -1), v).reshape(n, h, length, e)


def own(q, k, v, mask):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=mask is not None)
    return F._scaled_dot_product_attention(q, k, v, mask)[0]


def attention(n, heads, length, e, dtype, causal=False):
    """The ways of PyTorch to do it, each with its inputs."""
    qkv = [torch.randn(n, heads, length, e, dtype=dtype, requires_grad=True) for _ in range(3)]
    mask = torch.zeros(length, length, dtype=dtype).masked_fill(torch.ones(length, length).triu(1) > 0, -math.inf) if causal else None
    return [(lambda f=f: f(*qkv, mask), qkv) for f in (composed, batched, own)]


def ways(shape, dtype):
    what, *sizes = shape
    if what == "layer_norm":
        layer = nn.LayerNorm(sizes[1]).to(dtype)
        x = torch.randn(*sizes, dtype=dtype, requires_grad=True)
        return [(lambda: layer(x), [x, layer.weight, layer.bias])]
    if what == "layer":
        n, heads, length, e = sizes
        layer, x = nn.MultiheadAttention(heads * e, heads, batch_first=True), torch.randn(n, length, heads * e, requires_grad=True)

        def forward():
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
                return layer(x, x, x, need_weights=False)[0]
        return [(forward, [x, *layer.parameters()])]
    return attention(*sizes, dtype, what == "causal")


def torch_ms(shape, dtype):
    best = math.inf
    for forward, inputs in ways(shape, dtype):
        dy = torch.ones_like(forward())
        for k in range(REPEATS + 1):
            start = time.perf_counter()
            (forward() * dy).sum().backward()
            if k:
                best = min(best, time.perf_counter() - start)
            for x in inputs:
                x.grad = None
    return 1e3 * best


def capl_ms(dtype, threads):
    shapes = ";".join(",".join(map(str, shape)) for shape in SHAPES)
    here = os.path.dirname(os.path.abspath(__file__))
    binary = os.environ.get("CAPL_BIN") or os.path.join(here, "..", "build", "capl")
    out = subprocess.run([binary, os.path.join(here, "attention.lua"), f"--shapes={shapes}", f"--dtype={dtype}",
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
        rounds.append(list(zip(ours, [torch_ms(shape, dtype) for shape in SHAPES])))
    rows = []
    for i, shape in enumerate(SHAPES):
        rows.append({"shape": shape, "capl_ms": min(r[i][0] for r in rounds), "torch_ms": min(r[i][1] for r in rounds),
                     "ratio": statistics.median(r[i][0] / r[i][1] for r in rounds)})
    if args.json:
        print(json.dumps({"dtype": args.dtype, "threads": args.threads, "torch": torch.__version__, "rows": rows}))
        return
    print(f"{'':32} {'capl ms':>9} {'torch ms':>9} {'ratio':>6}")
    for row in rows:
        print(f"{' '.join(map(str, row['shape'])):32} {row['capl_ms']:9.2f} {row['torch_ms']:9.2f} {row['ratio']:6.2f}")


if __name__ == "__main__":
    main()
