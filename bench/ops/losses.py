#!/usr/bin/env python3
"""Activations and losses, forward and backward, in capl and in PyTorch, in turn: milliseconds and their ratio.

usage: losses.py [--dtype=f32|bf16] [--rounds=N] [--threads=N] [--json]

Focal and dice losses are in PyTorch what their users write.
SPDX-License-Identifier: Apache-2.0
"""
import peers
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


def torch_ms(name, dtype, _threads):
    x, *rest = inputs(name, dtype)
    x.requires_grad_()

    def run():
        x.grad = None
        y = CASES[name](x, *rest)
        (y if rest else y.sum()).backward()
    return peers.best_ms(run, REPEATS)


if __name__ == "__main__":
    peers.compare(__doc__, ["losses.lua", "--names=" + ",".join(CASES), f"--repeats={REPEATS}"], list(CASES), torch_ms, str)
