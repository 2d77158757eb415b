#!/usr/bin/env python3
"""Forty steps under PyTorch's GradScaler with forced overflows -> grad_scaler.json (see README.md).

usage: grad_scaler.py [--check]      needs PyTorch 2.3 or newer (a GradScaler for the CPU); seconds
SPDX-License-Identifier: Apache-2.0
"""
import torch
from torch import nn, optim

from golden_file import finish, rounded

STEPS = 40
# The batch of step s is (1, -0.5, 0.25) times 2^push: with a scale of 2^k the half-precision gradient is 2^(k + push).
PUSH = [0, 0, 0, 1, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 12, 12, 0, 0, 0, -3, -3, -3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0]

RUNS = [
    {"optimizer": "SGD", "options": {"lr": 0.05, "momentum": 0.9}, "clip_norm": 0.0,
     "scaler": {"init_scale": 262144.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3}},
    {"optimizer": "AdamW", "options": {"lr": 0.05, "weight_decay": 0.1}, "clip_norm": 0.0,
     "scaler": {"init_scale": 65536.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 2}},
    {"optimizer": "Adam", "options": {"lr": 0.05}, "clip_norm": 0.5,
     "scaler": {"init_scale": 1024.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 4}},
    {"optimizer": "RMSprop", "options": {"lr": 0.01, "momentum": 0.5}, "clip_norm": 1.0,
     "scaler": {"init_scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 1}},
]


def run(setup):
    x = nn.Parameter(torch.tensor([0.5, -0.25, 1.0]))
    optimizer = getattr(optim, setup["optimizer"])([x], **setup["options"])
    scaler = torch.amp.GradScaler("cpu", **setup["scaler"])
    scales, skipped, norms = [], [], []
    for push in PUSH:
        batch = (torch.tensor([1.0, -0.5, 0.25]) * 2.0 ** push).half()
        y = x.half() * batch
        loss = (y.float() * y.float()).sum()
        before = scaler.get_scale()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = x.grad.norm()
        if setup["clip_norm"] > 0 and torch.isfinite(norm):
            nn.utils.clip_grad_norm_([x], setup["clip_norm"])
        scaler.step(optimizer)
        scaler.update()
        scales.append(before)
        skipped.append(int(not torch.isfinite(norm)))
        norms.append(rounded(norm, 6) if torch.isfinite(norm) else -1)
    return {**setup, "scales": scales, "last_scale": scaler.get_scale(), "skipped": skipped, "norms": norms,
            "x": [rounded(v, 7) for v in x.detach()]}


def main():
    finish(__file__, {"about": "torch.amp.GradScaler on the CPU, float32 weights, float16 products", "push": PUSH,
                      "runs": [run(setup) for setup in RUNS]})


if __name__ == "__main__":
    main()
