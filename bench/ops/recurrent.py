#!/usr/bin/env python3
"""LSTM and GRU layers, forward and backward, in capl and in PyTorch, in turn: milliseconds and their ratio.

usage: recurrent.py [--dtype=f32|bf16] [--rounds=N] [--threads=N] [--json]

PyTorch runs with one thread and with N, the better one counts: beside other processes its threads wait for each other at every
step. bf16 is autocast in both, where PyTorch has it.
SPDX-License-Identifier: Apache-2.0
"""
import peers
import torch
from torch import nn

# kind, T, N, I, hidden, layers, bidirectional, with lengths
SHAPES = [
    ("LSTM", 50, 64, 128, 128, 2, 1, 0), ("LSTM", 25, 64, 512, 256, 2, 1, 0), ("LSTM", 50, 64, 128, 128, 1, 0, 0),
    ("LSTM", 24, 32, 13, 64, 2, 0, 0), ("LSTM", 7, 256, 32, 128, 2, 0, 0), ("LSTM", 50, 1, 128, 128, 2, 1, 0), ("GRU", 50, 64, 128, 128, 2, 1, 0),
    ("LSTM", 50, 64, 128, 128, 2, 1, 1),
]
REPEATS = 3
PATIENCE = 3  # seconds after which a shape is not repeated


def torch_ms(shape, dtype, _threads):
    kind, steps, batch, inputs, hidden, layers, both, ragged = shape
    model = getattr(nn, kind)(inputs, hidden, layers, bidirectional=bool(both))
    x = torch.randn(steps, batch, inputs, requires_grad=True)
    lengths = [steps - i % (steps // 2) for i in range(batch)]

    def forward():
        given = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False) if ragged else x
        y = model(given)[0]
        return nn.utils.rnn.pad_packed_sequence(y)[0] if ragged else y

    def run():
        model.zero_grad()
        x.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = forward().float().sum()
        loss.backward()
    return peers.best_ms(run, REPEATS, PATIENCE)


def torch_best(shape, dtype, threads):
    best = float("inf")
    for count in sorted({1, threads}):
        torch.set_num_threads(count)
        best = min(best, torch_ms(shape, dtype, count))
    return best


def describe(shape):
    kind, steps, batch, inputs, hidden, layers, both, ragged = shape
    return f"{kind} {steps},{batch},{inputs}  {hidden} x {layers}{', both ways' if both else ''}{', lengths' if ragged else ''}"


if __name__ == "__main__":
    peers.compare(__doc__, ["recurrent.lua", peers.shapes_word(SHAPES), f"--repeats={REPEATS}"], SHAPES, torch_best, describe)
