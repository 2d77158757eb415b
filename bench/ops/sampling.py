#!/usr/bin/env python3
"""Resampling and indexing, forward and backward, in capl and in PyTorch, in turn: milliseconds and their ratio.

usage: sampling.py [--dtype=f32|bf16] [--rounds=N] [--threads=N] [--json]

PyTorch runs in both memory formats, the better one counts.
SPDX-License-Identifier: Apache-2.0
"""
import peers
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


def torch_ms(case, dtype, layout):
    makers, op = CASES[case]
    inputs = [make(dtype, layout) for make in makers]
    dy = torch.randn_like(op(*inputs))

    def run():
        for x in inputs:
            x.grad = None
        (op(*inputs) * dy).sum().backward()
    return peers.best_ms(run, REPEATS)


def torch_best(case, dtype, _threads):
    return min(torch_ms(case, dtype, layout) for layout in (torch.contiguous_format, torch.channels_last))


if __name__ == "__main__":
    peers.compare(__doc__, ["sampling.lua", f"--repeats={REPEATS}"], list(CASES), torch_best, str)
