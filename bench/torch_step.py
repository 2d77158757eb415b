#!/usr/bin/env python3
"""One training step of captcha_cnn in PyTorch, as its users write it: the peer to compare capl with.

usage: torch_step.py {f32|f32cl|bf16|bf16cl} BATCH STEPS      (prints one line of JSON)

cl = channels_last, bf16 = CPU autocast. Fixed random batch, no data loading. Threads: OMP_NUM_THREADS
(PyTorch's own default is not always the number of cores). Works with PyTorch 1.13 and newer.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import resource
import statistics
import sys
import time

import torch
from torch import nn

N_WARM_UP = 3
N_POSITIONS, N_CLASSES = 4, 36


def block(c_in, c_out, pool=False):
    layers = [nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU()]
    return layers + ([nn.MaxPool2d(2)] if pool else [])


def captcha_cnn():
    return nn.Sequential(
        *block(1, 32, pool=True), *block(32, 64), *block(64, 64, pool=True), *block(64, 128),
        *block(128, 128), *block(128, 128, pool=True), *block(128, 128),
        nn.Flatten(), nn.Linear(17920, 1024), nn.Dropout(0.5), nn.ReLU(),
        nn.Linear(1024, N_POSITIONS * N_CLASSES))


def random_batch(size):
    labels = torch.randint(N_CLASSES, (size, N_POSITIONS))
    target = nn.functional.one_hot(labels, N_CLASSES).float().reshape(size, -1)
    return torch.rand(size, 1, 60, 160), target


def make_step(model, images, target, bf16):
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=1e-4)
    criterion = nn.MultiLabelSoftMarginLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            logits = model(images)
        loss = criterion(logits.float(), target)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def time_steps(step, count):
    """Milliseconds of each step after the warm-up, first and last loss."""
    losses = [step() for _ in range(N_WARM_UP)]
    milliseconds = []
    for _ in range(count):
        start = time.perf_counter()
        losses.append(step())
        milliseconds.append((time.perf_counter() - start) * 1e3)
    return milliseconds, losses[0], losses[-1]


def main(mode, batch, steps):
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count()))
    torch.manual_seed(0)
    model = captcha_cnn().train()
    images, target = random_batch(batch)
    if mode.endswith("cl"):
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    milliseconds, first, last = time_steps(make_step(model, images, target, mode.startswith("bf16")), steps)
    median = statistics.median(milliseconds)
    print(json.dumps({
        "images_per_s": round(batch * 1e3 / median, 1), "step_ms": round(median, 2),
        "min_ms": round(min(milliseconds), 2),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "loss_first": round(first, 5), "loss_last": round(last, 5),
        "torch": torch.__version__, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("f32", "f32cl", "bf16", "bf16cl"):
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
