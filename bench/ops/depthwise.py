#!/usr/bin/env python3
"""Depthwise and grouped convolutions, forward and backward, in capl and in PyTorch, in turn: milliseconds and their ratio.

usage: depthwise.py [--dtype=f32|bf16] [--rounds=N] [--threads=N] [--json]

PyTorch runs in both memory formats, the better one counts.
SPDX-License-Identifier: Apache-2.0
"""
import peers
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

    def forward():
        return F.conv2d(x, weight, bias, stride, (kernel - 1) // 2, 1, groups)
    dy = torch.randn_like(forward())

    def run():
        x.grad = weight.grad = bias.grad = None
        forward().backward(dy)
    return peers.best_ms(run, REPEATS)


def torch_best(shape, dtype, _threads):
    return min(torch_ms(shape, dtype, layout) for layout in (torch.contiguous_format, torch.channels_last))


def describe(shape):
    n, c, h, w, kernel, stride, groups = shape
    return f"{n},{c},{h},{w}  {kernel}x{kernel} stride {stride} groups {groups}"


if __name__ == "__main__":
    peers.compare(__doc__, ["depthwise.lua", peers.shapes_word(SHAPES), f"--repeats={REPEATS}"], SHAPES, torch_best, describe)
