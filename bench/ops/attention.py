#!/usr/bin/env python3
"""Layer norm, dropout and attention, forward and backward, in capl and in PyTorch, in turn: milliseconds and their ratio.

usage: attention.py [--dtype=f32|bf16] [--rounds=N] [--threads=N] [--json]

Attention is held against the fastest of what this PyTorch has: F.scaled_dot_product_attention (or what it was called
before), the plain composition, and its batched products.
SPDX-License-Identifier: Apache-2.0
"""
import math

import peers
import torch
import torch.nn.functional as F
from torch import nn

SHAPES = [
    ("layer_norm", 4096, 256), ("layer_norm", 1600, 512), ("layer_norm", 20000, 64), ("layer_norm", 512, 3000), ("dropout", 4096, 256),
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
    if what == "dropout":
        drop, x = nn.Dropout(0.2), torch.randn(*sizes, dtype=dtype, requires_grad=True)
        return [(lambda: drop(x), [x])]
    if what == "layer":
        n, heads, length, e = sizes
        layer, x = nn.MultiheadAttention(heads * e, heads, batch_first=True), torch.randn(n, length, heads * e, requires_grad=True)

        def forward():
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
                return layer(x, x, x, need_weights=False)[0]
        return [(forward, [x, *layer.parameters()])]
    return attention(*sizes, dtype, what == "causal")


def torch_ms(shape, dtype, _threads):
    best = math.inf
    for forward, inputs in ways(shape, dtype):
        dy = torch.ones_like(forward())

        def run(forward=forward, inputs=inputs, dy=dy):
            for x in inputs:
                x.grad = None
            (forward() * dy).sum().backward()
        best = min(best, peers.best_ms(run, REPEATS))
    return best


if __name__ == "__main__":
    peers.compare(__doc__, ["attention.lua", peers.shapes_word(SHAPES), f"--repeats={REPEATS}"], SHAPES, torch_ms,
                  lambda shape: " ".join(map(str, shape)))
