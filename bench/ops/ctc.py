#!/usr/bin/env python3
"""log_softmax and the CTC loss, forward and backward, in capl and in PyTorch, in turn: milliseconds and their ratio.

usage: ctc.py [--rounds=N] [--threads=N] [--json]

Scores are (N,T,K) in capl, as its models give them, and (T,N,K) in PyTorch, as its loss wants them.
SPDX-License-Identifier: Apache-2.0
"""
import peers
import torch
import torch.nn.functional as F

# T, N, K, S: time steps, samples, classes, characters
SHAPES = [(25, 64, 37, 4), (25, 64, 63, 6), (50, 64, 37, 6), (50, 64, 63, 8), (100, 64, 37, 8), (100, 64, 63, 8),
          (25, 64, 11, 5), (200, 16, 96, 40)]
REPEATS = 20


def texts_of(n, k, s):
    rows = [[(i * 7 + j * 11) % (k - 1) + 1 for j in range(1, s + 1)] for i in range(1, n + 1)]
    return torch.tensor(rows), torch.tensor([s - i % (s // 2 + 1) for i in range(1, n + 1)])


def torch_ms(shape, _dtype, _threads):
    t, n, k, s = shape
    scores = torch.randn(t, n, k, requires_grad=True)
    targets, lengths = texts_of(n, k, s)
    steps = torch.full((n,), t)

    def run():
        scores.grad = None
        F.ctc_loss(F.log_softmax(scores, -1), targets, steps, lengths, zero_infinity=True).backward()
    return peers.best_ms(run, REPEATS)


if __name__ == "__main__":
    peers.compare(__doc__, ["ctc.lua", peers.shapes_word(SHAPES), f"--repeats={REPEATS}"], SHAPES, torch_ms,
                  lambda c: "T,N,K = {},{},{}, {} characters".format(*c), dtypes=("f32",))
