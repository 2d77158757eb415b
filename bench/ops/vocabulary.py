#!/usr/bin/env python3
"""What follows a model's last layer, in capl and in PyTorch, in turn: milliseconds and their ratio.

usage: vocabulary.py [--dtype=f32|bf16] [--rounds=N] [--threads=N] [--json]

1,920 time steps of 20,001 classes, then 131,072 pixels of 11. Losses are forward and backward and in f32; `copy` reads and
writes the scores once, which no other row but amax and argmax can be faster than.
SPDX-License-Identifier: Apache-2.0
"""
import peers
import torch
import torch.nn.functional as F

REPEATS, STEPS, SYMBOLS = 5, 60, 4
MANY, FEW = (1920, 20001), (131072, 11)
NAMES = ["copy", "amax", "argmax", "softmax", "softmax_grad", "log_softmax", "log_softmax_grad", "cross_entropy", "ctc"]


def trained(x, loss):
    scores = x.float().requires_grad_()

    def run():
        scores.grad = None
        loss(scores).backward()
    return run


def cross_entropy(x):
    labels = torch.randint(x.shape[1], (x.shape[0],))
    return trained(x, lambda scores: F.cross_entropy(scores, labels))


def ctc(x):
    n, k = x.shape[0] // STEPS, x.shape[1]
    texts, steps, lengths = torch.randint(k - 1, (n, SYMBOLS)), torch.full((n,), STEPS), torch.full((n,), SYMBOLS)
    return trained(x, lambda scores: F.ctc_loss(F.log_softmax(scores.view(n, STEPS, k).permute(1, 0, 2), -1), texts, steps, lengths, blank=k - 1))


def maker(name, x):
    aten, y = torch.ops.aten, x.softmax(-1) if name.endswith("grad") else None
    return {
        "copy": x.clone, "amax": lambda: x.amax(-1), "argmax": lambda: x.argmax(-1),
        "softmax": lambda: x.softmax(-1), "log_softmax": lambda: x.log_softmax(-1),
        "softmax_grad": lambda: aten._softmax_backward_data(x, y, -1, x.dtype),
        "log_softmax_grad": lambda: aten._log_softmax_backward_data(x, y, -1, x.dtype),
    }.get(name) or {"cross_entropy": cross_entropy, "ctc": ctc}[name](x)


def compare(shape, names):
    def torch_ms(name, dtype, _threads):
        with torch.set_grad_enabled(name in ("cross_entropy", "ctc")):
            return peers.best_ms(maker(name, torch.randn(*shape).to(dtype)), REPEATS)
    print("{} rows of {} classes".format(*shape))
    words = ["vocabulary.lua", "--names=" + ",".join(names), f"--rows={shape[0]}", f"--classes={shape[1]}", f"--repeats={REPEATS}"]
    peers.compare(__doc__, words, names, torch_ms, str)


if __name__ == "__main__":
    compare(MANY, NAMES)
    compare(FEW, NAMES[:-1])
