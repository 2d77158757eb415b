#!/usr/bin/env python3
"""Activations and losses, forward and backward, in capl and in PyTorch, in turn: milliseconds and their ratio.

usage: losses.py [--dtype=f32|bf16] [--rounds=N] [--threads=N]

Of each the least time of all rounds; the ratio is the median of the rounds' ratios. capl: CAPL_BIN, else build/capl. Focal and
dice losses are in PyTorch what their users write.
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


def sigmoid_focal(x, target):
    p = torch.sigmoid(x)
    each = F.binary_cross_entropy_with_logits(x, target, reduction="none")
    p_t = p * target + (1 - p) * (1 - target)
    return (each * (1 - p_t) ** 2 * (0.25 * target + 0.75 * (1 - target))).mean()


def dice(x, labels):
    p, t = F.softmax(x, 1), F.one_hot(labels, 11).permute(0, 3, 1, 2)
    overlap, area = (p * t).sum((0, 2, 3)), p.sum((0, 2, 3)) + t.sum((0, 2, 3))
    return (1 - (2 * overlap + 1) / (area + 1)).mean()


CASES = {
    "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "softplus": F.softplus, "elu": F.elu, "hardswish": F.hardswish, "leaky_relu": F.leaky_relu,
    "bce_with_logits": F.binary_cross_entropy_with_logits, "focal": sigmoid_focal, "smooth_l1": F.smooth_l1_loss,
    "cross_entropy": F.cross_entropy, "dice": dice,
}
OF_ELEMENTS, OF_CLASSES = ("bce_with_logits", "focal", "smooth_l1"), ("cross_entropy", "dice")


def inputs(name, dtype):
    if name in OF_ELEMENTS:
        return torch.randn(16, 1, 256, 256).to(dtype), (torch.rand(16, 1, 256, 256) > 0.5).to(dtype)
    if name in OF_CLASSES:
        return torch.randn(8, 11, 128, 128).to(dtype), torch.randint(11, (8, 128, 128))
    return (torch.randn(32, 64, 32, 64).to(dtype),)


def torch_ms(name, dtype):
    x, *rest = inputs(name, dtype)
    x.requires_grad_()
    best = float("inf")
    for k in range(REPEATS + 1):
        start = time.perf_counter()
        y = CASES[name](x, *rest)
        (y if rest else y.sum()).backward()
        if k:
            best = min(best, time.perf_counter() - start)
        x.grad = None
    return 1e3 * best


def capl_ms(dtype, threads):
    here = os.path.dirname(os.path.abspath(__file__))
    binary = os.environ.get("CAPL_BIN") or os.path.join(here, "..", "build", "capl")
    out = subprocess.run([binary, os.path.join(here, "losses.lua"), "--names=" + ",".join(CASES), f"--dtype={dtype}",
                          f"--repeats={REPEATS}"], check=True, capture_output=True, text=True,
                         env={**os.environ, "CAPL_THREADS": str(threads)}).stdout
    return dict(zip(CASES, json.loads(out.strip().splitlines()[-1])))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[args.dtype]
    ours, theirs = {name: [] for name in CASES}, {name: [] for name in CASES}
    for _ in range(args.rounds):
        for name, ms in capl_ms(args.dtype, args.threads).items():
            ours[name].append(ms)
            theirs[name].append(torch_ms(name, dtype))
    for name in CASES:
        ratio = statistics.median(a / b for a, b in zip(ours[name], theirs[name]))
        print(f"{name:16} capl {min(ours[name]):8.3f} ms   PyTorch {min(theirs[name]):8.3f} ms   ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
